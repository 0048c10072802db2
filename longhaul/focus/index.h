#pragma once
// Index holds one site's knowledge of its objects: clusters, the classes under which they are
// posted, and gaps. One call per object builds it from the cheap model's output, and a log of these
// calls rebuilds it (log.h). One owner; no input or output.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "longhaul/base/archive.h"
#include "longhaul/core/item.h"
#include "longhaul/core/types.h"
#include "longhaul/focus/messages.h"

namespace longhaul::focus {

// The time ranges whose objects are not indexed, because they were dropped or never arrived.
class Gaps {
 public:
  static constexpr std::size_t kMost = 1000;  // above this the two nearest neighbours are joined

  void add(Interval gap) {
    const auto first =
        std::ranges::find_if(gaps_, [&](const Interval& g) { return g.to_ns >= gap.from_ns; });
    auto last = first;
    for (; last != gaps_.end() && last->from_ns <= gap.to_ns; ++last) {
      gap.from_ns = std::min(gap.from_ns, last->from_ns);
      gap.to_ns = std::max(gap.to_ns, last->to_ns);
    }
    gaps_.insert(gaps_.erase(first, last), gap);
    if (gaps_.size() <= kMost) return;
    auto nearest = gaps_.begin();
    const auto space = [](auto it) { return std::next(it)->from_ns - it->to_ns; };
    for (auto it = gaps_.begin(); std::next(it) != gaps_.end(); ++it)
      if (space(it) < space(nearest)) nearest = it;
    nearest->to_ns = std::next(nearest)->to_ns;
    gaps_.erase(std::next(nearest));
  }

  // Returns the gaps in the window: ascending, clipped.
  std::vector<Interval> within(const Interval& window) const {
    std::vector<Interval> inside;
    for (const Interval& gap : gaps_)
      if (gap.meets(window))
        inside.push_back(
            {std::max(gap.from_ns, window.from_ns), std::min(gap.to_ns, window.to_ns)});
    return inside;
  }

  void state(auto& archive) { archive(gaps_); }

 private:
  std::vector<Interval> gaps_;  // ascending, disjoint
};

// Returns the K classes with the highest scores, best first; on a tie the lower class first.
inline std::vector<std::uint32_t> top_classes(std::span<const double> scores, std::size_t k) {
  std::vector<std::uint32_t> classes(scores.size());
  for (std::uint32_t c = 0; c < classes.size(); ++c) classes[c] = c;
  k = std::min(k, classes.size());
  std::partial_sort(classes.begin(), classes.begin() + std::ptrdiff_t(k), classes.end(),
                    [&](std::uint32_t a, std::uint32_t b) {
                      return scores[a] != scores[b] ? scores[a] > scores[b] : a < b;
                    });
  classes.resize(k);
  return classes;
}

// The clusters posted under each class. Only grows.
class Postings {
 public:
  struct Posting {
    std::uint64_t cluster = 0;
    double score = 0;       // score of the class at the posting
    std::uint64_t seq = 0;  // object that caused the posting
    void state(auto& ar) { ar(cluster, score, seq); }
  };

  explicit Postings(std::size_t classes) : lists_(classes) {}

  // Must be called at most once for a cluster and class.
  void post(std::uint32_t cls, const Posting& posting) { lists_.at(cls).push_back(posting); }
  std::span<const Posting> of(std::uint32_t cls) const { return lists_.at(cls); }
  std::size_t classes() const { return lists_.size(); }
  void state(Archive& ar) { ar(lists_); }

 private:
  std::vector<std::vector<Posting>> lists_;
};

// Online clustering of feature vectors (Focus, OSDI 2018, in outline). A vector joins the active
// cluster with the nearest mean, or begins a cluster if no mean is within T. At most M clusters are
// active. To make room, the cluster that was joined longest ago retires (not as in the paper: the
// smallest would be the newest). Deterministic: equal vectors in equal order give equal clusters.
class Clustering {
  static double distance(std::span<const float> feature, std::span<const double> mean) {
    if (feature.size() != mean.size()) return std::numeric_limits<double>::infinity();
    double sum = 0;
    for (std::size_t i = 0; i < mean.size(); ++i)
      sum += (feature[i] - mean[i]) * (feature[i] - mean[i]);
    return std::sqrt(sum);
  }

 public:
  // threshold: T, a Euclidean distance; 0: every vector begins a cluster. most_active: M, >= 1.
  Clustering(double threshold, std::size_t most_active)
      : threshold_(threshold), most_active_(most_active) {
    LH_CHECK(threshold >= 0 && most_active >= 1);
  }

