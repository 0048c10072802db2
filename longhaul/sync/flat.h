#pragma once
// The two parts of a node's flat vector: its parameters, then its buffers. A phantom job has no
// numbers, and both are empty.
#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "longhaul/core/stop_rule.h"

namespace longhaul::sync {

inline std::size_t parameter_count(const Place& place) {
  return place.phantom ? 0 : place.layout->parameters().length;
}
inline std::span<float> parameters(Turn& turn) {
  return turn.params().first(parameter_count(turn.place()));
}
inline std::span<float> buffers(Turn& turn) {
  return turn.params().subspan(parameter_count(turn.place()));
}

void assign(auto& to, const auto& from) { to.assign(from.begin(), from.end()); }

// Returns a copy to be sent.
inline Snapshot copied(std::span<const float> values) {
  return std::make_shared<const std::vector<float>>(values.begin(), values.end());
}

// Returns the configuration for nodes that may be `rounds` rounds apart: only the reporter says
// when enough samples were used.
inline StopConfig apart_by(Round rounds, StopConfig config) {
  config.apart = rounds;
  config.reporter_counts = true;
  return config;
}

// Returns "asp, site oslo (rank 3): ", the beginning of an error message.
inline std::string who(std::string_view name, const Place& place) {
  return std::string(name) + ", site " + place.me().site + " (rank " + std::to_string(place.self) +
         "): ";
}

// Returns " 0 3 5", to follow "ranks".
std::string listed(const auto& ranks) {
  std::string text;
  for (const Rank rank : ranks) text += " " + std::to_string(rank);
  return text;
}

// a - b
inline std::vector<float> difference_of(std::span<const float> a, std::span<const float> b) {
  LH_CHECK(a.size() == b.size());
  std::vector<float> difference(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) difference[i] = a[i] - b[i];
  return difference;
}

// Archives models by rank; in a phantom job, a null is equal to an empty one.
inline void archive_snapshots(Archive& ar, std::map<Rank, Snapshot>& snapshots) {
  std::map<Rank, std::vector<float>> models;
  for (const auto& [rank, model] : snapshots) models[rank] = model ? *model : std::vector<float>();
  ar(models);
  if (!ar.loading()) return;
  snapshots.clear();
  for (const auto& [rank, model] : models) snapshots[rank] = copied(model);
}

// Returns the error for a message that passed the checks on arrival and fails when it is read.
inline Error broken_by(Rank peer, const Error& why) {
  return {why.kind, "rank " + std::to_string(peer) + " broke the protocol: " + why.what};
}

// For fp64; all_finite() of core/codec.h is for fp32.
inline bool are_finite(std::span<const double> values) {
  return std::ranges::all_of(values, [](double v) { return std::isfinite(v); });
}

}  // namespace longhaul::sync
