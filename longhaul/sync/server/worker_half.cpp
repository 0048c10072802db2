#include "longhaul/sync/server/worker_half.h"

#include <algorithm>

namespace longhaul::sync::server {

void WorkerHalf::on_start(Turn& turn) {
  if (live_with(Role::worker, turn.place(), turn.view()).front() == turn.self()) give_start(turn);
  if (!prepares(turn)) ask(turn);
}

// Whoever follows a lowest worker that is lost does not know whether the server has heard it.
void WorkerHalf::on_view(const View& before, Turn& turn) {
  if (begun_ || (phase_ != Phase::waiting && phase_ != Phase::computing)) return;
  const auto lowest = [&](const View& view) {
    return live_with(Role::worker, turn.place(), view).front();
  };
  if (lowest(turn.view()) != turn.self() || lowest(before) == turn.self()) return;
  owes_start_ = true;
  if (phase_ == Phase::waiting) give_start(turn);  // else the learner is at work: when it asks
}

void WorkerHalf::give_start(Turn& turn) {
  const auto x = turn.params();
  auto model = std::make_shared<const std::vector<float>>(x.begin(), x.end());
  owes_start_ = false;
  out_.push_back({setup_.server, {.kind = Label::Kind::start}, std::move(model)});
}

void WorkerHalf::compute(Work work, std::uint32_t steps, Turn& turn) {
  if (failed()) return;
  phase_ = Phase::computing;
  turn.compute(std::move(work), steps);
}

void WorkerHalf::compute_near(double prox, std::uint32_t steps, Turn& turn) {
  if (prox == 0 || turn.place().phantom) return compute(LocalStep{}, steps, turn);
  const auto x = turn.params();
  const auto anchor = std::make_shared<const std::vector<float>>(x.begin(), x.end());
  compute(ProximalStep{prox, anchor}, steps, turn);
}

void WorkerHalf::ask(Turn& turn) {
  if (failed()) return;
  if (owes_start_) give_start(turn);
  Label label{.kind = Label::Kind::pull, .version = version_};
  sign(label);
  out_.push_back({setup_.server, label, nullptr});
  wait(turn);
}

void WorkerHalf::wait(Turn& turn) {
  if (failed()) return;
  phase_ = Phase::waiting;
  asked_ = turn.now();
}

void WorkerHalf::push(std::span<const float> parameters, const Computed& computed, bool asks,
                      Turn& turn) {
  std::vector<float> values(parameters.begin(), parameters.end());
  std::ranges::copy(buffers(turn), std::back_inserter(values));
  if (!turn.place().phantom) {
    turn.record("train_loss", clock_, computed.loss);
  }
  ++clock_;
  if (!all_finite(values)) {
    phase_ = Phase::failed;
    return turn.fail(not_finite(who(setup_.name, turn.place()) + "its update " +
                                std::to_string(clock_) +
                                " has values that are not finite; lower [optimizer] rate"));
  }
  Label label{.kind = Label::Kind::push, .version = version_};
  label.asks = asks;
  label.steps = computed.steps;
  label.samples = computed.samples;
  label.shard = computed.shard_size;
  sign(label);
  label.loss = std::clamp(computed.loss, -1e300, 1e300);
  out_.push_back(
      {setup_.server, label, std::make_shared<const std::vector<float>>(std::move(values))});
  if (asks) wait(turn);
}

std::optional<Letter> WorkerHalf::letter() {
  if (out_.empty()) return std::nullopt;
  Letter letter = std::move(out_.front());
  out_.pop_front();
  return letter;
}

void WorkerHalf::on_computed(const Computed& done, Turn& turn) {
  if (phase_ != Phase::computing) return;  // it has failed
  if (!ending_) return computed(done, turn);
  wait(turn);
  if (last_) end(turn);
}

Status WorkerHalf::admit(const Label& label) {
  if (ending_ || phase_ >= Phase::ended) return malformed("a letter after the last one");
  if (label.version < version_)
    return malformed("a model of version " + std::to_string(label.version) + " after version " +
                     std::to_string(version_));
  if (label.kind == Label::Kind::last) {
    ending_ = true;
    return Ok{};
  }
  if (label.kind == Label::Kind::urge)
    return begun_ && takes_urgency() ? Status(Ok{}) : malformed("an urgency that nobody asked for");
  if (phase_ != Phase::waiting || (begun_ && !label.carries))
    return malformed("a model that nobody asked for");
  return Ok{};
}

void WorkerHalf::take(const Letter& letter, Turn& turn) {
  if (letter.label.kind == Label::Kind::urge) return urged(letter.label, turn);
  version_ = letter.label.version;
  if (letter.label.kind == Label::Kind::last) {
    ending_ = true;
    last_ = letter;
    if (phase_ == Phase::waiting) end(turn);
    return;
  }
  turn.record("wait_s", clock_, seconds(turn.now() - asked_));
  begun_ = true;
  read(letter.label, letter.values, turn);
}

void WorkerHalf::read(const Label&, const Snapshot& model, Turn& turn) {
  if (model) set_model(model, turn);
  begin(turn);
}

void WorkerHalf::set_model(const Snapshot& model, Turn& turn) const {
  const auto x = turn.params();
  LH_CHECK(model->size() == x.size());
  std::copy(model->begin(), model->end(), x.begin());
}

void WorkerHalf::end(Turn& turn) {
  set_model(last_->values, turn);
  last_.reset();
  phase_ = Phase::ended;
}

std::string WorkerHalf::waiting_for() const {
  if (phase_ != Phase::waiting) return "";
  return std::string(ending_ ? "the model that the run ends with" : "the model") +
         " of the server, rank " + std::to_string(setup_.server);
}

void WorkerHalf::state(Archive& ar) {
  ar.expect(std::string(setup_.name) + " worker");
  ar(phase_, begun_, owes_start_, ending_, version_, clock_, asked_, last_, out_);
}

}  // namespace longhaul::sync::server