  struct Joined {
    std::uint64_t cluster = 0;  // numbered from 0 in order of their start
    bool begun = false;
  };
  Joined add(std::span<const float> feature) {
    ++added_;
    if (threshold_ == 0) return {next_++, true};  // means are not needed
    Active* nearest = nullptr;
    double least = threshold_;
    for (Active& active : active_)
      if (const double d = distance(feature, active.mean); d < least || (!nearest && d == least)) {
        nearest = &active;
        least = d;
      }
    if (nearest) {
      ++nearest->count;
      nearest->joined = added_;
      for (std::size_t i = 0; i < feature.size(); ++i)
        nearest->mean[i] += (feature[i] - nearest->mean[i]) / double(nearest->count);
      return {nearest->cluster, false};
    }
    if (active_.size() == most_active_)
      active_.erase(std::ranges::min_element(
          active_, [](const Active& a, const Active& b) { return a.joined < b.joined; }));
    active_.push_back({next_, 1, added_, {feature.begin(), feature.end()}});
    return {next_++, true};
  }

  // Retires all active clusters, because later features are not comparable with earlier ones.
  void begin_anew(double threshold) {
    active_.clear();
    threshold_ = threshold;
  }
  std::uint64_t size() const { return next_; }  // clusters so far
  // Returns the mean of an active cluster; empty if it has retired.
  std::vector<double> mean(std::uint64_t cluster) const {
    for (const Active& active : active_)
      if (active.cluster == cluster) return active.mean;
    return {};
  }

  void state(Archive& ar) { ar(threshold_, active_, next_, added_); }

 private:
  struct Active {
    std::uint64_t cluster = 0, count = 0, joined = 0;  // joined: value of added_ at the last join
    std::vector<double> mean;
    void state(auto& ar) { ar(cluster, count, joined, mean); }
  };

  double threshold_;
  std::size_t most_active_;
  std::vector<Active> active_;
  std::uint64_t next_ = 0, added_ = 0;
};

struct IndexConfig {
  std::uint32_t top = 4;            // K
  double threshold = 0.5;           // T
  std::uint32_t most_active = 100;  // M
  std::uint32_t specialised = 100;  // Ls: number of specialised classes; class Ls is OTHER
  std::uint32_t classes = 100;
  bool vote_mean = true;  // else the first object's scores
  std::int64_t interval_gap_ns = 1000000000;
  std::uint32_t cheap = 0;               // number of the cheap model that scores objects
  ModelVersion model = {};               // version of the cheap model; number 0: one of the job's
  std::vector<std::uint32_t> list = {};  // the specialised classes; empty: the first ones
  bool operator==(const IndexConfig&) const = default;
  void state(auto& ar) {
    ar(top, threshold, most_active, specialised, classes, vote_mean, interval_gap_ns, cheap, model,
       list);
  }
  // Returns the class under which a query for `cls` finds clusters: a place in the list, or OTHER.
  std::uint32_t posted_under(std::uint32_t cls) const {
    if (list.empty()) return std::min(cls, specialised);
    return std::uint32_t(std::ranges::find(list, cls) - list.begin());
  }
};

// The part of the configuration that is chosen on a sample.
struct Chosen {
  std::uint32_t cheap = 0, K = 0, specialised = 0;
  double T = 0;
  ModelVersion model = {};
  std::vector<std::uint32_t> list = {};
  LONGHAUL_FIELDS(cheap, K, specialised, T, model, list)
};

// The cheap model's output for an object. `scores`: one for each of Ls classes and OTHER; empty if
// they have no effect: without vote_mean, for an object that begins no cluster.
struct Seen {
  std::uint64_t seq = 0;
  std::int64_t at_ns = 0;
  std::vector<float> feature, scores;
  void state(auto& ar) { ar(seq, at_ns, feature, scores); }
};

class Index {
 public:
  explicit Index(const IndexConfig& config)
      : generations_{{config, Postings(config.specialised + 1), 0}},
        clustering_(config.threshold, config.most_active) {
    LH_CHECK(config.top >= 1 && config.specialised <= config.classes);
  }

  struct Added {
    std::uint64_t cluster = 0;
    bool begun = false;  // the object is its representative
    std::vector<std::uint32_t> posted =
        {};  // classes under which the cluster is posted from now on
  };
  // Adds an object; seqs ascend. Returns nothing if this seq or a later one is already indexed.
  // `values`: the object itself, kept if it begins a cluster.
  std::optional<Added> add(const Seen& seen, std::uint32_t source, std::span<const float> values) {
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
      if (std::ranges::find(cluster.posted, cls) != cluster.posted.end()) continue;
      cluster.posted.push_back(cls);
      added.posted.push_back(cls);
      generations_.back().postings.post(
          cls, {joined.cluster, sums[cls] / double(cluster.count), seen.seq});
    }
    if (!config().vote_mean) sums.clear();
    return added;
  }

  void add_gap(std::uint64_t last_seq, Interval gap) {
    if (last_seq <= asof_) return;
    gaps_.add(gap);
    asof_ = last_seq;
    asof_ns_ = std::max(asof_ns_, gap.to_ns);
  }

