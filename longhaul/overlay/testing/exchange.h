#pragma once
// A job that does nothing but average, for testing overlays on a MachineNet: every worker brings a
// vector a round, and keeps what it gets.
#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <stdexcept>
#include <tuple>

#include "longhaul/base/testing/effort.h"
#include "longhaul/core/testing/machine_net.h"
#include "longhaul/core/testing/plain_transfer.h"
#include "longhaul/overlay/agreed.h"
#include "longhaul/overlay/registry.h"
#include "longhaul/overlay/testing/coarse.h"
#include "longhaul/overlay/testing/exact.h"

namespace longhaul::overlay::testing {

using longhaul::testing::MachineNet;
using longhaul::testing::PlainTransfer;

struct ExchangeConfig {
  // direct, hub, ring, rack, binary, halving_doubling, forest, hierarchical, tsengine
  std::string kind = "direct";
  std::string phases = "streamed";
  std::string down_codec = "fp32";                // hub
  std::uint32_t window = 0;                       // hub
  std::uint32_t groups = 0;                       // rack
  std::shared_ptr<const flow::Wan> network = {};  // forest, hierarchical; ring: its order is by it
  std::map<Rank, std::shared_ptr<const flow::Wan>> believed = {};  // forest: by one, instead
  bool learned = false;         // forest: rates are, at every chance
  std::string between = "hub";  // hierarchical
  bool seeded = false;          // binary: in an order that is drawn
  std::uint32_t workers = 3;
  std::uint32_t nodes = 1;    // workers at a site; the last site has what is left
  bool hasty = false;         // tsengine: deadlines that pass
  std::uint32_t buckets = 8;  // tsengine
  // hub, rack, binary, hierarchical, tsengine: the last rank is a server and no worker
  bool server = false;
  std::uint64_t length = longhaul::testing::kGate ? 1250 : 5000;
  std::uint64_t buffers = 0;  // > 0: a second vector, exact, beside each first
  Round rounds = 2;
  bool lossy = false;   // a codec that loses bits and has a memory
  bool equal = false;   // all contributions are equal
  bool sparse = false;  // most values of a contribution are 0, and are left out of the means
  bool phantom = false;
  std::uint64_t seed = 1;   // of the numbers
  std::uint64_t order = 1;  // of events
  std::uint32_t chunk_bytes = longhaul::testing::kGate ? 1024 : 4096;
  std::function<bool(Rank, Round)> contributes = [](Rank, Round) { return true; };
  // Returns the group of a rank in a round; default: all workers.
  struct Grouping {
    std::uint32_t group = 0;
    std::vector<Rank> members = {};  // empty: all
    Round round = 0;                 // of the group
    bool last = false;               // it is closed behind
  };
  std::function<Grouping(Rank, Round)> grouping = [](Rank, Round round) {
    return Grouping{0, {}, round, false};
  };
  std::function<std::unique_ptr<Topology>()> topology = {};  // in place of one that has a name
  std::function<std::unique_ptr<Transfer>(const Place&)> transfer = {};  // absent: PlainTransfer
};

inline std::string name(const ExchangeConfig& c) {
  return c.kind + " " + c.phases + (c.server ? " server" : "") + (c.window > 0 ? " window" : "") +
         (c.groups > 0 ? " groups" : "") + (c.seeded ? " seeded" : "") +
         (c.network ? " on a network" : "") + (c.learned ? " learned" : "") +
         (c.kind == "hierarchical" ? " " + c.between : "") +
         (c.kind == "tsengine" ? " buckets " + std::to_string(c.buckets) : "") + ", workers " +
         std::to_string(c.workers) + ", length " + std::to_string(c.length) + ", order " +
         std::to_string(c.order);
}

inline double weight_of(Rank rank) { return 1 + 0.37 * double(rank % 7); }

// Returns a rank's contribution to a round; `range` 0 or 1.
inline std::vector<float> vector_of(const ExchangeConfig& c, Rank rank, Round round,
                                    std::uint32_t range) {
  if (c.phantom) return {};
  // Drawn once for all nodes that ask for it and each mean that it is in: half of the time of
  // tests.
  using Key = std::tuple<std::uint64_t, Rank, Round, std::uint32_t, std::uint64_t, bool>;
  constexpr std::size_t kMostKept = 512;
  static thread_local std::map<Key, std::vector<float>> drawn;
  const std::uint64_t length = range == 0 ? c.length : c.buffers;
  const bool sparse = c.sparse && range == 0;
  if (drawn.size() >= kMostKept) drawn.clear();
  const auto [at, is_new] =
      drawn.try_emplace(Key{c.seed, c.equal ? 0 : rank, round, range, length, sparse});
  std::vector<float>& values = at->second;
  if (!is_new) return values;
  Random random(c.seed, {Purpose::test, 1000 + round, c.equal ? 0 : rank, range});
  values.resize(length);
  for (float& v : values) {
    v = float(random.uniform() * 2 - 1);
    if (sparse && random.uniform() < 0.6) v = 0;
  }
  return values;
}

// The mean over `counted` as R-2 has it.
inline std::vector<float> mean_of(const ExchangeConfig& c, const std::vector<Rank>& counted,
                                  Round round, std::uint32_t range) {
  std::vector<double> sum(range == 0 ? c.length : c.buffers);
  std::vector<double> weights(sum.size());
  for (const Rank rank : counted) {
    const std::vector<float> values = vector_of(c, rank, round, range);
    const double weight = weight_of(rank);
    for (std::size_t i = 0; i < sum.size(); ++i) {
      if (!c.sparse || range == 1 || values[i] != 0) weights[i] += weight;
      sum[i] += weight * double(values[i]);
    }
  }
  std::vector<float> mean(sum.size());
  for (std::size_t i = 0; i < sum.size(); ++i)
    if (weights[i] > 0) mean[i] = float(sum[i] / weights[i]);
  return mean;
}

// Means are rounded more than once.
inline bool sums_on_the_way(const ExchangeConfig& c) {
  return c.kind != "direct" && c.kind != "hub" && c.kind != "gather";
}

inline std::unique_ptr<Overlay> make_overlay(const ExchangeConfig& c, const Place& place) {
  OverlayParts parts;
  parts.transfer =
      c.transfer ? c.transfer(place) : std::make_unique<PlainTransfer>(/*scrambles=*/true);
  parts.make_codec = [&c](bool feedback) -> std::unique_ptr<Codec> {
    if (c.lossy) return std::make_unique<Coarse>(feedback);
    return std::make_unique<Exact>(c.sparse);
  };
  if (c.server) parts.server = c.workers;
  const auto own = c.believed.find(place.self);
  parts.network = own == c.believed.end() ? c.network : own->second;
  if (c.topology) return std::make_unique<AgreedMean>(place, std::move(parts), c.topology());
  Settings settings{.table = "overlay"};
  const auto set = [&](std::string key, Value value) {
    settings.set({std::move(key), std::move(value)});
  };
  if (c.kind != "gather") set("phases", {c.phases});
  if (c.kind == "hub") {
    set("down_codec", {c.down_codec});
    set("window", {std::int64_t(c.window)});
  }
  if (c.kind == "ring") set("order", {std::string(c.network ? "bandwidth" : "id")});
  if (c.kind == "rack") set("groups", {std::int64_t(c.groups)});
  if (c.kind == "binary") set("order", {std::string(c.seeded ? "seeded" : "id")});
  if (c.kind == "forest" && c.learned)
    for (const auto& [key, value] :
         std::vector<std::pair<std::string, Value>>{{"pieces", {std::int64_t{400}}},
                                                    {"rates", {std::string("learned")}},
                                                    {"drift", {0.01}},
                                                    {"ema", {1.0}},
                                                    {"probe_rounds", {std::int64_t{1}}}})
      set(key, value);
  if (c.kind == "hierarchical") set("between", {c.between});
  if (c.kind == "tsengine") {
    const double allowed = c.hasty ? 40e-9 : 1e6;  // an event takes 1 ns
    set("buckets", {std::int64_t(c.buckets)});
    set("deadline", {allowed});
    set("unknown_deadline", {allowed});
  }
  Place of = place;
  if (c.kind == "binary") of.seed = c.seed;  // not that of the order of events
  const auto entries = registry();
  const auto entry = std::ranges::find(entries, c.kind, &OverlayEntry::name);
  LH_CHECK(entry != entries.end());
  auto made = entry->make(settings, std::move(parts), of);
  LH_CHECK(made);
  return *std::move(made);
}

class Averager final : public Machine {
 public:
  Averager(const ExchangeConfig& config, const Place& place)
      : config_(config),
        worker_(place.me().is(Role::worker)),
        overlay_(make_overlay(config_, place)) {
    own(*overlay_);
  }

