#pragma once
// ParameterServer is the server of a strategy. It holds the model, takes the workers' pushes in
// order of arrival, and sends the model to workers that ask for it. It counts rounds and ends the
// run (end_rule.h). At the end it sends the same exact model to all live workers.
#include <deque>
#include <set>

#include "longhaul/sync/server/end_rule.h"
#include "longhaul/sync/server/server_header.h"
#include "longhaul/sync/server/setup.h"
#include "longhaul/sync/server/standby.h"

namespace longhaul::sync::server {

class ParameterServer : public Machine {
 public:
  explicit ParameterServer(const Setup& setup)
      : setup_(setup),
        end_(setup.stop, setup.commits_a_round()),
        pending_pulls_(setup.workers.begin(), setup.workers.end()) {}

  void on_view(const View& before, Turn& turn) final {
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
    if (live_workers(turn).empty()) {
      ended_ = failed_ = true;
      return turn.fail(
          state_lost("all workers are lost: nobody is left to train; restart them and resume"));
    }
    if (store_.filled() && pending_pulls_.empty()) on_loss(turn);
    settle(turn);
  }

  void on_scored(Round round, const Evaluation& evaluation, Turn& turn) final {
    end_.scored(round, evaluation);
    if (end_.over()) end(turn);
  }

  void state(Archive& ar) override {
    ar.expect(std::string(setup_.name) + " server");
    ar(store_, end_, ended_, failed_, pending_pulls_, given_, waiting_, newest_, out_);
    ar(took_over_, newest_had_, have_last_, newcomers_);
  }

