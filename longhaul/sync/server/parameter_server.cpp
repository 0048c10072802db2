#include "longhaul/sync/server/parameter_server.h"

#include "longhaul/sync/server/standby.h"

namespace longhaul::sync::server {

Status ParameterServer::check_extension(Rank, const ServerHeader& header) const {
  if (!header.extension.empty()) return malformed("what only another strategy's workers say");
  return Ok{};
}

Status ParameterServer::admit(Rank from, const ServerHeader& header, bool carries) const {
  using Kind = ServerHeader::Kind;
  if (!setup_.place.member(from).is(Role::worker)) return malformed("an envelope of no worker");
  if (carries != (header.kind != Kind::pull))
    return malformed("a header with a vector that has none, or without the one it has");
  LH_TRY(header.kind == Kind::ended ? ParameterServer::check_extension(from, header)
                                    : check_extension(from, header));
  const auto given = given_.find(from);
  switch (header.kind) {
    case Kind::start:
      return Ok{};
    case Kind::pull:
      if (waiting_.contains(from)) return malformed("it asks for the model for the second time");
      return Ok{};
    case Kind::push:
      if (given == given_.end() || header.version > given->second)
        return malformed("an update from version " + std::to_string(header.version) +
                         " of the model, which it was not given");
      if (waiting_.contains(from)) return malformed("an update of one that waits for the model");
      return Ok{};
    case Kind::ended:
      if (!took_over_ || !pending_pulls_.contains(from))
        return malformed("the end of a run that goes on");
      return Ok{};
    case Kind::model:
    case Kind::last:
    case Kind::notice:
    case Kind::serving:
      break;
  }
  return malformed("a model for the server");
}

void ParameterServer::take(const Envelope& envelope, Turn& turn) {
  if (ended_) return;  // what was on its way
  using Kind = ServerHeader::Kind;
  if (envelope.header.kind == Kind::start) {
    if (!store_.filled()) store_.fill(*envelope.values);
  } else if (envelope.header.kind == Kind::push) {
    push(envelope, turn);
  } else {
    if (envelope.header.kind == Kind::pull) {
      waiting_.insert(envelope.peer);
      on_pull(envelope.peer, envelope.header);
    }
    if (pending_pulls_.erase(envelope.peer) > 0 && took_over_) heard_again(envelope, turn);
  }
  settle(turn);
}

// Of a worker, after a takeover. Whoever has the model that the run ended with decides: it ends for
// all with that one.
void ParameterServer::heard_again(const Envelope& envelope, Turn& turn) {
  newest_had_ = std::max(newest_had_, envelope.header.version);
  if (envelope.header.kind == ServerHeader::Kind::ended) {
    have_last_.insert(envelope.peer);
    store_.restore(*envelope.values, envelope.header.version);
  }
  if (!pending_pulls_.empty()) return;
  const std::uint64_t here = store_.version();
  turn.record("updates_lost", rounds(), newest_had_ > here ? double(newest_had_ - here) : 0);
  if (have_last_.empty()) on_loss(turn);
}

void ParameterServer::settle(Turn& turn) {
  if (ended_) return;
  const bool all_heard = !took_over_ || pending_pulls_.empty();
  if (all_heard && (end_.over() || !have_last_.empty())) return end(turn);
  if (!end_.over()) release(turn);
}

Bytes ParameterServer::rest() {
  ParameterStore model = std::exchange(store_, {});
  Archive ar;
  state(ar);
  store_ = std::move(model);
  return std::make_shared<const Buffer>(ar.take());
}

Status ParameterServer::take_over(const Snapshot& model, std::uint64_t version, const Bytes& rest,
                                  Turn& turn) {
  if (model) {
    Archive ar(*rest);
    state(ar);
    LH_TRY(ar.finish());
    store_.restore(*model, version);
  }
  turn.record("rolled_back", version, 0);
  end_.forget_reports();
  ended_ = failed_ = false;
  took_over_ = true;
  newest_had_ = 0;
  have_last_.clear();
  given_.clear();
  waiting_.clear();
  out_.clear();
  const std::vector<Rank> live = live_with(Role::worker, turn.place(), turn.view());
  pending_pulls_ = {live.begin(), live.end()};
  for (Rank rank : setup_.workers)
    if (!turn.view().has(rank)) drop(rank);
  for (const auto& [rank, epoch] : turn.view().returned)
    if (rank != turn.self() && turn.place().member(rank).is(Role::worker)) {
      ServerHeader header;
      header.kind = ServerHeader::Kind::serving;
      header.asks = !store_.filled();
      header.version = store_.version();
      out_.push_back({rank, header, nullptr});
    }
  newcomers_.clear();
  if (model) on_takeover(turn);
  return Ok{};
}

void ParameterServer::push(const Envelope& envelope, Turn& turn) {
  LH_CHECK(store_.filled() && envelope.header.version <= store_.version());
  const auto staleness = double(store_.version() - envelope.header.version);
  end_.used(envelope.header.samples);
  newest_ = envelope.peer;
  if (envelope.header.asks) waiting_.insert(envelope.peer);
  const Round round = rounds();
  turn.record("push_came", envelope.header.samples, double(envelope.peer));
  const Taken taken = commit(envelope.peer, envelope.header, *envelope.values, turn);
  turn.record(taken == Taken::discarded ? "discarded" : "staleness", round, staleness);
  if (taken == Taken::committed) used_samples(envelope.peer, turn);
  if (taken == Taken::discarded) turn.record("push_discarded", round, double(envelope.peer));
  if (taken == Taken::committed) committed(turn);
}

void ParameterServer::used_samples(Rank rank, Turn& turn) {
  turn.record("push_used", store_.version() + 1, double(rank));
}

void ParameterServer::committed(Turn& turn) {
  if (!all_finite(store_.values())) {
    ended_ = failed_ = true;
    return turn.fail(not_finite(who(setup_.name, turn.place()) + "the update of rank " +
                                std::to_string(newest_) + " makes the model infinite" +
                                "; lower [optimizer] rate"));
  }
  store_.committed();
  end_.committed(store_, turn);
}

void ParameterServer::release(Turn& turn) {
  if (!store_.filled() || !pending_pulls_.empty()) return;
  for (auto it = waiting_.begin(); it != waiting_.end();) {
    const Rank rank = *it;
    if (!may_read(rank)) {
      ++it;
      continue;
    }
    it = waiting_.erase(it);
    // All begin with the same model, which each has.
    const bool has_it = !given_.contains(rank) && newcomers_.erase(rank) == 0 && !took_over_;
    given_[rank] = store_.version();
    on_model_sent(rank, turn);
    ServerHeader header;
    header.kind = ServerHeader::Kind::model;
    header.version = store_.version();
    header.extension = model_extension(rank);
    out_.push_back({rank, header, has_it ? nullptr : store_.snapshot()});
  }
}

bool ParameterServer::notify(Rank rank, Extension extension) {
  const auto given = given_.find(rank);
  if (ended_ || given == given_.end() || waiting_.contains(rank)) return false;
  ServerHeader header;
  header.kind = ServerHeader::Kind::notice;
  header.version = given->second;
  header.extension = std::move(extension);
  out_.push_back({rank, header, nullptr});
  return true;
}

void ParameterServer::end(Turn& turn) {
  if (ended_) return;
  ended_ = true;
  waiting_.clear();
  ServerHeader header;
  header.kind = ServerHeader::Kind::last;
  header.version = store_.version();
  for (Rank rank : live_with(Role::worker, turn.place(), turn.view())) {
    drop(rank);
    if (!have_last_.contains(rank)) out_.push_back({rank, header, store_.snapshot()});
  }
}

std::optional<Envelope> ParameterServer::outgoing() {
  if (out_.empty()) return std::nullopt;
  Envelope envelope = std::move(out_.front());
  out_.pop_front();
  return envelope;
}

void ParameterServer::on_view(const View& before, Turn& turn) {
  const View& view = turn.view();
  std::set<Rank> back;
  for (const auto& [rank, epoch] : view.returned)
    if (epoch != before.since(rank) && turn.place().member(rank).is(Role::worker))
      back.insert(rank);
  for (Rank rank : before.live) {
    if (view.has(rank) && !back.contains(rank)) continue;
    newcomers_.erase(rank);
    waiting_.erase(rank);
    pending_pulls_.erase(rank);
    given_.erase(rank);
    drop(rank);
  }
  for (Rank rank : back) welcome(rank);
  if (ended_) return;
  if (live_with(Role::worker, turn.place(), turn.view()).empty()) {
    ended_ = failed_ = true;
    return turn.fail(
        state_lost("all workers are lost: nobody is left to train; restart them and resume"));
  }
  if (store_.filled() && pending_pulls_.empty()) on_loss(turn);
  settle(turn);
}

// After the end it is given the model that the run ended with.
void ParameterServer::welcome(Rank rank) {
  ServerHeader header;
  header.kind = ServerHeader::Kind::serving;
  header.asks = !store_.filled();
  header.version = store_.version();
  out_.push_back({rank, header, nullptr});
  newcomers_.insert(rank);
  if (!ended_) return on_return(rank);
  if (failed_) return;
  header.kind = ServerHeader::Kind::last;
  header.asks = false;
  out_.push_back({rank, header, store_.snapshot()});
}

bool ParameterServer::has_copy() const {
  return store_.filled() && pending_pulls_.empty() && !ended_;
}

void ParameterServer::on_scored(Round round, const Evaluation& evaluation, Turn& turn) {
  end_.scored(round, evaluation);
  if (end_.over()) end(turn);
}

Range ParameterServer::parameters() const {
  return setup_.place.phantom ? Range{} : setup_.place.layout->parameters();
}

void ParameterServer::mix(std::span<float> x, std::span<const float> w, double share) {
  LH_CHECK(x.size() == w.size());
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] = float((1 - share) * double(x[i]) + share * double(w[i]));
}

void ParameterServer::mix_buffers(std::span<const float> values, Turn& turn) {
  const std::size_t from = parameters().length;
  const auto workers = live_with(Role::worker, turn.place(), turn.view()).size();
  mix(store_.change().subspan(from), values.subspan(from), 1 / double(workers));
}

std::string ParameterServer::waiting_for() const {
  if (ended_) return "";
  if (!store_.filled()) return "the model to start from, of the lowest worker";
  std::string text = "updates of ranks";
  for (const Rank rank : pending_pulls_) text += " " + std::to_string(rank);
  for (const auto& [rank, version] : given_)
    if (!waiting_.contains(rank)) text += " " + std::to_string(rank);
  return text;
}

void ParameterServer::state(Archive& ar) {
  ar.expect(std::string(setup_.name) + " server");
  ar(store_, end_, ended_, failed_, pending_pulls_, given_, waiting_, newest_, out_);
  ar(took_over_, newest_had_, have_last_, newcomers_);
}

}  // namespace longhaul::sync::server
