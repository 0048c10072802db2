#include "longhaul/flow/multicast.h"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "longhaul/base/check.h"

namespace longhaul::flow {
namespace {

constexpr double kTolerance = 1e-12;  // relative, of times

bool in_time(double time, double deadline) { return time <= deadline * (1 + kTolerance); }

double pair_time(const MulticastNetwork& network, std::uint32_t from, std::uint32_t to,
                 double volume) {
  return network.pairs.empty() ? 0 : volume / network.pairs[from * network.size() + to];
}

// The sets and the loads of the ports while a plan is made.
class Receivers {
 public:
  Receivers(const MulticastNetwork& network)
      : network_(network),
        set_(std::size_t(network.size()) * network.size(), false),
        count_(network.size(), 0),
        out_(network.size(), 0),
        in_(network.size(), 0) {}

  bool has(std::uint32_t i, std::uint32_t j) const { return set_[i * network_.size() + j]; }
  std::uint32_t count(std::uint32_t i) const { return count_[i]; }
  void add(std::uint32_t i, std::uint32_t j, double volume) {
    if (has(i, j)) return;
    set_[i * network_.size() + j] = true;
    ++count_[i];
    out_[i] = out_with(i, volume);
    in_[j] += volume;
  }
  double send_time(std::uint32_t i) const { return out_[i] / network_.up[i]; }      // s_i / bI_i
  double receive_time(std::uint32_t j) const { return in_[j] / network_.down[j]; }  // r_j / bE_j
  double send_time_with(std::uint32_t i, double volume) const {
    return out_with(i, volume) / network_.up[i];
  }
  double receive_time_with(std::uint32_t j, double volume) const {
    return (in_[j] + volume) / network_.down[j];
  }

 private:
  double out_with(std::uint32_t i, double volume) const {
    return network_.by_network ? std::max(out_[i], volume) : out_[i] + volume;
  }

  const MulticastNetwork& network_;
  std::vector<bool> set_;
  std::vector<std::uint32_t> count_;
  std::vector<double> out_, in_;  // s_i, r_j
};

// Adds the `most` receivers of i among `open` that would be done first.
void add_quickest(const MulticastNetwork& network, Receivers& choice, std::uint32_t i,
                  std::uint32_t most, const std::vector<WorkerPair>& open_of_i,
                  const std::vector<double>& volumes) {
  std::vector<std::tuple<double, double, std::uint32_t>> keys;
  for (const auto& [from, j] : open_of_i) {
    const double port = choice.receive_time_with(j, volumes[j]);
    keys.emplace_back(std::max(port, pair_time(network, i, j, volumes[j])), port, j);
  }
  const auto end = keys.begin() + std::ptrdiff_t(std::min<std::size_t>(most, keys.size()));
  std::partial_sort(keys.begin(), end, keys.end());
  for (auto key = keys.begin(); key != end; ++key)
    choice.add(i, std::get<2>(*key), volumes[std::get<2>(*key)]);
}

std::uint32_t wanted(std::uint32_t at_least, std::uint32_t n, std::uint32_t have) {
  const std::uint32_t want = std::min(at_least, n - 1);
  return want > have ? want - have : 0;
}

// Those that have waited for the longest time first.
void sort_by_age(std::vector<WorkerPair>& pairs, const std::vector<double>& ages, std::uint32_t n) {
  if (ages.empty()) return;
  std::stable_sort(pairs.begin(), pairs.end(), [&](const WorkerPair& a, const WorkerPair& b) {
    return ages[a.first * n + a.second] > ages[b.first * n + b.second];
  });
}

MulticastPlan plan_of(const MulticastNetwork& network, const MulticastRound& round,
                      const Receivers& choice) {
  const std::uint32_t n = network.size();
  MulticastPlan plan;
  plan.receivers.resize(n);
  for (std::uint32_t i = 0; i < n; ++i) {
    plan.time = std::max({plan.time, choice.send_time(i), choice.receive_time(i)});
    for (std::uint32_t j = 0; j < n; ++j) {
      if (!choice.has(i, j)) continue;
      plan.receivers[i].push_back(j);
      plan.time = std::max(plan.time, pair_time(network, i, j, round.volumes[i]));
    }
  }
  return plan;
}

void check_multicast(const MulticastNetwork& network, const MulticastRound& round) {
  const std::uint32_t n = network.size();
  LH_CHECK(network.down.size() == n && round.volumes.size() == n && round.at_least.size() == n);
  LH_CHECK(network.pairs.empty() || network.pairs.size() == std::size_t(n) * n);
  LH_CHECK(round.ages.empty() || round.ages.size() == std::size_t(n) * n);
}

Receivers with_overdue(const MulticastNetwork& network, const MulticastRound& round) {
  Receivers choice(network);
  for (const auto& [i, j] : round.overdue)
    if (i != j) choice.add(i, j, round.volumes[i]);
  return choice;
}

}  // namespace

bool MulticastPlan::sends(std::uint32_t from, std::uint32_t to) const {
  return std::ranges::binary_search(receivers[from], to);
}

MulticastPlan multicast_of(const MulticastNetwork& network, const MulticastRound& round,
                           std::vector<std::vector<std::uint32_t>> receivers) {
  check_multicast(network, round);
  Receivers choice(network);
  for (std::uint32_t i = 0; i < network.size(); ++i)
    for (const std::uint32_t j : receivers[i]) choice.add(i, j, round.volumes[i]);
  return plan_of(network, round, choice);
}

MulticastPlan plan_multicast(const MulticastNetwork& network, const MulticastRound& round,
                             bool extend) {
  check_multicast(network, round);
  const std::uint32_t n = network.size();
  Receivers choice = with_overdue(network, round);
  std::vector<std::uint32_t> order(n);
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    return choice.count(a) > choice.count(b);  // the least free first
  });
  for (const std::uint32_t i : order) {
    std::vector<WorkerPair> open;
    for (std::uint32_t j = 0; j < n; ++j)
      if (j != i && !choice.has(i, j)) open.emplace_back(i, j);
    add_quickest(network, choice, i, wanted(round.at_least[i], n, choice.count(i)), open,
                 std::vector<double>(n, round.volumes[i]));
  }
  const double time = plan_of(network, round, choice).time;
  std::vector<WorkerPair> open;
  for (std::uint32_t i = 0; i < n && extend; ++i)
    for (std::uint32_t j = 0; j < n; ++j)
      if (i != j && !choice.has(i, j)) open.emplace_back(i, j);
  sort_by_age(open, round.ages, n);
  for (const auto& [i, j] : open) {
    const double v = round.volumes[i];
    if (in_time(choice.send_time_with(i, v), time) &&
        in_time(choice.receive_time_with(j, v), time) && in_time(pair_time(network, i, j, v), time))
      choice.add(i, j, v);
  }
  MulticastPlan plan = plan_of(network, round, choice);
  plan.time = time;
  return plan;
}