  // --- from ServerStrategy ----------------------------------------------------------------------
  // Returns Malformed if this worker must not send this header, with a vector (`carries`) or
  // without.
  Status admit(Rank from, const ServerHeader& header, bool carries) const {
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

  void take(const Envelope& envelope, Turn& turn) {
    if (ended_) return;  // still in transit at the end
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

  // Returns the next envelope to send; null if none.
  std::optional<Envelope> outgoing() {
    if (out_.empty()) return std::nullopt;
    Envelope envelope = std::move(out_.front());
    out_.pop_front();
    return envelope;
  }

  // Replaces a lost server, with the state of its last copy. All live workers must ask again, and
  // start together. `model` is null if the lost server had none yet. Returns an Error if the state
  // is not of this job.
  Status take_over(const Snapshot& model, std::uint64_t version, const Bytes& rest, Turn& turn) {
    if (model) {
      if (rest) {  // a phantom job sends its size alone
        Archive ar(*rest);
        state(ar);
        LH_TRY(ar.finish());
      }
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
    const std::vector<Rank> live = live_workers(turn);
    pending_pulls_ = {live.begin(), live.end()};
    for (Rank rank : setup_.workers)
      if (!turn.view().has(rank)) drop(rank);
    for (const auto& [rank, epoch] : turn.view().returned)
      if (rank != turn.self() && turn.place().member(rank).is(Role::worker)) {
        say_who_serves(rank);
      }
    newcomers_.clear();
    if (model) on_takeover(turn);
    return Ok{};
  }

  // Returns true if there is something to copy: after all workers have started, until the end. A
  // copy has the current model, its version and the rest of the state.
  bool has_copy() const { return store_.filled() && pending_pulls_.empty() && !ended_; }

  // Returns false for a returned worker that has not asked for the model yet. No copy goes to it.
  bool has_begun(Rank rank) const { return !newcomers_.contains(rank); }
  Snapshot model() const { return store_.snapshot(); }
  std::uint64_t version() const { return store_.version(); }
  Bytes rest() {
    ParameterStore model = std::exchange(store_, {});
    Archive ar;
    state(ar);
    store_ = std::move(model);
    return std::make_shared<const Buffer>(ar.take());
  }

  bool ended() const { return ended_ && !failed_; }
  bool failed() const { return failed_; }
  Round rounds() const { return end_.rounds(store_.version()); }
  std::string waiting_for() const {
    if (ended_) return "";
    if (!store_.filled()) return "the model to start from, of the lowest worker";
    std::string text = "updates of ranks" + listed(pending_pulls_);
    for (const auto& [rank, version] : given_)
      if (!waiting_.contains(rank)) text += " " + std::to_string(rank);
    return text;
  }

 protected:
  // --- hooks for strategies ----------------------------------------------------------------------
  enum class Taken : std::uint8_t {
    discarded,  // no change
    kept,       // to be committed with others: the strategy then calls committed()
    committed   // already in store()
  };
  // Takes a push. Its version is at most the store's. `values` is empty in a phantom job.
  virtual Taken commit(Rank from, const ServerHeader&, std::span<const float> values, Turn&) = 0;
  // Returns true if this worker can have the model now. Called again after every commit and loss.
  virtual bool may_read(Rank) const { return true; }
  // Called when the current model is sent to this worker.
  virtual void on_model_sent(Rank, Turn&) {}
  // Returns this strategy's extension of a model's header. Called after on_model_sent().
  virtual Extension model_extension(Rank) { return {}; }
  // Called when the worker is lost or the run has ended: nothing must be kept for it.
  virtual void drop(Rank) {}
  // Checks this strategy's extension of a worker's header, in addition to the common rules.
  virtual Status check_extension(Rank, const ServerHeader& header) const {
    if (!header.extension.empty()) return malformed("what only another strategy's workers say");
    return Ok{};
  }

  // Called when a worker asks for the model.
  virtual void on_pull(Rank, const ServerHeader&) {}
  // Called after drop() when a worker has returned. It starts with the current model.
  virtual void on_return(Rank) {}
  // Called when lost workers have been dropped, or when all workers have asked again after the loss
  // of another server. Updates that waited only for the lost workers can continue.
  virtual void on_loss(Turn&) {}
  // Called after a takeover with the state of the lost server. Must set the timers.
  virtual void on_takeover(Turn&) {}

  // --- calls for strategies ----------------------------------------------------------------------
  ParameterStore& store() { return store_; }
  const ParameterStore& store() const { return store_; }
  const Setup& setup() const { return setup_; }
  // Must be called by a strategy that keeps pushes when it has changed store(). Adds one version.
  void committed(Turn& turn) {
    if (!all_finite(store_.values())) {
      ended_ = failed_ = true;
      return turn.fail(not_finite(who(setup_.name, turn.place()) + "the update of rank " +
                                  std::to_string(newest_) + " makes the model infinite" +
                                  "; lower [optimizer] rate"));
    }
    store_.committed();
    end_.committed(store_, turn);
  }

  // Records that the oldest kept update of this worker is in the change. Called before committed().
  void used_samples(Rank rank, Turn& turn) {
    turn.record("push_used", store_.version() + 1, double(rank));
  }

  // Sends models to the workers that can have them, or ends the run. Also called after a timer.
  void settle(Turn& turn) {
    if (ended_) return;
    const bool all_heard = !took_over_ || pending_pulls_.empty();
    if (all_heard && (end_.over() || !have_last_.empty())) return end(turn);
    if (!end_.over()) release(turn);
  }

  // Sends a notice to a worker that computes an update. Returns false if it computes none.
  bool notify(Rank rank, Extension extension) {
    const auto given = given_.find(rank);
    if (ended_ || given == given_.end() || waiting_.contains(rank)) return false;
    out_.push_back({rank,
                    {.kind = ServerHeader::Kind::notice,
                     .version = given->second,
                     .extension = std::move(extension)},
                    nullptr});
    return true;
  }

  bool over() const { return ended_ || end_.over(); }  // no more commits
  // Returns the range of the parameters in the flat vector; empty in a phantom job.
  Range parameters() const {
    return setup_.place.phantom ? Range{} : setup_.place.layout->parameters();
  }

  // Sets x to (1 - share) x + share w, for a part of the vector. Computes in double, rounds once.
  static void mix(std::span<float> x, std::span<const float> w, double share) {
    LH_CHECK(x.size() == w.size());
    for (std::size_t i = 0; i < x.size(); ++i)
      x[i] = float((1 - share) * double(x[i]) + share * double(w[i]));
  }

  // Mixes the running statistics of a push into the model. In the long run the newest statistics of
  // each live worker have equal weight.
  void mix_buffers(std::span<const float> values, Turn& turn) {
    const std::size_t from = parameters().length;
    const auto workers = live_workers(turn).size();
    mix(store_.change().subspan(from), values.subspan(from), 1 / double(workers));
  }

 private:
  void push(const Envelope& envelope, Turn& turn) {
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

  // Takes the first request of a worker after a takeover. If a worker has the final model of the
  // run, the run ends for all workers with that model.
  void heard_again(const Envelope& envelope, Turn& turn) {
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

  void release(Turn& turn) {
    if (!store_.filled() || !pending_pulls_.empty()) return;
    for (auto it = waiting_.begin(); it != waiting_.end();) {
      const Rank rank = *it;
      if (!may_read(rank)) {
        ++it;
        continue;
      }
      it = waiting_.erase(it);
      // All workers start with the same model, which each of them has.
      const bool has_it = !given_.contains(rank) && newcomers_.erase(rank) == 0 && !took_over_;
      given_[rank] = store_.version();
      on_model_sent(rank, turn);
      out_.push_back({rank,
                      {.kind = ServerHeader::Kind::model,
                       .version = store_.version(),
                       .extension = model_extension(rank)},
                      has_it ? nullptr : store_.snapshot()});
    }
  }

  void end(Turn& turn) {
    if (ended_) return;
    ended_ = true;
    waiting_.clear();
    for (Rank rank : live_workers(turn)) {
      drop(rank);
      if (!have_last_.contains(rank)) send_last(rank);
    }
  }

  void say_who_serves(Rank rank) {
    const ServerHeader header{
        .kind = ServerHeader::Kind::serving, .asks = !store_.filled(), .version = store_.version()};
    out_.push_back({rank, header, nullptr});
  }

  void send_last(Rank rank) {
    const ServerHeader header{.kind = ServerHeader::Kind::last, .version = store_.version()};
    out_.push_back({rank, header, store_.snapshot()});
  }

  // Notifies a returned worker. After the end it receives the final model of the run.
  void welcome(Rank rank) {
    say_who_serves(rank);
    newcomers_.insert(rank);
    if (!ended_) return on_return(rank);
    if (failed_) return;
    send_last(rank);
  }

  const Setup setup_;
  ParameterStore store_;
  EndRule end_;
  bool ended_ = false, failed_ = false;
  std::set<Rank> pending_pulls_;         // live workers that have not asked yet: all start together
  std::map<Rank, std::uint64_t> given_;  // version of the newest model of each worker
  std::set<Rank> waiting_;               // workers that wait for the model
  std::set<Rank> newcomers_;             // live returned workers that have had no model since
  Rank newest_ = 0;                      // worker of the newest push
  // took_over_: workers have models other than the one they start with. newest_had_: newest version
  // that a worker had. have_last_: workers that have the final model of the run.
  bool took_over_ = false;
  std::uint64_t newest_had_ = 0;
  std::set<Rank> have_last_;
  std::deque<Envelope> out_;
};

}  // namespace longhaul::sync::server
