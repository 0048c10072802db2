#pragma once
// ServerHalf is what the server does in a strategy with one: it holds the model, takes what workers
// push into it in the order in which it comes, gives the model to those who ask, counts rounds and
// ends the run (end_rule.h). At the end all live workers are sent the same model, exactly.
#include <deque>
#include <set>

#include "longhaul/sync/server/courier.h"
#include "longhaul/sync/server/end_rule.h"
#include "longhaul/sync/server/setup.h"

namespace longhaul::sync::server {

class ServerHalf : public Machine {
 public:
  explicit ServerHalf(const Setup& setup)
      : setup_(setup),
        end_(setup.stop, setup.commits_a_round()),
        silent_(setup.workers.begin(), setup.workers.end()) {}

  void on_view(const View& before, Turn&) final;
  void on_scored(Round, const Evaluation&, Turn&) final;
  void state(Archive&) override;

  // --- from Served ------------------------------------------------------------------------------
  Status admit(Rank from, const Label&) const;
  void take(const Letter&, Turn&);
  std::optional<Letter> letter();  // to be sent
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
  // Takes a push. `label.version` is at most the store's. Of a phantom there are no values.
  virtual Taken commit(Rank from, const Label&, std::span<const float> values, Turn&) = 0;
  // May this worker have the model now? Asked again after every commit and loss.
  virtual bool may_read(Rank) const { return true; }
  // Label::clock of a model.
  virtual std::uint64_t clock() const { return 0; }
  // This worker is given the model as it stands.
  virtual void gives(Rank, Turn&) {}
  // It is lost, or the run is over: nothing has to be kept for it.
  virtual void drop(Rank) {}
  // What only this strategy's workers say: is it in order? Asked beside the rules of all.
  virtual Status may_say(Rank, const Label&) const { return Ok{}; }
  // A worker asks for the model.
  virtual void heard(Rank, const Label&) {}
  // What only this strategy's models say; after gives().
  virtual void address(Rank, Label&) {}
  // Some were lost and dropped: what waited for them alone may go on.
  virtual void on_loss(Turn&) {}

  // --- what it calls ----------------------------------------------------------------------------
  ParameterStore& store() { return store_; }
  const ParameterStore& store() const { return store_; }
  const Setup& setup() const { return setup_; }
  // store() was changed: it has one version more. Of a strategy that keeps pushes.
  void committed(Turn&);
  // Models to those who may have them, or the end: after a timer.
  void settle(Turn&);
  // Tells a worker that is at an update how urgent it is (Label); false: it is at none.
  bool urge(Rank, std::uint8_t urgency);
  bool over() const { return ended_ || end_.over(); }  // commits nothing any more
  // Of the flat vector; none in a phantom job.
  Range parameters() const;
  // x <- (1 - share) x + share w, for a part of the vector; in double, rounded once.
  static void mix(std::span<float> x, std::span<const float> w, double share);
  // The running statistics of a push, of which each live worker's newest count alike in the long
  // run.
  void mix_buffers(std::span<const float> values, Turn&);

 private:
  void push(const Letter&, Turn&);
  void release(Turn&);
  void end(Turn&);

  const Setup setup_;
  ParameterStore store_;
  EndRule end_;
  bool ended_ = false, failed_ = false;
  std::set<Rank> silent_;                // live workers that have not asked yet: all begin together
  std::map<Rank, std::uint64_t> given_;  // version of the newest model that each was given
  std::set<Rank> waiting_;               // for the model
  Rank newest_ = 0;                      // who pushed last
  std::deque<Letter> out_;
};

}  // namespace longhaul::sync::server
