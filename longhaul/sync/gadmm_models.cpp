// What a worker of GADMM computes, sends to its neighbours and reads of them in an iteration.
#include <cmath>

#include "longhaul/sync/flat.h"
#include "longhaul/sync/gadmm.h"
#include "longhaul/sync/gadmm/gradient_step.h"

namespace longhaul::sync {

void Gadmm::solve(Turn& turn) {
  phase_ = Phase::solving;
  turn.record("wait_s", done_, seconds(turn.now() - asked_));
  if (!is_admm()) {
    turn.compute(FullGradient{point(), true});
    return;
  }
  LocalSolve work;
  work.summed = true;
  if (!place_.phantom) {
    work.linear = duals_.sum(size_);
    for (const Rank rank : position_.neighbours)
      work.anchors.emplace_back(config_.rho, seen_[rank]);
    if (config_.mu > 0) work.anchors.emplace_back(config_.mu, std::vector<double>(size_));
  }
  turn.compute(std::move(work));
}

// theta, in fp64.
std::vector<double> Gadmm::point() const {
  if (config_.method != "dual_averaging") return theta_;
  return gadmm::averaged_point(start_, theta_, config_.step, done_);
}

double Gadmm::penalty_of(const std::vector<double>& theta) const {
  double square = 0;
  for (const double v : theta) square += v * v;
  return config_.mu / 2 * square;
}

// The solution is the next model; with a gradient it is made here. Then it is sent.
void Gadmm::use_result(Turn& turn) {
  const std::vector<double> at = is_admm() ? solved_ : point();
  loss_ += penalty_of(at);
  if (!is_admm() && !place_.phantom) {
    std::vector<gadmm::Neighbour> neighbours;
    for (const Rank rank : position_.neighbours)
      neighbours.push_back(
          {seen_.at(rank), chains_.position(rank, done_, view_).neighbours.size()});
    std::vector<double> next = gadmm::metropolis_mean(theta_, neighbours);
    const double step = config_.method == "dgd" ? -config_.step : 1;
    for (std::size_t i = 0; i < next.size(); ++i)
      next[i] += step * (solved_[i] + config_.mu * at[i]);
    solved_ = std::move(next);
  }
  send_model(turn);
}

// theta_n, as the neighbours will decode it.
void Gadmm::send_model(Turn& turn) {
  phase_ = Phase::exchanging;
  asked_ = turn.now();
  if (!are_finite(solved_))
    return fail(not_finite(is_admm() ? "the solution of its local problem is not finite"
                                     : "its model is not finite; lower [sync] step"),
                turn);
  const std::vector<Rank>& to = position_.neighbours;
  VectorContent content;
  if (to.empty() || config_.send == "fp64") {
    theta_ = std::move(solved_);
    content = doubles(theta_);
  } else if (config_.send == "codec") {
    auto values = std::make_shared<std::vector<float>>();
    for (const double v : solved_) values->push_back(float(v));
    const Range all{0, size_};
    if (!place_.phantom) {
      const auto read = channel_->as_received(*values, all, to.front(), {.group = 0});
      theta_.assign(read.begin(), read.end());
    }
    content = VectorContent::values(std::move(values), all);
  } else if (place_.phantom) {
    content = VectorContent::phantom({.kind = ContentKind::bytes,
                                      .range = {},
                                      .size = gadmm::quantised_bytes(size_, config_.bits)});
  } else {
    Random random = turn.random(Purpose::codec, done_, place_.self);
    content = VectorContent::bytes(share(gadmm::quantise(solved_, theta_, config_.bits, random)));
  }
  if (!are_finite(theta_)) return fail(not_finite("its model is too large for [codec]"), turn);
  solved_.clear();
  if (!to.empty()) send(to, Kind::model, 0, std::move(content), turn);
}

// What the neighbours have sent for this iteration, if it is time for it.
void Gadmm::take_models(Turn& turn) {
  for (const Rank rank : position_.neighbours) {
    if (inbox_.has(Kind::hello, rank, done_))
      seen_[rank] = inbox_.take(Kind::hello, rank, done_).content.doubles();
    if (position_.is_head != (phase_ == Phase::exchanging)) continue;
    if (!inbox_.has(Kind::model, rank, done_)) continue;  // a tail has taken it before it solved
    if (!read_model(rank, inbox_.take(Kind::model, rank, done_).content, turn)) return;
  }
}

bool Gadmm::read_model(Rank from, const VectorContent& content, Turn& turn) {
  std::vector<double>& seen = seen_[from];
  if (place_.phantom) return true;
  Status read = Ok{};
  if (content.kind() == ContentKind::doubles) {
    seen = content.doubles();
  } else if (content.kind() == ContentKind::values) {
    seen.assign(content.values()->begin(), content.values()->end());
  } else {
    read = gadmm::dequantise(*content.bytes(), seen, config_.bits);
  }
  if (read && !are_finite(seen)) read = malformed("a model that is not finite");
  if (read) return true;
  fail({read.error().kind,
        "rank " + std::to_string(from) + " broke the protocol: " + read.error().what},
       turn);
  return false;
}

void Gadmm::end_iteration(Turn& turn) {
  for (const Rank rank : position_.neighbours)
    if (is_admm()) duals_.step(rank, config_.rho, theta_, seen_[rank]);
  if (!place_.phantom && (config_.send == "fp64" || !is_admm()))
    turn.record("objective", done_, loss_);
  const Round round = done_++;
  if (!stopping_.wants_scores()) {
    tell_figure(round, std::isfinite(loss_) ? loss_ : gadmm::Stopping::kUnknown, turn);
  } else if (end_at_ == 0) {
    const std::vector<double> theta = point();
    penalties_[round] = penalty_of(theta);
    auto model = std::make_shared<std::vector<float>>(theta.begin(), theta.end());
    model->resize(place_.layout->size());
    turn.report(round, std::move(model));
  }
  judge(turn);
  is_greeted_ = false;
  inbox_.pass(done_);
  phase_ = Phase::deciding;
  show_model(turn);
  report_round(turn);
}

}  // namespace longhaul::sync