  void start(Turn& turn) { started_ = true, on_progress(turn); }
  void on_progress(Turn& turn) override {
    while (started_ && worker_ && advance(turn)) {
    }
  }

  void state(Archive& ar) override { ar(started_, begun_, outcomes_, extras_); }

  Overlay& overlay() { return *overlay_; }
  // Groups that its overlay keeps, that of all workers counted.
  std::size_t groups() const { return static_cast<const AgreedMean&>(*overlay_).groups(); }
  const std::vector<Outcome>& outcomes() const { return outcomes_; }
  const std::vector<Outcome>& extras() const { return extras_; }
  bool done() const { return outcomes_.size() == config_.rounds; }

 private:
  bool advance(Turn& turn) {
    const Round round = outcomes_.size();
    if (!begun_) {
      if (done()) return false;
      begun_ = true;
      const auto in = config_.grouping(turn.self(), round);
      const bool gives = config_.contributes(turn.self(), round);
      for (std::uint32_t range = 0; range < (config_.buffers > 0 ? 2u : 1u); ++range) {
        const auto values =
            gives ? vector_of(config_, turn.self(), round, range) : std::vector<float>();
        const std::uint64_t length = range == 0 ? config_.length : config_.buffers;
        LH_CHECK(overlay_->begin({in.round, in.group, range}, in.members,
                                 {values, length, weight_of(turn.self()), gives, range == 1},
                                 within(*overlay_, turn)));
      }
      return true;
    }
    const auto in = config_.grouping(turn.self(), round);
    if (config_.buffers > 0 && extras_.size() == round) {
      auto extra = overlay_->poll({in.round, in.group, 1});
      if (extra) extras_.push_back(std::move(*extra));
    }
    if (config_.buffers > 0 && extras_.size() == round) return false;
    auto outcome = overlay_->poll({in.round, in.group, 0});
    if (!outcome) return false;
    outcomes_.push_back(std::move(*outcome));
    if (in.last) {
      overlay_->close(in.group, within(*overlay_, turn));
    }
    begun_ = false;
    return true;
  }

