#pragma once
// When each worker of ESync can be at the server, and how many local steps it may take until then:
// the decisions of the state server, without messages.
//   Li et al., "ESync: accelerating intra-domain federated learning in heterogeneous data centers",
//   IEEE Transactions on Services Computing, 2020; the rule as in its authors' public code
//   (Lizonghang/ESync). Ours are the push time in it, smoothed figures, leases of several steps and
//   asking ahead.
//
// All times are the state server's own, in seconds.
#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "longhaul/base/archive.h"
#include "longhaul/core/types.h"

namespace longhaul::sync::esync {

struct Standing {  // what a worker tells
  Round round = 0;
  std::uint32_t steps = 0;  // local steps of the round, when those that are granted are done (k)
  std::uint32_t ahead = 0;  // of them still to be done; its step under way is one
  double step_s = 0;        // c: time of a step
  double push_s = 0;        // d: time that its update needs to leave it
};

class ReachTime {
 public:
  struct Config {
    std::optional<double> margin_s = {};  // eps; absent: kMargin of the slowest's step
    std::uint32_t lease = 16;             // most steps granted at a time
    double smoothing = 0.5;               // weight of a new c and d
    bool with_push = true;                // d is part of the rule
  };
  static constexpr double kMargin = 0.05;

  explicit ReachTime(const Config& config) : config_(config) {}

  // Those who train now; who is not among them is forgotten.
  void members(std::set<Rank> members) {
    members_ = std::move(members);
    const auto left = [&](Rank r) { return !members_.contains(r); };
    std::erase_if(known_, [&](const auto& one) { return left(one.first); });
    std::erase_if(order_, [&](const Reach& one) { return left(one.second); });
  }

  // A member `r` asks how many more steps it may take before it is to give its update. It asked at
  // `sent` by this clock, and hears the answer as much later as it is `now`.
  void ask(Rank r, const Standing& asked, double sent, double now) {
    LH_CHECK(members_.contains(r));
    const bool first = !known_.contains(r);
    Known& known = known_[r];
    order_.erase(reach(r, known));
    const double weight = first ? 1 : config_.smoothing;
    known.step_s += weight * (asked.step_s - known.step_s);
    known.push_s += weight * ((config_.with_push ? asked.push_s : 0) - known.push_s);
    known.round = asked.round;
    known.steps = asked.steps;
    known.lead = now - sent;
    known.free = now + asked.ahead * known.step_s;
    known.ends = sent + asked.ahead * known.step_s;
    order_.insert(reach(r, known));
  }

  // That many; 0: none. Nothing: not known yet, as the slowest has not begun the round; to be put
  // again when another has asked, or at due(). Once for each question.
  std::optional<std::uint32_t> answer(Rank r, double now) {
    Known& known = known_.at(r);
    const auto due = this->due(r);
    if (known.steps > 0 && !begun_by_the_slowest(known) && (!due || now < *due))
      return std::nullopt;
    const std::uint32_t more = decide(r, known, now);
    known.ends += more * known.step_s;
    return more;
  }

  // When `r` needs its answer; nothing: it can wait for those who have not begun.
  std::optional<double> due(Rank r) const {
    const Known& known = known_.at(r);
    if (known.step_s <= 0) return std::nullopt;
    return known.free - known.lead;
  }

  // The round and steps of its last question; nothing: it has asked none.
  std::optional<std::pair<Round, std::uint32_t>> asked(Rank r) const {
    const auto known = known_.find(r);
    if (known == known_.end()) return std::nullopt;
    return std::pair{known->second.round, known->second.steps};
  }

  void state(Archive& ar) { ar(members_, known_, order_); }

 private:
  struct Known {
    Round round = 0;  // of its last question
    std::uint32_t steps = 0;
    double step_s = 0, push_s = 0;
    double lead = 0;  // how long an answer is under way
    double free = 0;  // when it will hear one, or be done with its steps
    double ends = 0;  // when the steps that it may take will be done
    void state(Archive& ar) { ar(round, steps, step_s, push_s, lead, free, ends); }
  };
  using Reach =
      std::pair<double, Rank>;  // -(c + d): the first is the slowest, of equals the lowest
  static Reach reach(Rank r, const Known& known) { return {-(known.step_s + known.push_s), r}; }
  Rank slowest() const { return order_.begin()->second; }  // argmax of c + d
  bool begun_by_the_slowest(const Known& mine) const {
    const bool all = known_.size() == members_.size();  // else perhaps the slowest is not known
    return all && known_.at(slowest()).round >= mine.round;
  }

  std::uint32_t decide(Rank r, const Known& mine, double now) const {
    if (mine.steps == 0) return 1;  // every worker does at least one step
    if (!begun_by_the_slowest(mine)) return 1;
    const Rank s = slowest();
    if (r == s || mine.step_s <= 0) return 0;
    const Known& slow = known_.at(s);
    if (slow.round > mine.round) return 0;  // that round is over
    const double eps = config_.margin_s.value_or(kMargin * slow.step_s);
    const double arrive = slow.ends + slow.push_s;
    const double free = std::max(now, mine.free);
    if (free + mine.step_s + mine.push_s + eps > arrive) return 0;
    const double fit = std::floor((arrive - eps - mine.push_s - free) / mine.step_s);
    return std::uint32_t(std::clamp(fit, 1.0, double(config_.lease)));
  }

  const Config config_;
  std::set<Rank> members_;
  std::map<Rank, Known> known_;  // members all
  std::set<Reach> order_;        // of known_
};

}  // namespace longhaul::sync::esync
