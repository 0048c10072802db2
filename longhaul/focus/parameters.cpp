// estimate() of parameters.h: how an index answers a sample, and how sure that is.
#include "longhaul/focus/parameters.h"

#include <cmath>
#include <cstdio>
#include <map>
#include <numeric>

namespace longhaul::focus {

namespace {

using ByClass = std::map<std::uint32_t, std::uint64_t>;

struct ClusterMembers {  // members of a cluster: all, and by track
  std::size_t representative = 0;
  std::optional<std::size_t> heir =
      {};  // the first object of another track than the representative's
  std::uint64_t count = 0;
  ByClass by_class = {};
  std::map<std::uint64_t, ByClass> by_track = {};
  std::vector<std::uint32_t> posted = {};
};

// Objects of a class: all, those that a query returns, and those of them that are right.
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
    if (std::ranges::find(posted, index_.posted_under(cls)) == posted.end()) return;
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

  // Adds the errors by the jackknife: the spread of the estimates that leave out one track each.
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

namespace {

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3f", value);
  return text;
}

}  // namespace

double usual_distance(std::span<const Seen> seen) {
  constexpr std::size_t kBefore = 100;
  std::vector<double> nearest;
  for (std::size_t i = 1; i < seen.size(); ++i) {
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t j = i - std::min(i, kBefore); j < i; ++j) {
      double sum = 0;
      for (std::size_t d = 0; d < seen[i].feature.size(); ++d) {
        const double apart = double(seen[i].feature[d]) - double(seen[j].feature[d]);
        sum += apart * apart;
      }
      least = std::min(least, sum);
    }
    nearest.push_back(std::sqrt(least));
  }
  if (nearest.empty()) return 1;
  const auto middle = nearest.begin() + std::ptrdiff_t(nearest.size() / 2);
  std::nth_element(nearest.begin(), middle, nearest.end());
  return *middle;
}

std::vector<Point> evaluate(const IndexConfig& base, std::span<const CheapModel> models,
                            std::span<const std::uint32_t> labels,
                            std::span<const std::uint64_t> tracks, const Grid& grid,
                            std::uint64_t least) {
  std::vector<Point> points;
  for (std::size_t m = 0; m < models.size(); ++m) {
    const double unit = grid.in_usual_distances ? usual_distance(models[m].seen) : 1;
    for (const double times : grid.T)
      for (const std::uint32_t K : grid.K) {
        IndexConfig config = base;
        const double T = times * unit;
        config.top = K;
        config.threshold = T;
        config.specialised = models[m].specialised;
        config.list = models[m].list;
        points.push_back(
            {m, K, T, models[m].seconds, estimate(config, models[m].seen, labels, least, tracks)});
      }
  }
  return points;
}

bool dominates(const Point& a, const Point& b) {
  const bool no_worse = a.ingest_s <= b.ingest_s && a.estimate.gt_calls <= b.estimate.gt_calls;
  return no_worse && (a.ingest_s < b.ingest_s || a.estimate.gt_calls < b.estimate.gt_calls);
}

bool reaches(const Estimate& one, const Targets& targets) {
  return one.recall - targets.margin * one.recall_error >= targets.recall &&
         one.precision - targets.margin * one.precision_error >= targets.precision;
}

Result<Point> choose(std::vector<Point> points, const Targets& targets, std::string_view policy) {
  double recall = 0, precision = 0;
  for (const auto& [model, K, T, ingest_s, one] : points) {
    recall = std::max(recall, one.recall - targets.margin * one.recall_error);
    precision = std::max(precision, one.precision - targets.margin * one.precision_error);
  }
  std::erase_if(points, [&](const Point& p) { return !reaches(p.estimate, targets); });
  if (points.empty())
    return invalid("no parameters reach recall " + number(targets.recall) + " and precision " +
                   number(targets.precision) + " on the sample: the best are recall " +
                   number(recall) + " and precision " + number(precision) + ", each less " +
                   number(targets.margin) +
                   " of its standard errors; lower the targets or margin, label a larger sample, "
                   "or set K and T");
  const std::vector<Point> all = points;
  std::erase_if(points, [&](const Point& p) {
    return std::ranges::any_of(all, [&](const Point& o) { return dominates(o, p); });
  });
  double most_ingest = 0, most_calls = 0;
  for (const Point& p : points) {
    most_ingest = std::max(most_ingest, p.ingest_s);
    most_calls = std::max(most_calls, p.estimate.gt_calls);
  }
  const auto cost = [&](const Point& p) {
    const double ingest = most_ingest > 0 ? p.ingest_s / most_ingest : 0;
    const double calls = most_calls > 0 ? p.estimate.gt_calls / most_calls : 0;
    if (policy == "opt_ingest") return std::pair(ingest, calls);
    if (policy == "opt_query") return std::pair(calls, ingest);
    return std::pair(ingest + calls, calls);
  };
  return *std::ranges::min_element(
      points, [&](const Point& a, const Point& b) { return cost(a) < cost(b); });
}

double drift(std::span<const double> before, std::span<const double> now) {
  LH_CHECK(before.size() == now.size());
  const double a = std::accumulate(before.begin(), before.end(), 0.0);
  const double b = std::accumulate(now.begin(), now.end(), 0.0);
  if (a <= 0 || b <= 0) return 0;
  double sum = 0;
  for (std::size_t i = 0; i < now.size(); ++i) sum += std::abs(before[i] / a - now[i] / b);
  return sum / 2;
}

}  // namespace longhaul::focus