  const ExchangeConfig config_;
  const bool worker_;
  std::unique_ptr<Overlay> overlay_;
  bool started_ = false;
  bool begun_ = false;
  std::vector<Outcome> outcomes_;
  std::vector<Outcome> extras_;  // of the second vector
};

// A running job. Every rank starts at an event of its own.
class Exchange {
 public:
  explicit Exchange(const ExchangeConfig& config)
      : config_(config), random_(config.order, {Purpose::test, 77}) {
    MachineNet::Config net{.ranks = config.workers,
                           .layout = Layout::flat(config.length),
                           .seed = config.order,
                           .chunk_bytes = config.chunk_bytes,
                           .phantom = config.phantom};
    for (Rank rank = 0; rank < config.workers; ++rank)
      net.members.push_back({"site" + std::to_string(rank / config.nodes), rank % config.nodes, 0,
                             std::uint8_t(Role::worker)});
    if (config.server) net.members.push_back({"hub", 0, 0, std::uint8_t(Role::server)});
    to_start_.resize(config.workers);
    std::iota(to_start_.begin(), to_start_.end(), Rank{0});
    net_ = std::make_unique<MachineNet>(
        net, [this](const Place& place) { return std::make_unique<Averager>(config_, place); });
  }

  // One that has run to its end; an exception if disagreement() says something then.
  static Exchange agreed(const ExchangeConfig& config) { return Exchange(config, true); }

