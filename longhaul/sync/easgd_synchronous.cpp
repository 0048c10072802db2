#include "longhaul/sync/easgd_synchronous.h"

#include <algorithm>

#include "longhaul/sync/flat.h"

namespace longhaul::sync {

void SynchronousEasgd::begin_run(Turn& turn) {
  const auto x = parameters(turn);
  centre_.assign(x.begin(), x.end());
}

void SynchronousEasgd::begin_round(Turn& turn) { turn.compute(LocalStep{}, config_.steps); }

void SynchronousEasgd::on_computed(const Computed& computed, Turn& turn) {
  std::vector<float> apart(centre_.size());
  for (std::size_t i = 0; i < apart.size(); ++i) apart[i] = turn.params()[i] - centre_[i];
  contribute(apart, 1, computed, turn);
}

// x <- x - alpha (x - c); c <- c + beta mean(x - c)
void SynchronousEasgd::use_mean(std::span<float> mean, Turn& turn) {
  const auto workers = std::ranges::count_if(
      *turn.place().members, [](const Member& member) { return member.is(Role::worker); });
  const double alpha = config_.beta / double(workers);
  const auto x = turn.params();
  for (std::size_t i = 0; i < centre_.size(); ++i) {
    const double c = double(centre_[i]);
    x[i] = float(double(x[i]) - alpha * (double(x[i]) - c));
    centre_[i] = float(c + config_.beta * double(mean[i]));
  }
  end_with_centre(turn);
}

void SynchronousEasgd::use_nothing(Turn& turn) { end_with_centre(turn); }

// What is scored is the centre, with the running statistics that all have in common.
void SynchronousEasgd::end_with_centre(Turn& turn) {
  std::vector<float> model(turn.params().begin(), turn.params().end());
  std::copy(centre_.begin(), centre_.end(), model.begin());
  end_round(model, turn);
}

bool SynchronousEasgd::close(Turn& turn) {
  std::copy(centre_.begin(), centre_.end(), turn.params().begin());
  return true;
}

void SynchronousEasgd::state(Archive& ar) {
  Synchronous::state(ar);
  ar(centre_);
}

}  // namespace longhaul::sync
