#pragma once
// Index is what one site knows of its objects: clusters, under which classes they are posted, and
// gaps. It is made by one call for each object, from what the cheap model said of it, and a log of
// these calls makes it again (log.h). One owner; no input or output.
#include <algorithm>
#include <optional>

#include "longhaul/core/item.h"
#include "longhaul/focus/clustering.h"
#include "longhaul/focus/gaps.h"
#include "longhaul/focus/given_model.h"
#include "longhaul/focus/postings.h"

namespace longhaul::focus {

struct IndexConfig {
  std::uint32_t top = 4;            // K
  double threshold = 0.5;           // T
  std::uint32_t most_active = 100;  // M
  std::uint32_t specialised = 100;  // Ls: of `classes`, the first ones; class Ls is OTHER
  std::uint32_t classes = 100;
  bool vote_mean = true;  // else the first object's scores
  std::int64_t interval_gap_ns = 1000000000;
  std::uint32_t cheap = 0;               // the number of the cheap model whose scores come
  ModelVersion model = {};               // of the cheap model; number 0: one of the job's
  std::vector<std::uint32_t> list = {};  // the specialised classes; empty: the first ones
  bool operator==(const IndexConfig&) const = default;
  void state(auto& ar) {
    ar(top, threshold, most_active, specialised, classes, vote_mean, interval_gap_ns, cheap, model,
       list);
  }
  // The class under which a query for `cls` looks for clusters: a place in the list, or OTHER.
  std::uint32_t posted_under(std::uint32_t cls) const {
    if (list.empty()) return std::min(cls, specialised);
    return std::uint32_t(std::find(list.begin(), list.end(), cls) - list.begin());
  }
};

// What of it is chosen on a sample.
struct Chosen {
  std::uint32_t cheap = 0, K = 0, specialised = 0;
  double T = 0;
  ModelVersion model = {};
  std::vector<std::uint32_t> list = {};
  LONGHAUL_FIELDS(cheap, K, specialised, T, model, list)
};

// What the cheap model said of an object. `scores`: of Ls classes and OTHER; empty where they
// change nothing: without vote_mean, of an object that begins no cluster.
struct Seen {
  std::uint64_t seq = 0;
  std::int64_t at_ns = 0;
  std::vector<float> feature, scores;
  void state(auto& ar) { ar(seq, at_ns, feature, scores); }
};

class Index {
 public:
  explicit Index(const IndexConfig&);

  struct Added {
    std::uint64_t cluster = 0;
    bool begun = false;  // the object is its representative
    std::vector<std::uint32_t> posted =
        {};  // classes under which the cluster is posted from now on
  };
  // Seqs ascend; nothing: this seq, or a later one, is indexed already. `values`: the object as it
  // came, kept if it begins a cluster.
  std::optional<Added> add(const Seen&, std::uint32_t source, std::span<const float> values);
  void add_gap(std::uint64_t last_seq, Interval);
  // Objects from now on are indexed so. Clusters that are there stay as they are, take no more
  // objects, and are searched as before.
  void adopt(const Chosen&);

  // A cluster as it was known when it was asked for.
  struct Candidate {
    std::uint64_t cluster = 0;
    double score = 0;
    std::uint64_t count = 0;
    std::vector<Interval> intervals = {};  // those that meet the window, not clipped
    void state(auto& ar) { ar(cluster, score, count, intervals); }
  };
  std::uint32_t posted_under(std::uint32_t cls) const {  // for clusters of now
    return config().posted_under(cls);
  }
  // Clusters posted under it that have an interval in the window: best score first, then by number.
  std::vector<Candidate> candidates(std::uint32_t cls, const Interval& window) const;
  std::optional<Candidate> candidate(std::uint64_t cluster, double score,
                                     const Interval& window) const;
  std::vector<Interval> gaps(const Interval& window) const { return gaps_.within(window); }
  const Item& representative(std::uint64_t cluster) const { return clusters_.at(cluster).first; }
  std::uint64_t count(std::uint64_t cluster) const { return clusters_.at(cluster).count; }

  std::uint64_t asof() const { return asof_; }  // the last seq indexed, or in a gap; 0: none
  std::int64_t asof_ns() const { return asof_ns_; }
  std::uint64_t clusters() const { return clusters_.size(); }
  std::uint64_t objects() const { return objects_; }
  // Since the last adopt().
  const Postings& postings() const { return generations_.back().postings; }
  const IndexConfig& config() const { return generations_.back().config; }
  std::size_t generations() const { return generations_.size(); }
  // The cheap model whose scores posted a cluster.
  ModelVersion model_of(std::uint64_t cluster) const;
  void state(Archive&);

 private:
  struct Cluster {
    Item first;
    std::uint64_t count = 0;
    std::vector<Interval> intervals;
    std::vector<double> sums;  // of scores, with vote_mean
    std::vector<std::uint32_t> posted;
    void state(auto& ar) { ar(first, count, intervals, sums, posted); }
  };
  void extend(Cluster&, std::int64_t at_ns) const;

  // Of clusters that began between two adopt().
  struct Generation {
    IndexConfig config = {};
    Postings postings{1};
    std::uint64_t first = 0;  // cluster
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

}  // namespace longhaul::focus