  // Sets the configuration for later objects. Existing clusters stay unchanged, take no more
  // objects, and are still searched.
  void adopt(const Chosen& chosen) {
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

  // A cluster at the time of the query.
  struct Candidate {
    std::uint64_t cluster = 0;
    double score = 0;
    std::uint64_t count = 0;
    std::vector<Interval> intervals = {};  // those that overlap the window, not clipped
    void state(auto& ar) { ar(cluster, score, count, intervals); }
  };
  std::uint32_t posted_under(std::uint32_t cls) const {  // for new clusters
    return config().posted_under(cls);
  }
  // Returns the clusters posted under `cls` that have an interval in the window: best score first,
  // then by number.
  std::vector<Candidate> candidates(std::uint32_t cls, const Interval& window) const {
    std::vector<Candidate> found;
    for (const Generation& generation : generations_)
      for (const Postings::Posting& posting :
           generation.postings.of(generation.config.posted_under(cls)))
        if (auto one = candidate(posting.cluster, posting.score, window))
          found.push_back(*std::move(one));
    std::ranges::sort(found, [](const Candidate& a, const Candidate& b) {
      return a.score != b.score ? a.score > b.score : a.cluster < b.cluster;
    });
    return found;
  }

  std::optional<Candidate> candidate(std::uint64_t number, double score,
                                     const Interval& window) const {
    const Cluster& cluster = clusters_.at(number);
    Candidate candidate{number, score, cluster.count};
    for (const Interval& interval : cluster.intervals)
      if (interval.meets(window)) candidate.intervals.push_back(interval);
    return candidate.intervals.empty() ? std::nullopt : std::optional(candidate);
  }

  std::vector<Interval> gaps(const Interval& window) const { return gaps_.within(window); }
  const Item& representative(std::uint64_t cluster) const { return clusters_.at(cluster).first; }
  std::uint64_t count(std::uint64_t cluster) const { return clusters_.at(cluster).count; }

  std::uint64_t asof() const { return asof_; }  // the last seq indexed, or in a gap; 0: none
  std::int64_t asof_ns() const { return asof_ns_; }
  std::uint64_t clusters() const { return clusters_.size(); }
  std::uint64_t objects() const { return objects_; }
  // Returns the postings since the last adopt().
  const Postings& postings() const { return generations_.back().postings; }
  const IndexConfig& config() const { return generations_.back().config; }
  std::size_t generations() const { return generations_.size(); }
  // Returns the version of the cheap model whose scores posted a cluster.
  ModelVersion model_of(std::uint64_t cluster) const {
    ModelVersion model;
    for (const Generation& one : generations_)
      if (one.first <= cluster) model = one.config.model;
    return model;
  }

  void state(Archive& ar) {
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

 private:
  struct Cluster {
    Item first;
    std::uint64_t count = 0;
    std::vector<Interval> intervals;
    std::vector<double> sums;  // sums of scores, with vote_mean
    std::vector<std::uint32_t> posted;
    void state(auto& ar) { ar(first, count, intervals, sums, posted); }
  };
  void extend(Cluster& cluster, std::int64_t at_ns) const {
    auto& intervals = cluster.intervals;
    const bool joins =
        !intervals.empty() && at_ns - intervals.back().to_ns <= config().interval_gap_ns;
    if (!joins) return intervals.push_back({at_ns, at_ns});
    intervals.back().from_ns = std::min(intervals.back().from_ns, at_ns);
    intervals.back().to_ns = std::max(intervals.back().to_ns, at_ns);
  }

  // The clusters that began between two calls of adopt().
  struct Generation {
    IndexConfig config = {};
    Postings postings{1};
    std::uint64_t first = 0;  // first cluster
    void state(Archive& ar) {
      ar(config, first);
      postings.state(ar);
    }
  };
  std::vector<Generation> generations_;
  Clustering clustering_;
  Gaps gaps_;
  std::vector<Cluster> clusters_;
  std::uint64_t asof_ = 0, objects_ = 0;
  std::int64_t asof_ns_ = 0;
};

// The accurate model's verdicts on representatives. A representative never changes, so a verdict
// belongs to (cluster, version of the accurate model).
class Verdicts {
 public:
  explicit Verdicts(std::uint32_t version) : version_(version) {}

  // Returns the class; absent if the current version has no verdict.
  std::optional<std::uint32_t> find(std::uint64_t cluster) const {
    const auto it = verdicts_.find(cluster);
    return it == verdicts_.end() ? std::nullopt : std::optional(it->second);
  }
  // Returns true if the verdict was stored, false if it was known or is of another version. Returns
  // an Error if the pair already has another class, which is kept.
  Result<bool> put(std::uint64_t cluster, std::uint32_t version, std::uint32_t cls) {
    if (version != version_) return false;
    const auto [it, is_new] = verdicts_.emplace(cluster, cls);
    if (!is_new && it->second != cls)
      return malformed("two verdicts on cluster " + std::to_string(cluster) + ": class " +
                       std::to_string(it->second) + " is kept, " + std::to_string(cls) + " is not");
    return is_new;
  }
  std::uint32_t version() const { return version_; }
  std::size_t size() const { return verdicts_.size(); }
  void state(Archive& ar) { ar(verdicts_); }

 private:
  std::uint32_t version_;
  std::map<std::uint64_t, std::uint32_t> verdicts_;
};

}  // namespace longhaul::focus
