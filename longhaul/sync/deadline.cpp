#include "longhaul/sync/deadline.h"

#include <algorithm>

#include "longhaul/base/decimal.h"
#include "longhaul/sync/flat.h"

namespace longhaul::sync {

RoundsWithDeadline::RoundsWithDeadline(const SyncEntry& entry, SyncParts parts,
                                       std::uint32_t min_sites, Lateness lateness,
                                       std::unique_ptr<Machine> service)
    : Synchronous(entry, std::move(parts), min_sites, std::move(service)), lateness_(lateness) {}

Status check_min_clients(std::uint32_t min_clients, const Place& place, double share) {
  const auto workers = place.members.with(Role::worker).size();  // known; every node asks
  const auto drawn = std::uint64_t(std::max(1.0, whole_nearest(share * double(workers))));
  if (min_clients <= drawn) return Ok{};
  return invalid("[sync] min_clients = " + std::to_string(min_clients) + ", but " +
                 std::to_string(drawn) + " workers compute in a round: lower it");
}

void RoundsWithDeadline::begin_run(Turn& turn) { local_.anchor(turn); }

bool RoundsWithDeadline::continues_late(Turn& turn) {
  if (kept_ && lateness_.drops && kept_->missed > 0) {
    discard(*kept_, turn);
    kept_.reset();
  }
  if (kept_) {
    give(std::exchange(kept_, std::nullopt).value(), turn);
    return true;
  }
  if (!is_behind()) return false;
  // A mean of too few waits for those who are behind, as long as a round waits for anybody.
  if (was_refused_)
    extend_deadline(turn);
  else
    stand_by(turn);
  return true;
}

void RoundsWithDeadline::begin_steps(std::optional<Time> allowed, Turn& turn) {
  are_steps_running_ = true;
  missed_ = 0;
  if (allowed || quorum() > 1) {
    const auto rest = buffers(turn);
    buffers_.assign(rest.begin(), rest.end());
  }
  if (!allowed) return;
  allowed_ = *allowed;
  extend_deadline(turn);
}

void RoundsWithDeadline::set_deadline(Time after, Turn& turn) {
  deadline_ = turn.now() + after;
  turn.set_timer(*this, kDeadline, *deadline_);
}

void RoundsWithDeadline::on_timer(TimerId id, Turn& turn) {
  if (id != kDeadline || !deadline_ || turn.now() < *deadline_) return;
  deadline_.reset();
  if (are_steps_running_ && working()) on_deadline(turn);
  on_progress(turn);
}

// The parameters are the learner's from here to the end of the steps.
void RoundsWithDeadline::miss_deadline(Turn& turn) {
  if (!is_behind()) {
    const auto x = local_.anchor();
    base_.assign(x.begin(), x.end());
    copy_.emplace(x.begin(), x.end());
    copy_->insert(copy_->end(), buffers_.begin(), buffers_.end());
  }
  stand_by(turn);
}

// u = x - X, of the X that the steps began with.
std::vector<float> RoundsWithDeadline::update_of_steps(Turn& turn) const {
  if (!is_behind()) return local_.update(turn);
  const auto x = parameters(turn);
  LH_CHECK(x.size() == base_.size());
  std::vector<float> u(x.size());
  for (std::size_t i = 0; i < u.size(); ++i) u[i] = x[i] - base_[i];
  return u;
}

void RoundsWithDeadline::end_steps(Update update, Turn& turn) {
  are_steps_running_ = false;
  if (deadline_) turn.cancel_timer(*this, kDeadline);
  deadline_.reset();
  if (!is_behind()) return give(std::move(update), turn);
  install(turn);
  update.missed = missed_;
  kept_ = std::move(update);
  // The round waits for it.
  if (working() && !continues_late(turn)) stand_by(turn);
}

void RoundsWithDeadline::give(Update update, Turn& turn) {
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

void RoundsWithDeadline::install(Turn& turn) {
  LH_CHECK(copy_->size() == turn.params().size());
  std::ranges::copy(*copy_, turn.params().begin());
  copy_.reset();
  base_ = {};
}

void RoundsWithDeadline::discard(const Update& update, Turn& turn) {
  turn.record("late_dropped", round(), double(update.steps));
}

std::span<float> RoundsWithDeadline::model(Turn& turn) {
  return copy_ ? std::span<float>(*copy_) : turn.params();
}

bool RoundsWithDeadline::has_model(const Turn& turn) const {
  return is_behind() || Synchronous::has_model(turn);
}

void RoundsWithDeadline::apply(std::span<float> ubar, Turn& turn) {
  local_.apply(ubar, outer(), model(turn).first(parameter_count(turn.place())));
  given_.reset();
  was_refused_ = false;
  if (is_behind()) ++missed_;
  if (kept_) ++kept_->missed;
  end_round(turn);
}

// Nobody's model moves: what was given is as good in the next round.
void RoundsWithDeadline::use_nothing(Turn& turn) {
  was_refused_ = true;
  if (given_) kept_ = std::exchange(given_, std::nullopt);
  if (kept_ && kept_->missed == 0 && !is_behind()) {
    // X is what its steps began with; the parameters may still be what they ended with.
    std::ranges::copy(local_.anchor(), turn.params().begin());
    std::ranges::copy(buffers_, buffers(turn).begin());
  }
  end_round(turn);
}

// Behind its round a worker computes while it takes part.
void RoundsWithDeadline::waited(Wait what, Time took, Turn& turn) {
  if (!is_behind()) Synchronous::waited(what, took, turn);
}

// What is given in no round any more is discarded.
bool RoundsWithDeadline::close(Turn& turn) {
  if (kept_) discard(*kept_, turn);
  kept_.reset();
  if (!is_behind()) return true;
  is_closing_ = true;
  turn.stop_computing();
  return false;
}

bool RoundsWithDeadline::ends_for_close(std::uint32_t steps, Turn& turn) {
  if (!is_closing_) return false;
  is_closing_ = are_steps_running_ = false;
  install(turn);
  if (steps > 0) turn.record("late_dropped", round(), double(steps));
  return true;
}

// Steps and updates are the sender's. At the end of a round it has no deadline, has given nothing
// and does not close; a state that says otherwise must not bring this node down later.
void RoundsWithDeadline::on_returned(Turn&) {
  are_steps_running_ = is_closing_ = false;
  deadline_.reset();
  copy_.reset();
  base_ = {};
  kept_.reset();
  given_.reset();
}

void RoundsWithDeadline::state(Archive& ar) {
  Synchronous::state(ar);
  ar(local_, are_steps_running_, is_closing_, was_refused_, deadline_, allowed_, buffers_, base_);
  ar(copy_, missed_, kept_, given_);
}

}  // namespace longhaul::sync
