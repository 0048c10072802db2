#pragma once
// ParameterServer is what the server does in a strategy with one: it holds the model, takes what
// workers push into it in the order in which it comes, sends the model to those who ask, counts
// rounds and ends the run (end_rule.h). At the end it sends all live workers the same model,
// exactly.
#include <deque>
#include <set>

#include "longhaul/sync/server/end_rule.h"
#include "longhaul/sync/server/server_header.h"
#include "longhaul/sync/server/setup.h"

namespace longhaul::sync::server {

class ParameterServer : public Machine {
 public:
  explicit ParameterServer(const Setup& setup)
      : setup_(setup),
        end_(setup.stop, setup.commits_a_round()),
        pending_pulls_(setup.workers.begin(), setup.workers.end()) {}

  void on_view(const View& before, Turn&) final;
  void on_scored(Round, const Evaluation&, Turn&) final;
  void state(Archive&) override;

  // --- from ServerStrategy ----------------------------------------------------------------------
  // Is it in order that this worker sends this, with a vector or without?
  Status admit(Rank from, const ServerHeader&, bool carries) const;
  void take(const Envelope&, Turn&);
  std::optional<Envelope> outgoing();  // to be sent
  // Follows a server that is lost, with what it had at its last copy: all workers that live are to
  // ask anew, and begin together. Null: it had no model yet. An Error: the state is none of this
  // job.
  Status take_over(const Snapshot& model, std::uint64_t version, const Bytes& rest, Turn&);
  // For such a copy: the model as it stands, with its version, and everything else. Nothing to copy
  // before all have begun, and after the end.
  bool has_copy() const;
  // Not one that has returned and has not asked for the model yet: no copy goes to it.
  bool has_begun(Rank rank) const { return !newcomers_.contains(rank); }
  Snapshot model() const { return store_.snapshot(); }
  std::uint64_t version() const { return store_.version(); }
  Bytes rest();
  bool ended() const { return ended_ && !failed_; }
  bool failed() const { return failed_; }
  Round rounds() const { return end_.rounds(store_.version()); }
  std::string waiting_for() const;

 protected:
  // --- what a strategy is made of ---------------------------------------------------------------
  enum class Taken : std::uint8_t {
    discarded,  // nothing was changed
    kept,       // it is to go into the model with others: the strategy calls committed() then
    committed   // it is in store()
  };
  // Takes a push. Its version is at most the store's. Of a phantom there are no values.
  virtual Taken commit(Rank from, const ServerHeader&, std::span<const float> values, Turn&) = 0;
  // May this worker have the model now? Asked again after every commit and loss.
  virtual bool may_read(Rank) const { return true; }
  // This worker is sent the model as it stands.
  virtual void on_model_sent(Rank, Turn&) {}
  // What only this strategy's models say; after on_model_sent().
  virtual Extension model_extension(Rank) { return {}; }
  // It is lost, or the run is over: nothing has to be kept for it.
  virtual void drop(Rank) {}
  // Is what only this strategy's workers say in order? Asked beside the rules of all.
  virtual Status check_extension(Rank, const ServerHeader&) const;
  // A worker asks for the model.
  virtual void on_pull(Rank, const ServerHeader&) {}
  // It has returned, and begins with the model as it stands; drop() was before.
  virtual void on_return(Rank) {}
  // Some were lost and dropped, or all have asked anew after another server was lost: what waited
  // for them alone may go on.
  virtual void on_loss(Turn&) {}
  // It has taken over, with the state of the lost one: timers are to be set.
  virtual void on_takeover(Turn&) {}

  // --- what it calls ----------------------------------------------------------------------------
  ParameterStore& store() { return store_; }
  const ParameterStore& store() const { return store_; }
  const Setup& setup() const { return setup_; }
  // store() was changed: it has one version more. Of a strategy that keeps pushes.
  void committed(Turn&);
  // An update of this worker that was kept, its oldest, is in the change before committed().
  void used_samples(Rank, Turn&);
  // Models to those who may have them, or the end: after a timer.
  void settle(Turn&);
  // Sends a worker that is at an update a notice; false: it is at none.
  bool notify(Rank, Extension);
  bool over() const { return ended_ || end_.over(); }  // commits nothing any more
  // Of the flat vector; none in a phantom job.
  Range parameters() const;
  // x <- (1 - share) x + share w, for a part of the vector; in double, rounded once.
  static void mix(std::span<float> x, std::span<const float> w, double share);
  // The running statistics of a push, of which each live worker's newest count alike in the long
  // run.
  void mix_buffers(std::span<const float> values, Turn&);

 private:
  void push(const Envelope&, Turn&);
  void heard_again(const Envelope&, Turn&);
  void release(Turn&);
  void end(Turn&);
  void welcome(Rank);

  const Setup setup_;
  ParameterStore store_;
  EndRule end_;
  bool ended_ = false, failed_ = false;
  std::set<Rank> pending_pulls_;         // live workers that have not asked yet: all begin together
  std::map<Rank, std::uint64_t> given_;  // version of the newest model that each was given
  std::set<Rank> waiting_;               // for the model
  std::set<Rank> newcomers_;             // live ones that have returned and had no model since
  Rank newest_ = 0;                      // who pushed last
  // After a takeover: workers have other models than the one they begin with; the newest version
  // that any had; those that have the model which the run ended with.
  bool took_over_ = false;
  std::uint64_t newest_had_ = 0;
  std::set<Rank> have_last_;
  std::deque<Envelope> out_;
};

}  // namespace longhaul::sync::server
