#include "longhaul/overlay/registry.h"

#include "longhaul/overlay/agreed.h"
#include "longhaul/overlay/binary.h"
#include "longhaul/overlay/direct.h"
#include "longhaul/overlay/forest.h"
#include "longhaul/overlay/halving_doubling.h"
#include "longhaul/overlay/hub.h"
#include "longhaul/overlay/rack.h"
#include "longhaul/overlay/ring.h"
#include "longhaul/overlay/tsengine.h"

namespace longhaul::overlay {
namespace {

using Made = Result<std::unique_ptr<Overlay>>;

template <class Config>
std::vector<FieldDoc> describe_config() {
  return describe(Config{});
}

template <class Config, class Kind>
Made make(const Settings& settings, OverlayParts parts, const Place& place) {
  Config config;
  LH_TRY(read_settings(settings, config));
  return std::unique_ptr<Overlay>(
      std::make_unique<AgreedMean>(place, std::move(parts), std::make_unique<Kind>(config)));
}

Made make_hub(const Settings& settings, OverlayParts parts, const Place& place) {
  HubConfig config;
  LH_TRY(read_settings(settings, config));
  if (config.window > 0 && config.phases == "sequential")
    return bad_setting(settings, *settings.find("window"),
                       "0 with phases = \"sequential\", in which no mean comes before all parts "
                       "are sent; leave the key out");
  auto topology = std::make_unique<Hub>(config, parts.server);
  return std::unique_ptr<Overlay>(
      std::make_unique<AgreedMean>(place, std::move(parts), std::move(topology)));
}

Made make_ring(const Settings& settings, OverlayParts parts, const Place& place) {
  RingConfig config;
  LH_TRY(read_settings(settings, config));
  auto topology = std::make_unique<Ring>(config, parts.rate, place);
  return std::unique_ptr<Overlay>(
      std::make_unique<AgreedMean>(place, std::move(parts), std::move(topology)));
}

Made make_rack(const Settings& settings, OverlayParts parts, const Place& place) {
  RackConfig config;
  LH_TRY(read_settings(settings, config));
  auto topology = std::make_unique<Rack>(config, parts.server);
  return std::unique_ptr<Overlay>(
      std::make_unique<AgreedMean>(place, std::move(parts), std::move(topology)));
}

Made make_binary(const Settings& settings, OverlayParts parts, const Place& place) {
  BinaryConfig config;
  LH_TRY(read_settings(settings, config));
  auto topology = std::make_unique<Binary>(config, parts.server, place);
  return std::unique_ptr<Overlay>(
      std::make_unique<AgreedMean>(place, std::move(parts), std::move(topology)));
}

Made make_forest(const Settings& settings, OverlayParts parts, const Place& place) {
  ForestConfig config;
  LH_TRY(read_settings(settings, config));
  auto topology = std::make_unique<PlannedForest>(config, parts.network, place);
  return std::unique_ptr<Overlay>(
      std::make_unique<AgreedMean>(place, std::move(parts), std::move(topology)));
}

Made make_tsengine(const Settings& settings, OverlayParts parts, const Place& place) {
  TsEngineConfig config;
  LH_TRY(read_settings(settings, config));
  auto topology = std::make_unique<TsEngine>(config, parts.server, place.seed);
  return std::unique_ptr<Overlay>(
      std::make_unique<AgreedMean>(place, std::move(parts), std::move(topology)));
}

const OverlayEntry kEntries[] = {
    {"direct",
     "everyone to everyone: each worker reduces its share of the vector",
     make<DirectConfig, Direct>,
     describe_config<DirectConfig>,
     {.bits = Bits::rank}},
    {"hub",
     "all to one server and back: the parameter server",
     make_hub,
     describe_config<HubConfig>,
     {.bits = Bits::rank}},
    {"ring",
     "in a circle, by rank or bandwidth: reduce-scatter and all-gather, chunk by chunk",
     make_ring,
     describe_config<RingConfig>,
     {.bits = Bits::plan, .sums_on_the_way = true}},
    {"rack",
     "groups of workers: members to an aggregator, aggregators to the server, and back",
     make_rack,
     describe_config<RackConfig>,
     {.bits = Bits::plan, .sums_on_the_way = true}},
    {"binary",
     "one complete binary tree below the server, up and down again",
     make_binary,
     describe_config<BinaryConfig>,
     {.bits = Bits::plan, .sums_on_the_way = true}},
    {"halving_doubling",
     "recursive halving of sums, doubling of means: 2 log2(n) steps",
     make<HalvingDoublingConfig, HalvingDoubling>,
     describe_config<HalvingDoublingConfig>,
     {.bits = Bits::plan, .sums_on_the_way = true}},
    {"forest",
     "many trees, planned by the network's rates so that all links work at once",
     make_forest,
     describe_config<ForestConfig>,
     {.bits = Bits::plan, .sums_on_the_way = true}},
    {"tsengine",
     "each transfer decided online by a coordinator: pairs add up, holders pass the mean on",
     make_tsengine,
     describe_config<TsEngineConfig>,
     {.bits = Bits::schedule, .sums_on_the_way = true}},
};

}  // namespace

std::span<const OverlayEntry> registry() { return kEntries; }

}  // namespace longhaul::overlay
