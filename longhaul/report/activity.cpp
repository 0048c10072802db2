#include "longhaul/report/activity.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>

namespace longhaul::report {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxBins = 4096;

struct JoinedSite {
  std::uint64_t nodes = 1;
  std::vector<double> computing, sent;
  json lost = json::array();
};

bool is_activity(const json& file) {
  if (!file.is_object() || !file.contains("sites") || !file["sites"].is_array()) return false;
  if (!file.contains("bin_s") || !file["bin_s"].is_number()) return false;
  return file["bin_s"] > 0 && file.contains("links") && file["links"].is_array();
}

// Bins as many times wider as `factor` says.
void add_bins(const json& from, std::size_t factor, std::vector<double>& to) {
  if (!from.is_array()) return;
  for (std::size_t i = 0; i < from.size() && i < kMaxBins; ++i) {
    if (!from[i].is_number()) continue;
    if (to.size() <= i / factor) to.resize(i / factor + 1);
    to[i / factor] += from[i].get<double>();
  }
}

class Join {
 public:
  explicit Join(double bin_s) : bin_s_(bin_s) {}

  void add(const json& file) {
    const auto factor = std::size_t(std::llround(bin_s_ / file["bin_s"].get<double>()));
    std::vector<std::string> names;
    for (const json& one : file["sites"]) {
      if (!one.is_object() || !one.contains("name") || !one["name"].is_string()) return;
      names.push_back(one["name"]);
      JoinedSite& site = site_of(names.back());
      if (one.contains("nodes") && one["nodes"].is_number_unsigned()) site.nodes = one["nodes"];
      if (one.contains("computing")) add_bins(one["computing"], factor, site.computing);
      if (one.contains("sent")) add_bins(one["sent"], factor, site.sent);
      // All survivors tell of a loss: one is believed.
      if (one.contains("lost") && one["lost"].is_array() && one["lost"].size() > site.lost.size())
        site.lost = one["lost"];
    }
    for (const json& link : file["links"]) {
      if (!link.is_array() || link.size() != 3 || !link[2].is_number()) continue;
      if (!link[0].is_number_unsigned() || !link[1].is_number_unsigned()) continue;
      const std::size_t from = link[0], to = link[1];
      if (from < names.size() && to < names.size())
        links_[{index_[names[from]], index_[names[to]]}] += link[2].get<double>();
    }
  }

  json take() const {
    json all = {{"bin_s", bin_s_}, {"sites", json::array()}, {"links", json::array()}};
    for (std::size_t i = 0; i < sites_.size(); ++i)
      all["sites"].push_back({{"name", names_[i]},
                              {"nodes", sites_[i].nodes},
                              {"computing", sites_[i].computing},
                              {"sent", sites_[i].sent},
                              {"lost", sites_[i].lost}});
    for (const auto& [pair, bytes] : links_)
      all["links"].push_back({pair.first, pair.second, std::int64_t(bytes)});
    return all;
  }

 private:
  JoinedSite& site_of(const std::string& name) {
    const auto [at, fresh] = index_.emplace(name, sites_.size());
    if (fresh) {
      names_.push_back(name);
      sites_.emplace_back();
    }
    return sites_[at->second];
  }

  const double bin_s_;
  std::map<std::string, std::size_t> index_;
  std::vector<std::string> names_;
  std::vector<JoinedSite> sites_;
  std::map<std::pair<std::size_t, std::size_t>, double> links_;
};

}  // namespace

json joined_activity(const std::vector<json>& files) {
  double widest = 0;
  for (const json& file : files)
    if (is_activity(file)) widest = std::max(widest, file["bin_s"].get<double>());
  if (widest == 0) return nullptr;
  Join join(widest);
  for (const json& file : files)
    if (is_activity(file)) join.add(file);
  return join.take();
}

}  // namespace longhaul::report