  MachineNet& net() { return *net_; }
  Averager& at(Rank rank) { return static_cast<Averager&>(net_->machine(rank)); }
  const ExchangeConfig& config() const { return config_; }
  std::vector<Rank> live_workers() {
    std::vector<Rank> ranks;
    for (Rank rank = 0; rank < config_.workers; ++rank)
      if (net_->alive(rank)) ranks.push_back(rank);
    return ranks;
  }

  // Returns the live members of the rank's group in the round.
  std::vector<Rank> live_members(Rank rank, Round round) {
    std::vector<Rank> live = live_workers();
    const auto in = config_.grouping(rank, round);
    if (!in.members.empty())
      std::erase_if(live, [&](Rank one) {
        return !std::binary_search(in.members.begin(), in.members.end(), one);
      });
    return live;
  }

  // one event; false: nothing left to happen
  bool step() {
    if (!to_start_.empty() && random_.below(8) == 0) {
      const std::size_t which = random_.below(to_start_.size());
      const Rank rank = to_start_[which];
      to_start_.erase(to_start_.begin() + std::ptrdiff_t(which));
      net_->act(rank, [&](Turn& turn) { at(rank).start(turn); });
      return true;
    }
    return net_->step() || !to_start_.empty();
  }

  // until idle
  void run() {
    for (std::uint64_t steps = 0; step(); ++steps) LH_CHECK(steps < 50'000'000);
  }

  // "" if all live workers hold the same outcome of every round, which is the mean of those
  // counted; else what is wrong.
  std::string disagreement() {
    for (const std::string& error : net_->errors) return error;
    for (const auto& [rank, reason] : net_->failed) return reason;
    const std::vector<Rank> live = live_workers();
    for (const Rank rank : live)
      if (!at(rank).done())
        return "rank " + std::to_string(rank) + " waits: " + at(rank).overlay().waiting_for();
    for (const Rank rank : live) {
      for (Round round = 0; round < config_.rounds; ++round) {
        const Rank first = live_members(rank, round)[0];
        std::string wrong =
            compare(rank, round, at(rank).outcomes()[round], at(first).outcomes().at(round), 0);
        if (wrong.empty() && config_.buffers > 0)
          wrong = compare(rank, round, at(rank).extras()[round], at(first).extras().at(round), 1);
        if (!wrong.empty()) return wrong;
      }
    }
    return "";
  }

 private:
  Exchange(const ExchangeConfig& config, bool) : Exchange(config) {
    run();
    const std::string why = disagreement();
    if (!why.empty()) throw std::runtime_error(name(config) + ": " + why);
  }
  std::string compare(Rank rank, Round round, const Outcome& mine, const Outcome& first,
                      std::uint32_t range) {
    const std::string who = "rank " + std::to_string(rank) + ", round " + std::to_string(round);
    if (mine.counted != first.counted) return who + " counts others";
    if (mine.values != first.values || mine.weight != first.weight) return who + " has other bits";
    std::vector<Rank> right;
    for (const Rank one : mine.counted)
      if (one >= config_.workers || !config_.contributes(one, round))
        return who + " counts too many";
    for (const Rank one : live_members(rank, round))
      if (config_.contributes(one, round) &&
          !std::binary_search(mine.counted.begin(), mine.counted.end(), one))
        return who + " lacks rank " + std::to_string(one);
    const bool compared = &mine != &first;  // the first had these values, and was compared
    if (config_.phantom || mine.counted.empty() || compared) return "";
    const std::vector<float> mean = mean_of(config_, mine.counted, round, range);
    const double slack = config_.lossy && range == 0 ? 0.05 * double(config_.workers) + 2
                         : sums_on_the_way(config_)  ? 2e-7 * double(config_.workers)
                                                     : 0;
    for (std::size_t i = 0; i < mean.size(); ++i)
      if (mine.values.size() != mean.size() || !(std::fabs(mine.values[i] - mean[i]) <= slack))
        return who + " has a wrong mean at " + std::to_string(i);
    return "";
  }

  const ExchangeConfig config_;
  std::unique_ptr<MachineNet> net_;
  std::vector<Rank> to_start_;
  Random random_;
};

}  // namespace longhaul::overlay::testing
