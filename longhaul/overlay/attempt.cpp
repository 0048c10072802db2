#include "longhaul/overlay/attempt.h"

#include <algorithm>

#include "longhaul/overlay/rank_bits.h"

namespace longhaul::overlay {

void Attempt::set_contribution(double weight) {
  LH_CHECK(!contributed_ && spec_.team->takes_part());
  contributed_ = true;
  weight_ = weight;
}

TransferKey Attempt::key(Phase phase, Coding coding, Rank origin) const {
  return {spec_.team->epoch,
          {spec_.key, origin},
          std::uint8_t(phase),
          spec_.exact ? Coding::exact : coding};
}

Announcement Attempt::share(std::uint64_t length) const {
  return {spec_.team->epoch, {spec_.key, spec_.team->self}, length, spec_.exact, weight_,
          spec_.team->name};
}

void Attempt::post(const TransferKey& key, Rank to, std::vector<Range> ranges, double weight,
                   std::uint32_t hop, std::uint32_t hops, AttemptContext& context) {
  posted_.insert(key);
  context.posts.push_back({key, to, std::move(ranges), weight, bulk(hop, hops)});
}

Service Attempt::bulk(std::uint32_t hop, std::uint32_t hops) const {
  Service service = kBulk;
  constexpr std::uint32_t kRanges = 64;  // those beyond share a place
  const std::uint32_t range = std::min(spec_.key.range, kRanges - 1);
  service.order = std::uint32_t((spec_.key.round * kRanges + range) * hops + hop);
  return service;
}

Status Attempt::take_message(Rank from, const AttemptMessage&, AttemptContext&) {
  return refuse(from, "a note, which this overlay has none of");
}

void TopologyOutput::carry_out(Epoch epoch, Turn& turn) {
  for (auto& [to, notice] : told_) {
    notice.epoch = epoch;
    turn.send(to, notice, {}, kControl);
  }
  for (const auto& [name, round, value] : figures_) turn.record(name, round, value);
}

// The owner of the first piece tells all who is counted, itself included.
void Attempt::tell_contributors(std::span<const double> weights, AttemptContext& context) {
  const GroupMembers& team = *spec_.team;
  std::vector<Rank> counted;
  double sum = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] == 0) continue;
    sum += weights[i];
    counted.push_back(team.members[i]);
  }
  context.roster = contributors_of(team, {spec_.key, team.self}, counted, sum);
  context.contributors_to = team.others();
  if (team.takes_part()) context.contributors_known.emplace_back(std::move(counted), sum);
}

Rank serving(std::optional<Rank> server, const std::vector<Rank>& members, const View& view) {
  return server && view.has(*server) ? *server : members.front();
}

Contributors contributors_of(const GroupMembers& team, const CodecKey& key,
                             const std::vector<Rank>& counted, double weight) {
  return {team.epoch, key, weight, to_bits(counted), team.epoch};
}

Error Attempt::refuse(Rank from, std::string why) const {
  return malformed(round_text() + " of rank " + std::to_string(from) + ": " + why);
}

void Attempt::state(Archive& ar) { ar(contributed_, weight_, posted_); }

std::string list_ranks(const std::vector<Rank>& ranks) {
  constexpr std::size_t kMost = 8;
  std::string text;
  for (std::size_t i = 0; i < std::min(ranks.size(), kMost); ++i)
    text += (i > 0 ? ", " : "") + std::to_string(ranks[i]);
  if (ranks.size() > kMost) text += " and " + std::to_string(ranks.size() - kMost) + " more";
  return text;
}

std::string named_ranks(const std::vector<Rank>& ranks) {
  return (ranks.size() == 1 ? "rank " : "ranks ") + list_ranks(ranks);
}

}  // namespace longhaul::overlay
