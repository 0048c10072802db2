#include "longhaul/flow/delay_bound.h"

#include <algorithm>
#include <cmath>

namespace longhaul::flow {
namespace {

// A pair that may carry bytes of use from `late` seconds before the end backwards: with its first
// useful byte at the earliest, and its last one at the latest, both count.
struct Window {
  double late = 0;  // seconds of the collective in which it carries nothing of use
  double rate = 0;
};

// The least time in which they carry so many bytes.
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

  // The result of `to` depends on all bytes of `from`: each leaves it over some pair, and comes
  // over some pair.
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

  // Bytes of all messages that are sent by then and arrive by the end.
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

  // Halves the interval until it is as narrow as doubles are; from below, so that it stays a bound.
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

}  // namespace

std::optional<Limit> delay_limit(const Wan& wan, const Capacities& at, const Task& task) {
  if (at.sites < 2 || at.sites > kMaxSitesForDelays) return std::nullopt;
  return Delays(wan, at, task).find();
}

}  // namespace longhaul::flow
