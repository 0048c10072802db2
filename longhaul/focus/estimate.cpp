// estimate() of parameters.h: how an index answers a sample, and how sure that is.
#include <cmath>
#include <map>

#include "longhaul/focus/parameters.h"

namespace longhaul::focus {
namespace {

using ByClass = std::map<std::uint32_t, std::uint64_t>;

struct ClusterMembers {  // of a cluster: all, and by track
  std::size_t representative = 0;
  std::optional<std::size_t> heir =
      {};  // the first object of another track than the representative's
  std::uint64_t count = 0;
  ByClass by_class = {};
  std::map<std::uint64_t, ByClass> by_track = {};
  std::vector<std::uint32_t> posted = {};
};

// Of the queries, by class: objects that there are, that are returned, and that are so rightly.
struct QueryCounts {
  std::uint64_t all = 0, returned = 0, right = 0;
};
using Queries = std::map<std::uint32_t, QueryCounts>;

double mean_of(double sum, std::uint64_t count) { return count > 0 ? sum / double(count) : 0; }

// Classes of which no object is there are no queries.
Estimate means_of(const Queries& queries) {
  Estimate sums;
  std::uint64_t asked = 0, answered = 0;
  for (const auto& [cls, counts] : queries) {
    if (counts.all == 0) continue;
    ++asked;
    sums.recall += double(counts.right) / double(counts.all);
    if (counts.returned == 0) continue;
    ++answered;
    sums.precision += double(counts.right) / double(counts.returned);
  }
  sums.precision_of_answers = mean_of(sums.precision, answered);
  for (double* sum : {&sums.recall, &sums.precision}) *sum = mean_of(*sum, asked);
  return sums;
}

class SampleIndex {
 public:
  SampleIndex(const IndexConfig& config, std::span<const Seen> seen,
              std::span<const std::uint32_t> labels, std::span<const std::uint64_t> tracks)
      : index_(config), seen_(seen), labels_(labels), tracks_(tracks) {
    for (std::size_t i = 0; i < seen.size(); ++i) add(i);
  }

  Estimate estimate(std::uint64_t least) {
    for (const auto& [cls, all] : objects_)
      if (all >= least) queries_[cls].all = all;
    for (const ClusterMembers& cluster : clusters_)
      count(cluster.representative, cluster.posted, cluster.count, cluster.by_class, queries_, +1);
    Estimate estimate = means_of(queries_);
    estimate.clusters = index_.clusters();
    for (const auto& [cls, counts] : queries_)
      estimate.gt_calls += double(index_.postings().of(index_.posted_under(cls)).size());
    estimate.gt_calls = mean_of(estimate.gt_calls, queries_.size());
    add_errors(estimate);
    return estimate;
  }

 private:
  void add(std::size_t i) {
    const auto added = index_.add(seen_[i], 0, {});
    LH_CHECK(added.has_value());
    if (added->begun) clusters_.push_back({.representative = i});
    ClusterMembers& cluster = clusters_[added->cluster];
    ++cluster.count;
    ++cluster.by_class[labels_[i]];
    ++objects_[labels_[i]];
    cluster.posted.insert(cluster.posted.end(), added->posted.begin(), added->posted.end());
    if (tracks_.empty()) return;
    ++cluster.by_track[tracks_[i]][labels_[i]];
    if (!cluster.heir && tracks_[i] != tracks_[cluster.representative]) cluster.heir = i;
  }

  // Adds to the query that the representative confirms, or takes from it, a cluster's objects.
  void count(std::size_t representative, std::span<const std::uint32_t> posted,
             std::uint64_t objects, const ByClass& by_class, Queries& queries, int sign) const {
    const std::uint32_t cls = labels_[representative];
    const auto query = queries.find(cls);
    if (query == queries.end()) return;
    if (std::find(posted.begin(), posted.end(), index_.posted_under(cls)) == posted.end()) return;
    const auto own = by_class.find(cls);
    const std::uint64_t right = own != by_class.end() ? own->second : 0;
    query->second.returned += sign > 0 ? objects : -objects;
    query->second.right += sign > 0 ? right : -right;
  }

  // A cluster as it would be without the objects of a track.
  void leave_out(const ClusterMembers& cluster, std::uint64_t track, Queries& queries) const {
    count(cluster.representative, cluster.posted, cluster.count, cluster.by_class, queries, -1);
    std::uint64_t rest = cluster.count;
    ByClass by_class = cluster.by_class;
    for (const auto& [cls, objects] : cluster.by_track.at(track)) {
      rest -= objects;
      by_class[cls] -= objects;
      if (const auto query = queries.find(cls); query != queries.end())
        query->second.all -= objects;
    }
    if (rest == 0) return;
    if (tracks_[cluster.representative] != track)
      return count(cluster.representative, cluster.posted, rest, by_class, queries, +1);
    const auto posted = index_.config().vote_mean ? cluster.posted : best_of(*cluster.heir);
    count(*cluster.heir, posted, rest, by_class, queries, +1);
  }

  std::vector<std::uint32_t> best_of(std::size_t i) const {
    const std::vector<double> scores(seen_[i].scores.begin(), seen_[i].scores.end());
    return top_classes(scores, index_.config().top);
  }

  // The jackknife: the spread of what is estimated without one track after the other.
  void add_errors(Estimate& estimate) const {
    std::map<std::uint64_t, std::vector<std::size_t>> clusters;  // by track
    for (std::size_t c = 0; c < clusters_.size(); ++c)
      for (const auto& part : clusters_[c].by_track) clusters[part.first].push_back(c);
    std::vector<Estimate> without;
    for (const auto& [track, those] : clusters) {
      Queries queries = queries_;
      for (const std::size_t c : those) leave_out(clusters_[c], track, queries);
      without.push_back(means_of(queries));
    }
    estimate.recall_error = spread(without, &Estimate::recall);
    estimate.precision_error = spread(without, &Estimate::precision);
  }

  static double spread(std::span<const Estimate> without, double Estimate::*value) {
    if (without.size() < 2) return 0;
    const double n = double(without.size());
    double mean = 0, squares = 0;
    for (const Estimate& one : without) mean += one.*value / n;
    for (const Estimate& one : without) squares += (one.*value - mean) * (one.*value - mean);
    return std::sqrt(squares * (n - 1) / n);
  }

  Index index_;
  std::span<const Seen> seen_;
  std::span<const std::uint32_t> labels_;
  std::span<const std::uint64_t> tracks_;
  std::vector<ClusterMembers> clusters_;
  ByClass objects_;
  Queries queries_;
};

}  // namespace

Estimate estimate(const IndexConfig& config, std::span<const Seen> seen,
                  std::span<const std::uint32_t> labels, std::uint64_t least,
                  std::span<const std::uint64_t> tracks) {
  LH_CHECK(seen.size() == labels.size() && (tracks.empty() || tracks.size() == labels.size()));
  return SampleIndex(config, seen, labels, tracks).estimate(least);
}

}  // namespace longhaul::focus
