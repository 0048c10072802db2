#include "longhaul/sync/server/parameter_server_worker.h"

#include <algorithm>

namespace longhaul::sync::server {

void ParameterServerWorker::on_start(Turn& turn) {
  knows_server_ = !turn.place().comes_back();
  if (!knows_server_) return wait(turn);
  if (live_with(Role::worker, turn.place(), turn.view()).front() == turn.self()) send_start(turn);
  if (!prepares(turn)) ask(turn);
}

void ParameterServerWorker::begin_with(Rank server, bool wants_start, Turn& turn) {
  setup_.server = server;
  knows_server_ = true;
  if (ending_) return;  // the model that the run ends with comes next
  const bool lowest = live_with(Role::worker, turn.place(), turn.view()).front() == turn.self();
  if (wants_start && lowest) send_start(turn);
  if (!prepares(turn)) ask(turn);
}

// Whoever follows a lowest worker that is lost does not know whether the server has heard it.
void ParameterServerWorker::on_view(const View& before, Turn& turn) {
  if (begun_ || !knows_server_ || (phase_ != Phase::waiting && phase_ != Phase::computing)) return;
  const auto lowest = [&](const View& view) {
    return live_with(Role::worker, turn.place(), view).front();
  };
  if (lowest(turn.view()) != turn.self() || lowest(before) == turn.self()) return;
  start_is_due_ = true;
  if (phase_ == Phase::waiting) send_start(turn);  // else the learner is at work: when it asks
}

void ParameterServerWorker::send_start(Turn& turn) {
  const auto x = turn.params();
  auto model = std::make_shared<const std::vector<float>>(x.begin(), x.end());
  start_is_due_ = false;
  ServerHeader header;
  header.kind = ServerHeader::Kind::start;
  out_.push_back({setup_.server, header, std::move(model)});
}

void ParameterServerWorker::compute(Work work, std::uint32_t steps, Turn& turn) {
  if (failed()) return;
  phase_ = Phase::computing;
  turn.compute(std::move(work), steps);
}

void ParameterServerWorker::compute_near(double prox, std::uint32_t steps, Turn& turn) {
  if (prox == 0 || turn.place().phantom) return compute(LocalStep{}, steps, turn);
  const auto x = turn.params();
  const auto anchor = std::make_shared<const std::vector<float>>(x.begin(), x.end());
  compute(ProximalStep{prox, anchor}, steps, turn);
}

void ParameterServerWorker::ask(Turn& turn) {
  if (failed()) return;
  if (start_is_due_) send_start(turn);
  ServerHeader header;
  header.kind = ServerHeader::Kind::pull;
  header.version = version_;
  header.extension = pull_extension();
  out_.push_back({setup_.server, header, nullptr});
  wait(turn);
}

void ParameterServerWorker::wait(Turn& turn) {
  if (failed()) return;
  phase_ = Phase::waiting;
  asked_ = turn.now();
}

void ParameterServerWorker::push(std::span<const float> parameters, const Computed& computed,
                                 bool asks, Turn& turn) {
  std::vector<float> values(parameters.begin(), parameters.end());
  std::ranges::copy(buffers(turn), std::back_inserter(values));
  if (!turn.place().phantom) {
    turn.record("train_loss", clock_, computed.loss);
    turn.record("update_norm", clock_, norm_of(parameters));
  }
  ++clock_;
  if (!all_finite(values)) {
    phase_ = Phase::failed;
    return turn.fail(not_finite(who(setup_.name, turn.place()) + "its update " +
                                std::to_string(clock_) +
                                " has values that are not finite; lower [optimizer] rate"));
  }
  ServerHeader header;
  header.kind = ServerHeader::Kind::push;
  header.asks = asks;
  header.version = version_;
  header.samples = computed.samples;
  header.extension = push_extension(computed);
  out_.push_back(
      {setup_.server, header, std::make_shared<const std::vector<float>>(std::move(values))});
  if (asks) wait(turn);
}

std::optional<Envelope> ParameterServerWorker::outgoing() {
  if (out_.empty()) return std::nullopt;
  Envelope envelope = std::move(out_.front());
  out_.pop_front();
  return envelope;
}

void ParameterServerWorker::on_computed(const Computed& done, Turn& turn) {
  if (phase_ != Phase::computing) return;  // it has failed
  if (std::exchange(gives_up_, false) && !ending_) return given_up(done, turn);
  if (!ending_) return computed(done, turn);
  wait(turn);
  if (last_) end(turn);
}

void ParameterServerWorker::on_new_server(Rank server, Turn& turn) {
  setup_.server = server;
  if (failed()) return;
  out_.clear();
  if (last_ || ended()) {
    ServerHeader header;
    header.kind = ServerHeader::Kind::ended;
    header.version = version_;
    Snapshot model = last_ ? last_->values : nullptr;
    if (!model) {  // it ended; else the learner may still be at work
      const auto x = turn.params();
      model = std::make_shared<const std::vector<float>>(x.begin(), x.end());
    }
    out_.push_back({server, header, std::move(model)});
    return;
  }
  ending_ = false;
  oldest_ = 0;  // the new one may have lost some
  const Rank lowest = live_with(Role::worker, turn.place(), turn.view()).front();
  start_is_due_ = !begun_ && lowest == turn.self();
  if (phase_ == Phase::waiting) {
    ask(turn);
  } else {
    gives_up_ = begun_ && phase_ == Phase::computing;
  }
}

Status ParameterServerWorker::check_extension(const ServerHeader& header) const {
  if (header.kind == ServerHeader::Kind::notice || !header.extension.empty())
    return malformed("what only another strategy's server says");
  return Ok{};
}

Status ParameterServerWorker::admit(const ServerHeader& header, bool carries) {
  if (ending_ || phase_ >= Phase::ended) return malformed("an envelope after the last one");
  if (header.version < oldest_)
    return malformed("a model of version " + std::to_string(header.version) + " after version " +
                     std::to_string(oldest_));
  if (header.kind == ServerHeader::Kind::last) {
    if (!carries) return malformed("the last model without its values");
    ending_ = true;
    return Ok{};
  }
  LH_TRY(check_extension(header));
  if (header.kind == ServerHeader::Kind::notice)
    return begun_ && !carries ? Status(Ok{}) : malformed("a notice that nobody waits for");
  if (phase_ != Phase::waiting || (begun_ && !carries))
    return malformed("a model that nobody asked for");
  return Ok{};
}

void ParameterServerWorker::take(const Envelope& envelope, Turn& turn) {
  if (envelope.header.kind == ServerHeader::Kind::notice) return on_notice(envelope.header, turn);
  version_ = oldest_ = envelope.header.version;
  if (envelope.header.kind == ServerHeader::Kind::last) {
    ending_ = true;
    last_ = envelope;
    if (phase_ == Phase::waiting) end(turn);
    return;
  }
  turn.record("wait_s", clock_, seconds(turn.now() - asked_));
  begun_ = true;
  read(envelope.header, envelope.values, turn);
}

void ParameterServerWorker::read(const ServerHeader&, const Snapshot& model, Turn& turn) {
  if (model) set_model(model, turn);
  begin(turn);
}

void ParameterServerWorker::set_model(const Snapshot& model, Turn& turn) const {
  const auto x = turn.params();
  LH_CHECK(model->size() == x.size());
  std::copy(model->begin(), model->end(), x.begin());
}

void ParameterServerWorker::end(Turn& turn) {
  set_model(last_->values, turn);
  last_.reset();
  phase_ = Phase::ended;
}

std::string ParameterServerWorker::waiting_for() const {
  if (phase_ != Phase::waiting) return "";
  if (!knows_server_) return "the server, to be told that this node has returned";
  return std::string(ending_ ? "the model that the run ends with" : "the model") +
         " of the server, rank " + std::to_string(setup_.server);
}

void ParameterServerWorker::state(Archive& ar) {
  ar.expect(std::string(setup_.name) + " worker");
  ar(phase_, begun_, start_is_due_, ending_, version_, clock_, asked_, last_, out_);
  ar(gives_up_, oldest_, setup_.server, knows_server_);
}

}  // namespace longhaul::sync::server
