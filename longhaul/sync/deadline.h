#pragma once
// RoundsWithDeadline is a Synchronous of local steps whose rounds do not wait for slow workers. A
// worker whose steps are not done at the deadline takes part in the exchange without a
// contribution. This continues in the following rounds until its steps are done. The means of these
// rounds move a copy of the model. Then the parameters become that copy, and the update of the
// steps is contributed to the next round, once ("fold"), or discarded ("drop"). The deadline is the
// worker's own timer; the outcome of the exchange names all contributors.
#include <algorithm>

#include "longhaul/sync/flat.h"
#include "longhaul/sync/local_update.h"
#include "longhaul/sync/step_norm.h"
#include "longhaul/sync/synchronous.h"

namespace longhaul::sync {

// SyncEntry::adapt of strategies whose Config::depends_on_time(): time decides which steps or
// updates a mean has.
template <class Config>
void adapt_by_time(const Settings& settings, SyncTraits& traits) {
  Config config;
  if (read_settings(settings, config) && config.depends_on_time()) traits.bits = Bits::schedule;
}

class RoundsWithDeadline : public Synchronous {
 public:
  void on_timer(TimerId id, Turn& turn) override {
    if (id != kDeadline || !deadline_ || turn.now() < *deadline_) return;
    deadline_.reset();
    if (are_steps_running_ && working()) on_deadline(turn);
    on_progress(turn);
  }

  void state(Archive& ar) override {
    Synchronous::state(ar);
    ar(local_, are_steps_running_, is_closing_, was_refused_, deadline_, allowed_, buffers_, base_);
    ar(copy_, missed_, kept_, given_);
  }

 protected:
  // `config` must have min_sites, late and min_clients.
  RoundsWithDeadline(const SyncEntry& entry, const auto& config, SyncParts parts,
                     std::unique_ptr<Machine> service = nullptr)
      : Synchronous(entry, std::move(parts), config.min_sites, std::move(service)),
        drops_late_(config.late == "drop"),
        min_clients_(config.min_clients) {}

  // How updates of unequal numbers of steps become one mean, and the weight of each.
  virtual StepNorm norm() const = 0;
  virtual double weight(const Computed& steps) const { return norm().weight(steps); }
  std::size_t scalars() const override { return norm().scalars(); }

  // --- Calls for strategies ---------------------------------------------------------------------
  // Called at the beginning of a round. Returns true if the round has no new steps: those of an
  // earlier round still run, or their update is contributed now.
  bool continues_late(Turn& turn) {
    if (kept_ && drops_late_ && kept_->missed > 0) {
      discard(*kept_, turn);
      kept_.reset();
    }
    if (kept_) {
      give(std::exchange(kept_, std::nullopt).value(), turn);
      return true;
    }
    if (!is_behind()) return false;
    // After a mean of too few contributions the round waits for late workers, until the deadline.
    if (was_refused_)
      extend_deadline(turn);
    else
      stand_by(turn);
    return true;
  }

  // Called when the steps of this round begin. `allowed`: time until their deadline, if they have
  // one.
  void begin_steps(std::optional<Time> allowed, Turn& turn) {
    are_steps_running_ = true;
    missed_ = 0;
    if (allowed || quorum() > 1) {
      assign(buffers_, buffers(turn));
    }
    if (!allowed) return;
    allowed_ = *allowed;
    extend_deadline(turn);
  }

  bool are_steps_running() const { return are_steps_running_; }
  // Returns true if steps are running that a later round overtook.
  bool is_behind() const { return copy_.has_value(); }
  // Called when the steps are done. u = x - X, with the X at their beginning, is contributed to
  // this round, or kept for the next one.
  void end_steps(const Computed& steps, Turn& turn) {
    are_steps_running_ = false;
    if (deadline_) turn.cancel_timer(*this, kDeadline);
    deadline_.reset();
    const auto x = parameters(turn);
    const auto rest = buffers(turn);
    Update update{.values = is_behind() ? difference_of(x, base_) : local_.update(turn),
                  .buffers = {rest.begin(), rest.end()},
                  .weight = weight(steps),
                  .loss = steps.loss,
                  .samples = steps.samples,
                  .steps = steps.steps};
    update.scalars = norm().divide(update.values, steps);
    if (!is_behind()) return give(std::move(update), turn);
    install(turn);
    update.missed = missed_;
    kept_ = std::move(update);
    // The round waits for the update.
    if (working() && !continues_late(turn)) stand_by(turn);
  }

  // Called in on_computed. Returns true if the run has ended, so that no mean has these steps.
  bool ends_for_close(std::uint32_t steps, Turn& turn) {
    if (!is_closing_) return false;
    is_closing_ = are_steps_running_ = false;
    install(turn);
    if (steps > 0) turn.record("late_dropped", round(), double(steps));
    return true;
  }