MulticastPlan plan_random_multicast(const MulticastNetwork& network, const MulticastRound& round,
                                    Random& random) {
  check_multicast(network, round);
  const std::uint32_t n = network.size();
  Receivers choice = with_overdue(network, round);
  for (std::uint32_t i = 0; i < n; ++i) {
    std::vector<std::uint32_t> open;
    for (std::uint32_t j = 0; j < n; ++j)
      if (j != i && !choice.has(i, j)) open.push_back(j);
    random.shuffle(std::span(open));
    open.resize(std::min<std::size_t>(open.size(), wanted(round.at_least[i], n, choice.count(i))));
    for (const std::uint32_t j : open) choice.add(i, j, round.volumes[i]);
  }
  return plan_of(network, round, choice);
}

MulticastPlan plan_broadcast(const MulticastNetwork& network, const MulticastRound& round) {
  check_multicast(network, round);
  Receivers choice(network);
  for (std::uint32_t i = 0; i < network.size(); ++i)
    for (std::uint32_t j = 0; j < network.size(); ++j)
      if (i != j) choice.add(i, j, round.volumes[i]);
  return plan_of(network, round, choice);
}

MulticastUpdate replan_multicast(const MulticastNetwork& network,
                                 std::vector<MulticastSender> senders, std::uint32_t ready,
                                 const std::vector<WorkerPair>& overdue,
                                 const std::vector<double>& ages, double eta) {
  const std::uint32_t n = network.size();
  LH_CHECK(senders.size() == n && ready < n && (ages.empty() || ages.size() == std::size_t(n) * n));
  MulticastSender& fresh = senders[ready];
  fresh.sending = true;
  fresh.left.assign(n, fresh.volume);
  fresh.chosen.assign(n, true);
  fresh.chosen[ready] = false;

  // y: what is kept.
  Receivers choice(network);
  const auto is_overdue = [&](std::uint32_t i, std::uint32_t j) {
    return std::ranges::find(overdue, WorkerPair{i, j}) != overdue.end();
  };
  std::vector<std::uint32_t> order;  // L
  for (std::uint32_t i = 0; i < n; ++i) {
    const MulticastSender& s = senders[i];
    if (!s.sending) continue;
    LH_CHECK(s.left.size() == n && s.chosen.size() == n);
    order.push_back(i);
    for (std::uint32_t j = 0; j < n; ++j)
      if (s.chosen[j] && (s.left[j] == 0 || s.left[j] < eta * s.volume || is_overdue(i, j)))
        choice.add(i, j, s.left[j]);
  }
  std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    return senders[a].blocked_s < senders[b].blocked_s;
  });
  const auto open_of = [&](std::uint32_t i) {
    std::vector<WorkerPair> open;
    for (std::uint32_t j = 0; j < n; ++j)
      if (senders[i].chosen[j] && !choice.has(i, j)) open.emplace_back(i, j);
    return open;
  };
  for (const std::uint32_t i : order)
    add_quickest(network, choice, i, wanted(senders[i].at_least, n, choice.count(i)), open_of(i),
                 senders[i].left);

  // Each sender's own deadline (t_i), and what fits into it.
  std::vector<double> deadline(n, 0);
  std::vector<WorkerPair> open;
  for (const std::uint32_t i : order) {
    deadline[i] = std::max(senders[i].blocked_s, choice.send_time(i));
    for (std::uint32_t j = 0; j < n; ++j)
      if (choice.has(i, j))
        deadline[i] = std::max(
            {deadline[i], choice.receive_time(j), pair_time(network, i, j, senders[i].left[j])});
    const std::vector<WorkerPair> more = open_of(i);
    open.insert(open.end(), more.begin(), more.end());
  }
  std::ranges::sort(open);
  sort_by_age(open, ages, n);
  for (const auto& [i, j] : open) {
    const double v = senders[i].left[j];
    if (in_time(choice.send_time_with(i, v), deadline[i]) &&
        in_time(choice.receive_time_with(j, v), deadline[i]) &&
        in_time(pair_time(network, i, j, v), deadline[i]))
      choice.add(i, j, v);
  }

  MulticastUpdate update;
  for (const std::uint32_t i : order)
    for (std::uint32_t j = 0; j < n; ++j) {
      if (i == ready && choice.has(i, j)) update.receivers.push_back(j);
      if (i != ready && senders[i].chosen[j] && !choice.has(i, j))
        update.cancelled.emplace_back(i, j);
    }
  std::ranges::sort(update.cancelled);
  return update;
}

}  // namespace longhaul::flow
