#include "longhaul/run/plan.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "longhaul/codec/registry.h"
#include "longhaul/flow/bound.h"
#include "longhaul/flow/capacities.h"
#include "longhaul/flow/link_usage.h"
#include "longhaul/run/job/json.h"
#include "longhaul/run/job/parts.h"
#include "longhaul/run/job/site_index.h"
#include "longhaul/run/nodes.h"

namespace longhaul::run {
namespace {

using Pair = SitePlan::Pair;

bool all_sites_work(const Job& job, const Members& members) {
  return std::all_of(job.sites.begin(), job.sites.end(), [&](const SiteTable& site) {
    return std::any_of(members.begin(), members.end(), [&](const Member& member) {
      return member.site == site.name && member.is(Role::worker);
    });
  });
}

// Loads between nodes become those between sites.
void add_loads(const Traffic& traffic, const Members& members, SitePlan& plan) {
  const SiteIndex sites(plan.sites);
  std::map<flow::SitePair, Traffic::Load> loads;
  for (const auto& [way, load] : traffic.loads) {
    const std::uint32_t from = sites.at(members[way.first].site);
    const std::uint32_t to = sites.at(members[way.second].site);
    const std::uint64_t bytes = load.reduce + load.spread;
    if (from == to) {
      plan.within += bytes;
      continue;
    }
    Traffic::Load& sum = loads[{from, to}];
    sum.reduce += load.reduce;
    sum.spread += load.spread;
    plan.sites[from].out += bytes;
    plan.sites[to].in += bytes;
  }
  for (const auto& [way, load] : loads) plan.pairs.push_back({way.first, way.second, load});
  for (const Traffic::Tree& tree : traffic.trees)
    plan.trees.push_back({node_name(members[tree.root]), tree.share, tree.up, tree.down});
}

void add_shares(const flow::Wan& network, SitePlan& plan) {
  std::map<flow::SitePair, double> bytes;
  for (const Pair& pair : plan.pairs)
    bytes[{pair.from, pair.to}] = double(pair.bytes()) * flow::kIpPerByte;
  const flow::LinkUsage busy = flow::link_usage(network, bytes);
  plan.busy_s = busy.seconds;
  plan.busiest = busy.link;
  // Without a rate bytes take no time, whatever they are.
  const auto share = [&](double seconds, bool limited) {
    return limited ? std::optional(busy.share_of(seconds)) : std::nullopt;
  };
  for (Pair& pair : plan.pairs) {
    const double seconds = busy.pairs.at({pair.from, pair.to});
    pair.used = share(seconds, seconds > 0);
  }
  const flow::Capacities rates(network);
  for (std::size_t site = 0; site < plan.sites.size(); ++site) {
    plan.sites[site].up_used = share(busy.up[site], rates.up[site] < flow::kUnlimited);
    plan.sites[site].down_used = share(busy.down[site], rates.down[site] < flow::kUnlimited);
  }
  std::stable_sort(plan.pairs.begin(), plan.pairs.end(), [](const Pair& a, const Pair& b) {
    return std::tuple(a.used, a.bytes()) > std::tuple(b.used, b.bytes());
  });
}

}  // namespace

Result<SitePlan> plan_of(const Job& job, double mbytes) {
  const auto members = std::make_shared<const Members>(job.members());
  if (members->size() > kMaxPlanNodes)
    return invalid(fmt::format("{}: {} nodes; plans are shown of at most {}", job.file,
                               members->size(), kMaxPlanNodes));
  const auto length = std::uint64_t(std::max(1ll, std::llround(mbytes * 1e6 / sizeof(float))));
  const Place place = place_of(job, 0, members, Layout::flat(length), /*phantom=*/false);
  LH_LET(overlay, build_overlay(job, place));
  LH_LET(codec, codec::make_codec(job.codec.settings, place, /*feedback=*/true));
  SitePlan plan{.name = job.job.name,
                .overlay = std::string(job.overlay.entry->name),
                .mbytes = mbytes,
                .sync = std::string(job.sync.entry->name),
                .at_end = entry_with(*job.sync.entry, job.sync.settings).traits.mean_at_end,
                .vector = codec->size_at({0, length})};
  for (const SiteTable& site : job.sites) plan.sites.push_back({.name = site.name});
  const auto traffic = overlay->planned(length);
  plan.planned = traffic.has_value();
  if (traffic) add_loads(*traffic, *members, plan);
  add_shares(*job.believed, plan);
  if (!all_sites_work(job, *members)) return plan;
  const double seconds =
      flow::lower_bound(*job.believed, {.bytes = double(plan.vector) * flow::kIpPerByte})
          .bandwidth_s;
  if (seconds > 0) plan.bound_s = seconds;
  return plan;
}

SitePlan plan_of_sent(const Job& job, const std::vector<SentBytes>& sent) {
  SitePlan plan{.name = job.job.name, .overlay = std::string(job.overlay.entry->name)};
  plan.measured = plan.planned = true;
  for (const SiteTable& site : job.sites) plan.sites.push_back({.name = site.name});
  const SiteIndex sites(job.sites);
  for (const SentBytes& one : sent) {
    const auto from = sites.find(one.from), to = sites.find(one.to);
    if (!from || !to || one.bytes == 0) continue;
    if (*from == *to) {
      plan.within += one.bytes;
      continue;
    }
    plan.sites[*from].out += one.bytes;
    plan.sites[*to].in += one.bytes;
    plan.pairs.push_back({*from, *to, {.reduce = one.bytes}});
  }
  add_shares(*job.believed, plan);
  return plan;
}

std::string busiest_text(const SitePlan& plan) {
  if (plan.measured)
    return plan.busiest.empty() ? "No link that was used has a rate."
                                : fmt::format("The busiest link was {}: its bytes take {:.3g} s.",
                                              plan.busiest, plan.busy_s);
  std::string text = plan.busiest.empty() ? "Nothing that is used has a rate"
                                          : fmt::format("The busiest link, {}, takes {:.3g} s",
                                                        plan.busiest, plan.busy_s);
  if (!plan.planned) text = "What goes where is decided while it runs";
  if (plan.at_end)
    return fmt::format(
        "{} sends by itself; {} carries one mean of the models, when the run ends: that is shown.",
        plan.sync, plan.overlay);
  if (plan.bound_s) text += fmt::format("; no overlay takes less than {:.3g} s", *plan.bound_s);
  return text + ".";
}

std::string percent_text(std::optional<double> share) {
  if (!share) return "-";
  return *share > 0 && *share < 0.005 ? "<1 %" : fmt::format("{:.0f} %", 100 * *share);
}

nlohmann::ordered_json to_json(const SitePlan& plan) {
  using Json = nlohmann::ordered_json;
  Json sites = Json::array(), pairs = Json::array(), trees = Json::array();
  for (const SitePlan::Site& site : plan.sites)
    sites.push_back({{"name", site.name},
                     {"out_bytes", site.out},
                     {"in_bytes", site.in},
                     {"up_used", json_of(site.up_used)},
                     {"down_used", json_of(site.down_used)}});
  for (const Pair& pair : plan.pairs)
    pairs.push_back({{"from", plan.sites[pair.from].name},
                     {"to", plan.sites[pair.to].name},
                     {"bytes", pair.bytes()},
                     {"reduce_bytes", pair.load.reduce},
                     {"spread_bytes", pair.load.spread},
                     {"used", json_of(pair.used)}});
  for (const SitePlan::Tree& tree : plan.trees)
    trees.push_back(
        {{"root", tree.root}, {"share", tree.share}, {"up", tree.up}, {"down", tree.down}});
  Json json = {{"name", plan.name},
               {"overlay", plan.overlay},
               {"mbytes", plan.mbytes},
               {"vector_bytes", plan.vector},
               {"planned", plan.planned},
               {"at_end", plan.at_end},
               {"busy_s", plan.busy_s},
               {"busiest", plan.busiest.empty() || plan.at_end ? Json() : Json(plan.busiest)},
               {"bound_s", json_of(plan.bound_s)},
               {"within_sites_bytes", plan.within},
               {"sites", sites},
               {"pairs", pairs},
               {"trees", trees}};
  return json;
}

}  // namespace longhaul::run
