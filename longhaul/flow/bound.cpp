#include "longhaul/flow/bound.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include <fmt/format.h>

#include "longhaul/base/check.h"
#include "longhaul/flow/capacities.h"

namespace longhaul::flow {
namespace {

// --- delays and rates together: docs/bounds.md has the formulas

// With more sites only bandwidth counts: all shortest paths take time with their cube.
constexpr std::size_t kMaxSitesForDelays = 200;

// A pair of sites that carries no useful bytes during a part of the collective. This part is the
// time before its first useful byte at the earliest, and after its last one at the latest.
struct Window {
  double late = 0;  // seconds of the collective without useful bytes on the pair
  double rate = 0;
};

// Returns the least time in which the windows carry these bytes.
double time_for(std::vector<Window>& windows, double bytes) {
  std::sort(windows.begin(), windows.end(),
            [](const Window& a, const Window& b) { return a.late < b.late; });
  double rate = 0, carried = 0, time = kUnlimited;  // carried: until the last one began
  for (std::size_t i = 0; i < windows.size(); ++i) {
    if (i > 0 && rate > 0) {
      const double more = rate * (windows[i].late - windows[i - 1].late);
      if (carried + more >= bytes) break;
      carried += more;
    }
    if (std::isinf(windows[i].rate)) return windows[i].late;
    rate += windows[i].rate;
    if (rate > 0) time = windows[i].late + (bytes - carried) / rate;
  }
  return time;
}

class Delays {
 public:
  Delays(const Wan& wan, const Capacities& at, const Task& task)
      : at_(at), n_(at.sites), task_(task), pair_(n_ * n_) {
    for (std::uint32_t from = 0; from < n_; ++from)
      for (std::uint32_t to = 0; to < n_; ++to)
        if (from != to && wan.pair(from, to).jitter_s == 0)
          pair_[from * n_ + to] = wan.pair(from, to).delay_s;
    for (const Traced& traced : wan.traces)
      if (traced.what == Traced::What::delay) pair_[traced.a * n_ + traced.b] = 0;
    path_ = pair_;
    for (std::size_t over = 0; over < n_; ++over)  // Floyd and Warshall
      for (std::size_t a = 0; a < n_; ++a)
        for (std::size_t b = 0; b < n_; ++b)
          path_[a * n_ + b] = std::min(path_[a * n_ + b], path(a, over) + path(over, b));
  }

  std::optional<Limit> find() {
    if (*std::max_element(pair_.begin(), pair_.end()) <= 0) return std::nullopt;
    for (std::uint32_t from = 0; from < n_; ++from)
      for (std::uint32_t to = 0; to < n_; ++to)
        if (from != to && (all_reduce() || from == task_.root)) from_one_to_one(from, to);
    all_together();
    if (longest_.seconds <= 0) return std::nullopt;
    return longest_;
  }

 private:
  bool all_reduce() const { return task_.op == Collective::all_reduce; }
  double pair(std::size_t from, std::size_t to) const { return pair_[from * n_ + to]; }
  double path(std::size_t from, std::size_t to) const { return path_[from * n_ + to]; }

  void offer(double seconds, std::vector<std::uint32_t> sites) {
    if (std::isfinite(seconds) && seconds > longest_.seconds * (1 + 1e-12))
      longest_ = {Limit::What::delays, seconds, std::move(sites)};
  }

  // Offers a limit: the result of `to` depends on all bytes of `from`. Each leaves `from` over some
  // pair, and reaches `to` over some pair.
  void from_one_to_one(std::uint32_t from, std::uint32_t to) {
    std::vector<Window> out, in;
    double last_hop = kUnlimited;
    for (std::uint32_t over = 0; over < n_; ++over) {
      if (over != from) out.push_back({pair(from, over) + path(over, to), at_.pair(from, over)});
      if (over != to) in.push_back({path(from, over) + pair(over, to), at_.pair(over, to)});
      if (over != to) last_hop = std::min(last_hop, pair(over, to));
    }
    offer(std::max({task_.bytes / at_.up[from] + path(from, to),
                    task_.bytes / at_.down[to] + last_hop, time_for(out, task_.bytes),
                    time_for(in, task_.bytes)}),
          {from, to});
  }

  // Returns the most bytes that can be sent by this time of the collective and arrive by its end.
  double sent_by(double time) const {
    double sum = 0;
    for (std::size_t from = 0; from < n_; ++from) {
      double over_pairs = 0, nearest = kUnlimited;
      for (std::size_t to = 0; to < n_; ++to) {
        if (to == from) continue;
        nearest = std::min(nearest, pair(from, to));
        if (time > pair(from, to)) over_pairs += at_.pair(from, to) * (time - pair(from, to));
      }
      if (time > nearest) sum += std::min(over_pairs, at_.up[from] * (time - nearest));
    }
    return sum;
  }

  // Offers a limit. Halves the interval until it is as narrow as doubles are; from below, so that
  // it stays a bound.
  void all_together() {
    const double bytes = double(n_ - 1) * (all_reduce() ? 2 : 1) * task_.bytes;
    double low = 0, high = 1e-6;
    while (sent_by(high) < bytes) {
      if (high > 1e12) return;
      high *= 2;
    }
    for (int i = 0; i < 60; ++i) {
      const double middle = (low + high) / 2;
      (sent_by(middle) < bytes ? low : high) = middle;
    }
    offer(low, {});
  }

  const Capacities& at_;
  const std::size_t n_;
  const Task task_;
  std::vector<double> pair_, path_;  // seconds, by row: of the pair, and of the shortest path
  Limit longest_;
};

// Returns the longest of these limits. Absent: no delays, nothing to bound, or too many sites. A
// delay that varies (jitter, trace) counts as none.
std::optional<Limit> delay_limit(const Wan& wan, const Capacities& at, const Task& task) {
  if (at.sites < 2 || at.sites > kMaxSitesForDelays) return std::nullopt;
  return Delays(wan, at, task).find();
}

// --- bandwidth, and both together

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
    // Among equal limits, the simplest comes first: kinds are in that order.
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
