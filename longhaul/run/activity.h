#pragma once
// The activity of a run's sites over time, for pictures: computing time, sent bytes, bytes of every
// ordered pair of sites, and times of lost nodes. Written to activity.json of the run's folder
// (over sockets, site.cpp: of each node's folder). The size does not grow with the run: time is
// divided into kBins bins, which become twice as wide when the run passes the last one.
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "longhaul/core/place.h"
#include "longhaul/sim/watcher.h"

namespace longhaul::run {

class ActivityLog final : public sim::Watcher {
 public:
  static constexpr std::size_t kBins = 512;
  static constexpr std::size_t kMaxSites = 256;  // nothing is kept for more sites

  ActivityLog(const Members&, double wire_scale);

  void acted(Time, Rank, const Action&) override;
  void crashed(Time, Rank) override;
  void restarted(Time, Rank) override;
  Status after(const sim::World&, Rank) override;
  void state(Archive&) override;
  // Continues from the to_json() of an earlier process. Leaves out a loss that lasted then, because
  // it is seen again or has ended. Ignores anything else.
  void take_up(const nlohmann::ordered_json&);
  // Records that a step of that node lasted from `begin` to `end`, in seconds.
  void computed(Rank, double begin, double end);

  // Returns {"bin_s", "sites": [{"name", "computing": [s of each bin], "sent": [bytes], "lost":
  // [[from, to]]}], "links": [[from, to, bytes]]}, sites by index. A loss that lasts has null as
  // its end. A list of bins that are all zero is empty.
  nlohmann::ordered_json to_json(Time end) const;

 private:
  struct Site {
    std::vector<double> computing = std::vector<double>(kBins), sent = std::vector<double>(kBins);
    void state(Archive& ar) { ar(computing, sent); }
  };
  struct Loss {
    std::uint32_t site = 0;
    Rank rank = 0;
    double from = 0, to = -1;
    void state(Archive& ar) { ar(site, rank, from, to); }
  };
  void cover(double time_s);
  bool kept() const { return !sites_.empty(); }

  std::vector<std::string> names_;      // by site
  std::vector<std::uint32_t> site_of_;  // by rank
  double wire_scale_;
  double bin_s_ = 1.0 / 64;
  std::vector<Site> sites_;
  std::vector<double> computed_;  // by rank: computing time in the bins
  std::vector<double> links_;     // [from * sites + to], bytes
  std::vector<Loss> losses_;
};

}  // namespace longhaul::run
