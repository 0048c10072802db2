#pragma once
// When each worker of ESync can be at the server, and how many local steps it may take until then:
// the decisions of the state server, without messages.
//   Li et al., "ESync: accelerating intra-domain federated learning in heterogeneous data centers",
//   IEEE Transactions on Services Computing, 2020; the rule as in its authors' public code
//   (Lizonghang/ESync). Ours are the push time in it, smoothed figures, leases of several steps and
//   asking ahead.
//
// All times are the state server's own, in seconds.
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
  void members(std::set<Rank> members);
  // A member `r` asks how many more steps it may take before it is to give its update. It asked at
  // `sent` by this clock, and hears the answer as much later as it is `now`.
  void ask(Rank r, const Standing&, double sent, double now);
  // That many; 0: none. Nothing: not known yet, as the slowest has not begun the round; to be put
  // again when another has asked, or at due(). Once for each question.
  std::optional<std::uint32_t> answer(Rank r, double now);
  // When `r` needs its answer; nothing: it can wait for those who have not begun.
  std::optional<double> due(Rank r) const;
  // The round and steps of its last question; nothing: it has asked none.
  std::optional<std::pair<Round, std::uint32_t>> asked(Rank r) const;
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
  bool begun_by_the_slowest(const Known&) const;
  std::uint32_t decide(Rank r, const Known&, double now) const;

  const Config config_;
  std::set<Rank> members_;
  std::map<Rank, Known> known_;  // members all
  std::set<Reach> order_;        // of known_
};

}  // namespace longhaul::sync::esync
