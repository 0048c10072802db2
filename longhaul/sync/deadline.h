#pragma once
// RoundsWithDeadline is a Synchronous of local steps whose rounds do not wait for slow workers. A
// worker whose steps are not done at the deadline of the round takes part in its exchange without
// giving anything, and in those of the rounds that follow, while its learner goes on. The means of
// these rounds move a copy of the model. When the steps are done, the parameters become that copy,
// and the update of the steps is given in the next round, once ("fold"), or discarded ("drop").
//
// The deadline is the worker's own timer: nobody is asked, and nobody decides for another. All know
// from the outcome of the exchange who gave something.
#include "longhaul/sync/local_update.h"
#include "longhaul/sync/synchronous.h"

namespace longhaul::sync {

// The settings late and min_clients.
template <class Visit, class Late, class Count>
void visit_late(Visit&& visit, Late& late, Count& min_clients) {
  visit(
      Field{.name = "late",
            .doc = "an update that misses the deadline of its round: fold: it is given in a later "
                   "round, once; drop: it is discarded",
            .choices = {"fold", "drop"}},
      late);
  visit(Field{.name = "min_clients",
              .doc =
                  "workers that must have given something to a mean, else it is not used, and what "
                  "they gave is given again in the next round",
              .min = 1},
        min_clients);
}

// SyncEntry::adapt of strategies whose Config::depends_on_time(): which steps or updates a mean
// has.
template <class Config>
void adapt_by_time(const Settings& settings, SyncTraits& traits) {
  Config config;
  if (read_settings(settings, config) && config.depends_on_time()) traits.bits = Bits::schedule;
}

// An Error if no round can have so many, `share` being that of the workers that compute in one.
Status check_min_clients(std::uint32_t min_clients, const Place&, double share = 1);

class RoundsWithDeadline : public Synchronous {
 public:
  void on_timer(TimerId, Turn&) override;
  void state(Archive&) override;

 protected:
  struct Lateness {
    bool drops = false;
    std::uint32_t min_clients = 1;
  };
  RoundsWithDeadline(const SyncEntry&, SyncParts, std::uint32_t min_sites, Lateness,
                     std::unique_ptr<Machine> service = nullptr);

  // --- what a strategy calls --------------------------------------------------------------------
  // At the beginning of a round: is it one without new steps? Those of an earlier round still run,
  // or their update is given now.
  bool continues_late(Turn&);
  // The steps of this round begin. Nothing: they have no deadline.
  void begin_steps(std::optional<Time> allowed, Turn&);
  bool are_steps_running() const { return are_steps_running_; }
  // Steps that a later round overtook are running.
  bool is_behind() const { return copy_.has_value(); }
  // They are done. `update`: of update_of_steps(), or made of it. It is given in this round, or
  // kept for the next one.
  std::vector<float> update_of_steps(Turn&) const;
  struct Update {
    std::vector<float> values, buffers, scalars;
    double weight = 1, loss = 0;
    std::uint64_t samples = 0;
    std::uint32_t steps = 0;
    Round missed = 0;  // means used since its steps began
    void state(Archive& ar) { ar(values, buffers, scalars, weight, loss, samples, steps, missed); }
  };
  void end_steps(Update, Turn&);
  // In on_computed: the run is over, and these steps are in no mean.
  bool ends_for_close(std::uint32_t steps, Turn&);
  // X <- X + outer(ubar), in use_mean(), which ends with it.
  void apply(std::span<float> ubar, Turn&);
  // What the deadline does where a strategy has another answer first: nothing given, at once.
  void miss_deadline(Turn&);
  void set_deadline(Time after, Turn&);
  void extend_deadline(Turn& turn) { set_deadline(allowed_, turn); }
  const LocalUpdate& local() const { return local_; }

  void begin_run(Turn&) override;
  void on_returned(Turn&) override;
  void use_nothing(Turn&) override;
  void waited(Wait, Time took, Turn&) override;
  bool close(Turn&) override;
  std::size_t quorum() const override { return lateness_.min_clients; }
  std::span<float> model(Turn&) override;
  bool has_model(const Turn&) const override;
  bool fits(std::size_t parameters) const override {
    return Synchronous::fits(parameters) && local_.fits(parameters);
  }
  static constexpr TimerId kDeadline{2};
  // It has come, in a round whose steps are running and that nothing is given to.
  virtual void on_deadline(Turn& turn) { miss_deadline(turn); }

 private:
  void give(Update, Turn&);
  void install(Turn&);
  void discard(const Update&, Turn&);

  const Lateness lateness_;
  LocalUpdate local_;  // X
  bool are_steps_running_ = false;
  bool is_closing_ = false;
  bool was_refused_ = false;      // the last mean was of too few workers, or of none
  std::optional<Time> deadline_;  // of the round's steps
  Time allowed_{0};               // how long after the beginning of the round that was
  std::vector<float> buffers_;    // of X, when the steps began; with a deadline or a quorum
  std::vector<float> base_;       // X when they began, once a round has overtaken them
  std::optional<std::vector<float>> copy_;  // X with its buffers from then on
  Round missed_ = 0;                        // means used since the steps began
  std::optional<Update> kept_;              // to be given in the next round
  std::optional<Update> given_;             // in this one, with a quorum
};

}  // namespace longhaul::sync
