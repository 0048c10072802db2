#include "longhaul/flow/bound.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "longhaul/base/check.h"
#include "longhaul/flow/capacities.h"
#include "longhaul/flow/delay_bound.h"

namespace longhaul::flow {
namespace {

using What = Limit::What;

class Limits {
 public:
  Limits(const Wan& wan, const Task& task) : wan_(wan), at_(wan), task_(task) {}

  Bound find() && {
    if (at_.sites > 1) {
      site_links();
      totals();
      cuts();
    }
    Bound bound;
    for (const std::optional<Limit>& limit : longest_)
      if (limit) bound.bandwidth_s = std::max(bound.bandwidth_s, limit->seconds);
    longest_[std::size_t(What::delays)] = delay_limit(wan_, at_, task_);
    for (std::optional<Limit>& limit : longest_)
      if (limit) bound.limits.push_back(*std::move(limit));
    // Of equal ones the simplest: kinds are in that order.
    std::stable_sort(bound.limits.begin(), bound.limits.end(), [](const Limit& a, const Limit& b) {
      return a.seconds > b.seconds * (1 + 1e-12);
    });
    if (!bound.limits.empty()) bound.seconds = bound.limits.front().seconds;
    return bound;
  }

 private:
  bool broadcast() const { return task_.op == Collective::broadcast; }

  void offer(What what, double vectors, double rate, std::vector<std::uint32_t> sites = {}) {
    const double seconds = vectors * task_.bytes / rate;
    std::optional<Limit>& longest = longest_[std::size_t(what)];
    if (seconds > 0 && (!longest || seconds > longest->seconds * (1 + 1e-12)))
      longest = Limit{what, seconds, std::move(sites)};
  }

  void site_links() {
    for (std::uint32_t site = 0; site < at_.sites; ++site) {
      const bool root = site == task_.root;
      if (!broadcast() || root) offer(What::uplink, 1, at_.up[site], {site});
      if (!broadcast() || !root) offer(What::downlink, 1, at_.down[site], {site});
    }
  }

  void totals() {
    double out = 0, in = 0;
    for (std::size_t site = 0; site < at_.sites; ++site) {
      out += at_.out(site);
      if (!broadcast() || site != task_.root) in += at_.in(site);
    }
    const double vectors = double(at_.sites - 1) * (broadcast() ? 1 : 2);
    offer(What::all_uplinks, vectors, out);
    offer(What::all_downlinks, vectors, in);
  }

  void cut(const std::vector<bool>& members) {
    if (broadcast() && !members[task_.root]) return;
    std::vector<std::uint32_t> sites;
    for (std::uint32_t site = 0; site < at_.sites; ++site)
      if (members[site]) sites.push_back(site);
    if (sites.empty() || sites.size() == at_.sites) return;
    offer(What::cut, 1, at_.cut(members), std::move(sites));
  }

  void cuts() {
    const std::size_t n = at_.sites;
    std::vector<bool> members(n);
    if (n <= kMaxSitesForAllCuts) {
      for (std::uint32_t mask = 1; mask + 1 < (std::uint32_t{1} << n); ++mask) {
        for (std::size_t i = 0; i < n; ++i) members[i] = mask >> i & 1;
        cut(members);
      }
      return;
    }
    for (std::size_t site = 0; site < n; ++site)
      for (const bool alone : {true, false}) {
        members.assign(n, !alone);
        members[site] = alone;
        cut(members);
      }
    for (const Wan::Shared& link : at_.shared) {
      members.assign(n, false);
      for (const auto& [from, to] : link.pairs) members[from] = true;
      cut(members);
    }
  }

  const Wan& wan_;
  const Capacities at_;
  const Task task_;
  std::optional<Limit> longest_[6];
};

}  // namespace

Bound lower_bound(const Wan& wan, const Task& task) {
  LH_CHECK(task.root < std::max<std::size_t>(wan.sites.size(), 1));
  return Limits(wan, task).find();
}

std::string to_text(const Limit& limit, const Wan& wan) {
  auto names = [&](const std::vector<std::uint32_t>& sites) {
    std::string text;
    for (std::uint32_t site : sites) text += (text.empty() ? "" : ", ") + wan.sites[site].name;
    return text;
  };
  switch (limit.what) {
    case What::uplink:
      return "the uplink of " + names(limit.sites);
    case What::downlink:
      return "the downlink of " + names(limit.sites);
    case What::all_uplinks:
      return "all uplinks together";
    case What::all_downlinks:
      return "all downlinks together";
    case What::delays:
      if (limit.sites.empty()) return "all traffic, sent early enough to arrive";
      return fmt::format("a vector from {} to {}, with its delay", wan.sites[limit.sites[0]].name,
                         wan.sites[limit.sites[1]].name);
    case What::cut:
      break;
  }
  if (2 * limit.sites.size() <= wan.sites.size())
    return fmt::format("the cut from {} to the others", names(limit.sites));
  std::vector<std::uint32_t> others;
  for (std::uint32_t site = 0; site < wan.sites.size(); ++site)
    if (!std::binary_search(limit.sites.begin(), limit.sites.end(), site)) others.push_back(site);
  return fmt::format("the cut from the others to {}", names(others));
}

}  // namespace longhaul::flow
