#include "longhaul/overlay/testing/exchange.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <tuple>

#include "longhaul/overlay/binary.h"
#include "longhaul/overlay/direct.h"
#include "longhaul/overlay/forest.h"
#include "longhaul/overlay/gather.h"
#include "longhaul/overlay/halving_doubling.h"
#include "longhaul/overlay/hierarchical.h"
#include "longhaul/overlay/rack.h"
#include "longhaul/overlay/ring.h"
#include "longhaul/overlay/testing/coarse.h"
#include "longhaul/overlay/testing/exact.h"
#include "longhaul/overlay/testing/scrambler.h"
#include "longhaul/overlay/tsengine.h"

namespace longhaul::overlay::testing {

double weight_of(Rank rank) { return 1 + 0.37 * double(rank % 7); }

std::vector<float> vector_of(const ExchangeConfig& c, Rank rank, Round round, std::uint32_t range) {
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

std::vector<float> mean_of(const ExchangeConfig& c, const std::vector<Rank>& counted, Round round,
                           std::uint32_t range) {
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

bool sums_on_the_way(const ExchangeConfig& c) {
  return c.kind != "direct" && c.kind != "hub" && c.kind != "gather";
}

std::unique_ptr<Overlay> make_overlay(const ExchangeConfig& c, const Place& place) {
  OverlayParts parts;
  parts.transfer = std::make_unique<Scrambler>();
  parts.make_codec = [&c](bool feedback) -> std::unique_ptr<Codec> {
    if (c.lossy) return std::make_unique<Coarse>(feedback);
    return std::make_unique<Exact>(c.sparse);
  };
  std::unique_ptr<Topology> topology;
  if (c.kind == "gather") topology = std::make_unique<Gather>(GatherConfig{});
  if (c.kind == "direct") topology = std::make_unique<Direct>(DirectConfig{c.phases});
  if (c.kind == "ring")
    topology = std::make_unique<Ring>(RingConfig{c.phases, c.by_rate ? "bandwidth" : "id"},
                                      c.by_rate, place);
  const auto server = c.server ? std::optional(Rank(c.workers)) : std::nullopt;
  if (c.kind == "hub")
    topology = std::make_unique<Hub>(HubConfig{c.phases, c.down_codec, c.window}, server);
  if (c.kind == "rack") topology = std::make_unique<Rack>(RackConfig{c.phases, c.groups}, server);
  if (c.kind == "binary") {
    Place of = place;
    of.seed = c.seed;  // not that of the order of events
    topology =
        std::make_unique<Binary>(BinaryConfig{c.phases, c.seeded ? "seeded" : "id"}, server, of);
  }
  if (c.kind == "halving_doubling")
    topology = std::make_unique<HalvingDoubling>(HalvingDoublingConfig{c.phases});
  const auto own = c.believed.find(place.self);
  if (c.kind == "forest")
    topology = std::make_unique<PlannedForest>(
        c.learned ? ForestConfig{c.phases, 400, "learned", 0.01, 1, 1} : ForestConfig{c.phases},
        own == c.believed.end() ? c.network : own->second, place);
  if (c.kind == "hierarchical")
    topology = std::make_unique<Hierarchical>(HierarchicalConfig{c.phases, c.between}, server,
                                              c.network, place);
  if (c.kind == "tsengine")
    topology = std::make_unique<TsEngine>(
        TsEngineConfig{.buckets = c.buckets,
                       .phases = c.phases,
                       .deadline = c.hasty ? 40e-9 : 1e6,  // an event takes 1 ns
                       .unknown_deadline = c.hasty ? 40e-9 : 1e6},
        server, place.seed);
  return std::make_unique<AgreedMean>(place, std::move(parts), std::move(topology));
}

Averager::Averager(const ExchangeConfig& config, const Place& place)
    : config_(config),
      worker_(place.me().is(Role::worker)),
      overlay_(make_overlay(config_, place)) {
  own(*overlay_);
}

void Averager::on_progress(Turn& turn) {
  while (started_ && worker_ && advance(turn)) {
  }
}

bool Averager::advance(Turn& turn) {
  const Round round = outcomes_.size();
  if (!begun_) {
    if (done()) return false;
    begun_ = true;
    Turn below = within(*overlay_, turn);
    const auto in = config_.grouping(turn.self(), round);
    const bool gives = config_.contributes(turn.self(), round);
    for (std::uint32_t range = 0; range < (config_.buffers > 0 ? 2u : 1u); ++range) {
      const auto values =
          gives ? vector_of(config_, turn.self(), round, range) : std::vector<float>();
      const std::uint64_t length = range == 0 ? config_.length : config_.buffers;
      LH_CHECK(overlay_->begin({in.round, in.group, range}, in.members,
                               {values, length, weight_of(turn.self()), gives, range == 1}, below));
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
    Turn below = within(*overlay_, turn);
    overlay_->close(in.group, below);
  }
  begun_ = false;
  return true;
}

Exchange::Exchange(const ExchangeConfig& config)
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

std::vector<Rank> Exchange::live_workers() {
  std::vector<Rank> ranks;
  for (Rank rank = 0; rank < config_.workers; ++rank)
    if (net_->alive(rank)) ranks.push_back(rank);
  return ranks;
}

bool Exchange::step() {
  if (!to_start_.empty() && random_.below(8) == 0) {
    const std::size_t which = random_.below(to_start_.size());
    const Rank rank = to_start_[which];
    to_start_.erase(to_start_.begin() + std::ptrdiff_t(which));
    net_->act(rank, [&](Turn& turn) { at(rank).start(turn); });
    return true;
  }
  return net_->step() || !to_start_.empty();
}

void Exchange::run() {
  for (std::uint64_t steps = 0; step(); ++steps) LH_CHECK(steps < 50'000'000);
}

std::string Exchange::compare(Rank rank, Round round, const Outcome& mine, const Outcome& first,
                              std::uint32_t range) {
  const std::string who = "rank " + std::to_string(rank) + ", round " + std::to_string(round);
  if (mine.counted != first.counted) return who + " counts others";
  if (mine.values != first.values || mine.weight != first.weight) return who + " has other bits";
  std::vector<Rank> right;
  for (const Rank one : mine.counted)
    if (one >= config_.workers || !config_.contributes(one, round)) return who + " counts too many";
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

std::vector<Rank> Exchange::live_members(Rank rank, Round round) {
  std::vector<Rank> live = live_workers();
  const auto in = config_.grouping(rank, round);
  if (!in.members.empty())
    std::erase_if(live, [&](Rank one) {
      return !std::binary_search(in.members.begin(), in.members.end(), one);
    });
  return live;
}

std::string Exchange::disagreement() {
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

}  // namespace longhaul::overlay::testing
