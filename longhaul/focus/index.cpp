#include "longhaul/focus/index.h"

namespace longhaul::focus {

Index::Index(const IndexConfig& config)
    : generations_{{config, Postings(config.specialised + 1), 0}},
      clustering_(config.threshold, config.most_active) {
  LH_CHECK(config.top >= 1 && config.specialised <= config.classes);
}

void Index::extend(Cluster& cluster, std::int64_t at_ns) const {
  auto& intervals = cluster.intervals;
  const bool joins =
      !intervals.empty() && at_ns - intervals.back().to_ns <= config().interval_gap_ns;
  if (!joins) return intervals.push_back({at_ns, at_ns});
  intervals.back().from_ns = std::min(intervals.back().from_ns, at_ns);
  intervals.back().to_ns = std::max(intervals.back().to_ns, at_ns);
}

std::optional<Index::Added> Index::add(const Seen& seen, std::uint32_t source,
                                       std::span<const float> values) {
  if (seen.seq <= asof_) return std::nullopt;
  LH_CHECK(seen.scores.empty() || seen.scores.size() == postings().classes());
  const Clustering::Joined joined = clustering_.add(seen.feature);
  Added added{joined.cluster, joined.begun};
  if (joined.begun)
    clusters_.emplace_back().first = {
        source, seen.seq, Time{seen.at_ns}, {values.begin(), values.end()}};
  Cluster& cluster = clusters_.at(joined.cluster);
  ++cluster.count;
  ++objects_;
  extend(cluster, seen.at_ns);
  asof_ = seen.seq;
  asof_ns_ = std::max(asof_ns_, seen.at_ns);
  if ((!joined.begun && !config().vote_mean) || seen.scores.empty()) return added;
  std::vector<double>& sums = cluster.sums;
  sums.resize(seen.scores.size());
  for (std::size_t c = 0; c < sums.size(); ++c) sums[c] += seen.scores[c];
  for (const std::uint32_t cls : top_classes(sums, config().top)) {
    if (std::find(cluster.posted.begin(), cluster.posted.end(), cls) != cluster.posted.end())
      continue;
    cluster.posted.push_back(cls);
    added.posted.push_back(cls);
    generations_.back().postings.post(
        cls, {joined.cluster, sums[cls] / double(cluster.count), seen.seq});
  }
  if (!config().vote_mean) sums.clear();
  return added;
}

void Index::add_gap(std::uint64_t last_seq, Interval gap) {
  if (last_seq <= asof_) return;
  gaps_.add(gap);
  asof_ = last_seq;
  asof_ns_ = std::max(asof_ns_, gap.to_ns);
}

void Index::adopt(const Chosen& chosen) {
  IndexConfig next = config();
  next.cheap = chosen.cheap;
  next.top = chosen.K;
  next.threshold = chosen.T;
  next.specialised = chosen.specialised;
  next.model = chosen.model;
  next.list = chosen.list;
  LH_CHECK(next.list.empty() || next.list.size() == next.specialised);
  LH_CHECK(next.top >= 1 && next.specialised <= next.classes && next.threshold >= 0);
  clustering_.begin_anew(next.threshold);
  generations_.push_back({next, Postings(next.specialised + 1), clusters()});
}

ModelVersion Index::model_of(std::uint64_t cluster) const {
  ModelVersion model;
  for (const Generation& one : generations_)
    if (one.first <= cluster) model = one.config.model;
  return model;
}

std::optional<Index::Candidate> Index::candidate(std::uint64_t number, double score,
                                                 const Interval& window) const {
  const Cluster& cluster = clusters_.at(number);
  Candidate candidate{number, score, cluster.count};
  for (const Interval& interval : cluster.intervals)
    if (interval.meets(window)) candidate.intervals.push_back(interval);
  return candidate.intervals.empty() ? std::nullopt : std::optional(candidate);
}

std::vector<Index::Candidate> Index::candidates(std::uint32_t cls, const Interval& window) const {
  std::vector<Candidate> found;
  for (const Generation& generation : generations_)
    for (const Postings::Posting& posting :
         generation.postings.of(generation.config.posted_under(cls)))
      if (auto one = candidate(posting.cluster, posting.score, window))
        found.push_back(*std::move(one));
  std::sort(found.begin(), found.end(), [](const Candidate& a, const Candidate& b) {
    return a.score != b.score ? a.score > b.score : a.cluster < b.cluster;
  });
  return found;
}

void Index::state(Archive& ar) {
  const IndexConfig made = generations_.front().config;
  clustering_.state(ar);
  ar(generations_);
  ar(gaps_, clusters_, asof_, objects_, asof_ns_);
  if (generations_.empty()) return ar.fail("holds no index");
  if (generations_.front().config != made) ar.fail("holds an index of other parameters");
  for (const Generation& one : generations_)
    if (one.postings.classes() != one.config.specialised + 1)
      ar.fail("holds an index of other classes");
}

}  // namespace longhaul::focus