  // X <- X + outer(ubar)
  void use_mean(std::span<float> ubar, Turn& turn) override {
    norm().multiply(ubar, mean_scalars());
    local_.apply(ubar, outer(), model(turn).first(parameter_count(turn.place())));
    given_.reset();
    was_refused_ = false;
    if (is_behind()) ++missed_;
    if (kept_) ++kept_->missed;
    end_round(turn);
  }

  // Takes part in this round without a contribution. The parameters are the learner's until the
  // steps end.
  void miss_deadline(Turn& turn) {
    if (!is_behind()) {
      const auto x = local_.anchor();
      base_.assign(x.begin(), x.end());
      copy_.emplace(x.begin(), x.end());
      copy_->insert(copy_->end(), buffers_.begin(), buffers_.end());
    }
    stand_by(turn);
  }

  void set_deadline(Time after, Turn& turn) {
    deadline_ = turn.now() + after;
    turn.set_timer(*this, kDeadline, *deadline_);
  }

  void extend_deadline(Turn& turn) { set_deadline(allowed_, turn); }

  void begin_run(Turn& turn) override { local_.anchor(turn); }

  // Drops the sender's steps and updates. At the end of a round there is no deadline, no
  // contribution and no closing; a state that says otherwise must not fail this node later.
  void on_returned(Turn&) override {
    are_steps_running_ = is_closing_ = false;
    deadline_.reset();
    copy_.reset();
    base_ = {};
    kept_.reset();
    given_.reset();
  }

  // Keeps the contribution: no model changes, so it is as good in the next round.
  void use_nothing(Turn& turn) override {
    was_refused_ = true;
    if (given_) kept_ = std::exchange(given_, std::nullopt);
    if (kept_ && kept_->missed == 0 && !is_behind()) {
      // The steps began with X; the parameters may still be those at their end.
      std::ranges::copy(local_.anchor(), turn.params().begin());
      std::ranges::copy(buffers_, buffers(turn).begin());
    }
    end_round(turn);
  }

  // A worker behind its round computes while it takes part.
  void waited(Wait what, Time took, Turn& turn) override {
    if (!is_behind()) Synchronous::waited(what, took, turn);
  }

  // Discards an update that no later round takes.
  bool close(Turn& turn) override {
    if (kept_) discard(*kept_, turn);
    kept_.reset();
    if (!is_behind()) return true;
    is_closing_ = true;
    turn.stop_computing();
    return false;
  }

  std::size_t quorum() const override { return min_clients_; }
  std::span<float> model(Turn& turn) override {
    return copy_ ? std::span<float>(*copy_) : turn.params();
  }

  bool has_model(const Turn& turn) const override {
    return is_behind() || Synchronous::has_model(turn);
  }

  bool fits(std::size_t parameters) const override {
    return Synchronous::fits(parameters) && local_.fits(parameters);
  }
  static constexpr TimerId kDeadline{2};
  // Called when the deadline passes while the steps of the round are running.
  virtual void on_deadline(Turn& turn) { miss_deadline(turn); }

 private:
  struct Update {
    std::vector<float> values = {}, buffers = {}, scalars = {};
    double weight = 1, loss = 0;
    std::uint64_t samples = 0;
    std::uint32_t steps = 0;
    Round missed = 0;  // means used since the steps began
    void state(Archive& ar) { ar(values, buffers, scalars, weight, loss, samples, steps, missed); }
  };
  void give(Update update, Turn& turn) {
    if (update.missed > 0) turn.record("late", round(), double(update.missed));
    contribute({.values = update.values,
                .buffers = update.buffers,
                .weight = update.weight,
                .loss = update.loss,
                .samples = update.samples,
                .scalars = update.scalars},
               turn);
    if (quorum() > 1) given_ = std::move(update);
  }

  void install(Turn& turn) {
    LH_CHECK(copy_->size() == turn.params().size());
    std::ranges::copy(*copy_, turn.params().begin());
    copy_.reset();
    base_ = {};
  }

  void discard(const Update& update, Turn& turn) {
    turn.record("late_dropped", round(), double(update.steps));
  }

  const bool drops_late_;
  const std::uint32_t min_clients_;
  LocalUpdate local_;  // X
  bool are_steps_running_ = false;
  bool is_closing_ = false;
  bool was_refused_ = false;      // whether the last mean had too few contributions, or none
  std::optional<Time> deadline_;  // deadline of the round's steps
  Time allowed_{0};               // time from the beginning of the steps to that deadline
  std::vector<float> buffers_;    // buffers of X when the steps began; with a deadline or a quorum
  std::vector<float> base_;       // X when the steps began, once a round has overtaken them
  std::optional<std::vector<float>> copy_;  // X with its buffers from then on
  Round missed_ = 0;                        // means used since the steps began
  std::optional<Update> kept_;              // update for the next round
  std::optional<Update> given_;             // contribution to this round, with a quorum
};

}  // namespace longhaul::sync
