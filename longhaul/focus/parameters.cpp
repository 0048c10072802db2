#include "longhaul/focus/parameters.h"

#include <cmath>
#include <cstdio>
#include <map>
#include <numeric>

namespace longhaul::focus {
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
    return std::any_of(all.begin(), all.end(), [&](const Point& o) { return dominates(o, p); });
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
  return *std::min_element(points.begin(), points.end(),
                           [&](const Point& a, const Point& b) { return cost(a) < cost(b); });
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
