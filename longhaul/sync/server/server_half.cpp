#include "longhaul/sync/server/server_half.h"

namespace longhaul::sync::server {

Status ServerHalf::admit(Rank from, const Label& label) const {
  if (!setup_.place.member(from).is(Role::worker)) return malformed("a letter of no worker");
  LH_TRY(may_say(from, label));
  const auto given = given_.find(from);
  switch (label.kind) {
    case Label::Kind::start:
      return Ok{};
    case Label::Kind::pull:
      if (waiting_.contains(from)) return malformed("it asks for the model for the second time");
      return Ok{};
    case Label::Kind::push:
      if (given == given_.end() || label.version > given->second)
        return malformed("an update from version " + std::to_string(label.version) +
                         " of the model, which it was not given");
      if (waiting_.contains(from)) return malformed("an update of one that waits for the model");
      return Ok{};
    case Label::Kind::model:
    case Label::Kind::last:
    case Label::Kind::urge:
      break;
  }
  return malformed("a model for the server");
}

void ServerHalf::take(const Letter& letter, Turn& turn) {
  if (ended_) return;  // what was on its way
  if (letter.label.kind == Label::Kind::start) {
    if (!store_.filled()) store_.fill(*letter.values);
  } else if (letter.label.kind == Label::Kind::pull) {
    waiting_.insert(letter.peer);
    silent_.erase(letter.peer);
    heard(letter.peer, letter.label);
  } else {
    push(letter, turn);
  }
  settle(turn);
}

void ServerHalf::settle(Turn& turn) {
  if (!ended_) end_.over() ? end(turn) : release(turn);
}

void ServerHalf::push(const Letter& letter, Turn& turn) {
  LH_CHECK(store_.filled() && letter.label.version <= store_.version());
  const auto staleness = double(store_.version() - letter.label.version);
  end_.used(letter.label.samples);
  newest_ = letter.peer;
  if (letter.label.asks) waiting_.insert(letter.peer);
  const Round round = rounds();
  const Taken taken = commit(letter.peer, letter.label, *letter.values, turn);
  turn.record(taken == Taken::discarded ? "discarded" : "staleness", round, staleness);
  if (taken == Taken::committed) committed(turn);
}

void ServerHalf::committed(Turn& turn) {
  if (!all_finite(store_.values())) {
    ended_ = failed_ = true;
    return turn.fail(not_finite(who(setup_.name, turn.place()) + "the update of rank " +
                                std::to_string(newest_) + " makes the model infinite" +
                                "; lower [optimizer] rate"));
  }
  store_.committed();
  end_.committed(store_, turn);
}

void ServerHalf::release(Turn& turn) {
  if (!store_.filled() || !silent_.empty()) return;
  for (auto it = waiting_.begin(); it != waiting_.end();) {
    const Rank rank = *it;
    if (!may_read(rank)) {
      ++it;
      continue;
    }
    it = waiting_.erase(it);
    // All begin with the same model, which each has.
    const bool has_it = !given_.contains(rank);
    Label label{.kind = Label::Kind::model, .version = store_.version()};
    label.clock = clock();
    given_[rank] = store_.version();
    gives(rank, turn);
    address(rank, label);
    out_.push_back({rank, label, has_it ? nullptr : store_.snapshot()});
  }
}

bool ServerHalf::urge(Rank rank, std::uint8_t urgency) {
  const auto given = given_.find(rank);
  if (ended_ || given == given_.end() || waiting_.contains(rank)) return false;
  Label label{.kind = Label::Kind::urge, .version = given->second};
  label.urgency = urgency;
  out_.push_back({rank, label, nullptr});
  return true;
}

void ServerHalf::end(Turn& turn) {
  if (ended_) return;
  ended_ = true;
  waiting_.clear();
  const Label label{.kind = Label::Kind::last, .version = store_.version()};
  for (Rank rank : live_with(Role::worker, turn.place(), turn.view())) {
    drop(rank);
    out_.push_back({rank, label, store_.snapshot()});
  }
}

std::optional<Letter> ServerHalf::letter() {
  if (out_.empty()) return std::nullopt;
  Letter letter = std::move(out_.front());
  out_.pop_front();
  return letter;
}

void ServerHalf::on_view(const View& before, Turn& turn) {
  for (Rank rank : before.live) {
    if (turn.view().has(rank)) continue;
    waiting_.erase(rank);
    silent_.erase(rank);
    given_.erase(rank);
    drop(rank);
  }
  if (ended_) return;
  if (live_with(Role::worker, turn.place(), turn.view()).empty()) {
    ended_ = failed_ = true;
    return turn.fail("all workers are lost: nobody is left to train; restart them and resume");
  }
  if (store_.filled() && silent_.empty()) on_loss(turn);
  settle(turn);
}

void ServerHalf::on_scored(Round round, const Evaluation& evaluation, Turn& turn) {
  end_.scored(round, evaluation);
  if (end_.over()) end(turn);
}

Range ServerHalf::parameters() const {
  return setup_.place.phantom ? Range{} : setup_.place.layout->parameters();
}

void ServerHalf::mix(std::span<float> x, std::span<const float> w, double share) {
  LH_CHECK(x.size() == w.size());
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] = float((1 - share) * double(x[i]) + share * double(w[i]));
}

void ServerHalf::mix_buffers(std::span<const float> values, Turn& turn) {
  const std::size_t from = parameters().length;
  const auto workers = live_with(Role::worker, turn.place(), turn.view()).size();
  mix(store_.change().subspan(from), values.subspan(from), 1 / double(workers));
}

std::string ServerHalf::waiting_for() const {
  if (ended_) return "";
  if (!store_.filled()) return "the model to start from, of the lowest worker";
  std::string text = "updates of ranks";
  for (const Rank rank : silent_) text += " " + std::to_string(rank);
  for (const auto& [rank, version] : given_)
    if (!waiting_.contains(rank)) text += " " + std::to_string(rank);
  return text;
}

void ServerHalf::state(Archive& ar) {
  ar.expect(std::string(setup_.name) + " server");
  ar(store_, end_, ended_, failed_, silent_, given_, waiting_, newest_, out_);
}

}  // namespace longhaul::sync::server
