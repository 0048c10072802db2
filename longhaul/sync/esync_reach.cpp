#include "longhaul/sync/esync_reach.h"

#include <algorithm>
#include <cmath>

namespace longhaul::sync::esync {

void ReachTime::members(std::set<Rank> members) {
  members_ = std::move(members);
  const auto left = [&](Rank r) { return !members_.contains(r); };
  std::erase_if(known_, [&](const auto& one) { return left(one.first); });
  std::erase_if(order_, [&](const Reach& one) { return left(one.second); });
}

void ReachTime::ask(Rank r, const Standing& asked, double sent, double now) {
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

std::optional<std::pair<Round, std::uint32_t>> ReachTime::asked(Rank r) const {
  const auto known = known_.find(r);
  if (known == known_.end()) return std::nullopt;
  return std::pair{known->second.round, known->second.steps};
}

std::optional<std::uint32_t> ReachTime::answer(Rank r, double now) {
  Known& known = known_.at(r);
  const auto due = this->due(r);
  if (known.steps > 0 && !begun_by_the_slowest(known) && (!due || now < *due)) return std::nullopt;
  const std::uint32_t more = decide(r, known, now);
  known.ends += more * known.step_s;
  return more;
}

std::optional<double> ReachTime::due(Rank r) const {
  const Known& known = known_.at(r);
  if (known.step_s <= 0) return std::nullopt;
  return known.free - known.lead;
}

bool ReachTime::begun_by_the_slowest(const Known& mine) const {
  const bool all = known_.size() == members_.size();  // else perhaps the slowest is not known
  return all && known_.at(slowest()).round >= mine.round;
}

std::uint32_t ReachTime::decide(Rank r, const Known& mine, double now) const {
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

}  // namespace longhaul::sync::esync
