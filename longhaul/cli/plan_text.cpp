#include "longhaul/cli/plan_text.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "longhaul/cli/output.h"

namespace longhaul::cli {
namespace {

using run::percent_text;
using run::SitePlan;

std::string mb(std::uint64_t bytes) { return fmt::format("{:.4g}", double(bytes) / 1e6); }

// Rows come with what is used most first.
std::string table(const std::vector<std::string>& head, std::vector<std::vector<std::string>> rows,
                  std::string_view what) {
  const std::size_t all = rows.size();
  rows.resize(std::min(all, kMaxRows));
  std::string text = "\n" + text_table(head, rows);
  if (all > kMaxRows)
    text += fmt::format("and {} {} with less; --json has all\n", all - kMaxRows, what);
  return text;
}

std::string pairs_text(const SitePlan& plan) {
  std::vector<std::vector<std::string>> rows;
  for (const SitePlan::Pair& pair : plan.pairs)
    rows.push_back({plan.sites[pair.from].name, plan.sites[pair.to].name, mb(pair.bytes()),
                    mb(pair.load.reduce), mb(pair.load.spread), percent_text(pair.used)});
  return table({"from", "to", "MB", "reduce", "spread", "used"}, std::move(rows), "pairs");
}

std::string sites_text(const SitePlan& plan) {
  std::vector<std::size_t> order(plan.sites.size());
  std::iota(order.begin(), order.end(), 0u);
  const auto used = [&](std::size_t site) {
    return std::max(plan.sites[site].up_used, plan.sites[site].down_used);
  };
  if (order.size() > kMaxRows)  // else as the job has them
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return used(a) > used(b); });
  std::vector<std::vector<std::string>> rows;
  for (const std::size_t i : order) {
    const SitePlan::Site& site = plan.sites[i];
    rows.push_back({site.name, mb(site.out), mb(site.in), percent_text(site.up_used),
                    percent_text(site.down_used)});
  }
  return table({"site", "out MB", "in MB", "uplink used", "downlink used"}, std::move(rows),
               "sites");
}

std::string trees_text(const SitePlan& plan) {
  std::vector<std::vector<std::string>> rows;
  for (const SitePlan::Tree& tree : plan.trees)
    rows.push_back({tree.root, fmt::format("{:.2f} %", 100 * tree.share),
                    fmt::format("{}", tree.up), fmt::format("{}", tree.down)});
  return table({"root of a tree", "of the vector", "links up", "down"}, std::move(rows), "trees");
}

}  // namespace

std::string plan_text(const SitePlan& plan) {
  std::string text = fmt::format(
      "Plan of {}: {} of {:g} MB, {} MB as encoded, {:.4g} bytes a value\n{}\n", plan.overlay,
      plan.at_end ? "the last mean" : "a round", plan.mbytes, mb(plan.vector),
      4 * double(plan.vector) / 1e6 / plan.mbytes, run::busiest_text(plan));
  if (!plan.planned) return text;
  if (plan.pairs.empty()) text += "Nothing goes between sites.\n";
  if (plan.within > 0) text += fmt::format("Within sites: {} MB.\n", mb(plan.within));
  if (!plan.pairs.empty()) text += pairs_text(plan) + sites_text(plan);
  return text + trees_text(plan);
}

}  // namespace longhaul::cli
