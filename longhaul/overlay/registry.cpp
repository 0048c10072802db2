#include "longhaul/overlay/registry.h"

#include "longhaul/overlay/agreed.h"
#include "longhaul/overlay/binary.h"
#include "longhaul/overlay/direct.h"
#include "longhaul/overlay/forest.h"
#include "longhaul/overlay/gather.h"
#include "longhaul/overlay/halving_doubling.h"
#include "longhaul/overlay/hierarchical.h"
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

using Way = std::unique_ptr<Topology>;

Way way_of(const DirectConfig& config, const OverlayParts&, const Place&) {
  return std::make_unique<Direct>(config);
}
Way way_of(const GatherConfig& config, const OverlayParts&, const Place&) {
  return std::make_unique<Gather>(config);
}
Way way_of(const HubConfig& config, const OverlayParts& parts, const Place&) {
  return std::make_unique<Hub>(config, parts.server);
}
Way way_of(const RingConfig& config, const OverlayParts& parts, const Place& place) {
  const bool by_rate = config.order == "bandwidth";
  return std::make_unique<Ring>(config, by_rate ? rates_of(parts.network, place) : RateBelief{},
                                place);
}
Way way_of(const RackConfig& config, const OverlayParts& parts, const Place&) {
  return std::make_unique<Rack>(config, parts.server);
}
Way way_of(const BinaryConfig& config, const OverlayParts& parts, const Place& place) {
  return std::make_unique<Binary>(config, parts.server, place);
}
Way way_of(const HalvingDoublingConfig& config, const OverlayParts&, const Place&) {
  return std::make_unique<HalvingDoubling>(config);
}
Way way_of(const ForestConfig& config, const OverlayParts& parts, const Place& place) {
  return std::make_unique<PlannedForest>(config, parts.network, place);
}
Way way_of(const HierarchicalConfig& config, const OverlayParts& parts, const Place& place) {
  return std::make_unique<Hierarchical>(config, parts.server, parts.network, place);
}
Way way_of(const TsEngineConfig& config, const OverlayParts& parts, const Place& place) {
  return std::make_unique<TsEngine>(config, parts.server, place.seed);
}

template <class Config>
Made make(const Settings& settings, OverlayParts parts, const Place& place) {
  Config config;
  LH_TRY(read_settings(settings, config));
  Way way = way_of(config, parts, place);
  return std::unique_ptr<Overlay>(
      std::make_unique<AgreedMean>(place, std::move(parts), std::move(way)));
}

Made make_hub(const Settings& settings, OverlayParts parts, const Place& place) {
  HubConfig config;
  LH_TRY(read_settings(settings, config));
  if (config.window > 0 && config.phases == "sequential")
    return bad_setting(settings, *settings.find("window"),
                       "0 with phases = \"sequential\", in which no mean comes before all parts "
                       "are sent; leave the key out");
  return make<HubConfig>(settings, std::move(parts), place);
}

const OverlayEntry kEntries[] = {
    {"direct",
     "everyone to everyone: each worker reduces its share of the vector",
     make<DirectConfig>,
     describe_config<DirectConfig>,
     {.bits = Bits::rank, .broadcast = BroadcastFrom::anyone}},
    {"hub",
     "all to one server and back: the parameter server",
     make_hub,
     describe_config<HubConfig>,
     {.bits = Bits::rank, .broadcast = BroadcastFrom::server}},
    {"gather",
     "all parts to all, no means: for codecs whose vectors cannot be added as they are encoded",
     make<GatherConfig>,
     describe_config<GatherConfig>,
     {.bits = Bits::rank, .sums_everywhere = true}},
    {"ring",
     "in a circle, by rank or bandwidth: reduce-scatter and all-gather, chunk by chunk",
     make<RingConfig>,
     describe_config<RingConfig>,
     {.bits = Bits::plan, .sums_on_the_way = true}},
    {"rack",
     "groups of workers: members to an aggregator, aggregators to the server, and back",
     make<RackConfig>,
     describe_config<RackConfig>,
     {.bits = Bits::plan, .sums_on_the_way = true, .broadcast = BroadcastFrom::server}},
    {"binary",
     "one complete binary tree below the server, up and down again",
     make<BinaryConfig>,
     describe_config<BinaryConfig>,
     {.bits = Bits::plan, .sums_on_the_way = true, .broadcast = BroadcastFrom::server}},
    {"halving_doubling",
     "recursive halving of sums, doubling of means: 2 log2(n) steps",
     make<HalvingDoublingConfig>,
     describe_config<HalvingDoublingConfig>,
     {.bits = Bits::plan, .sums_on_the_way = true}},
    {"forest",
     "many trees, planned by the network's rates so that all links work at once",
     make<ForestConfig>,
     describe_config<ForestConfig>,
     {.bits = Bits::plan, .sums_on_the_way = true}},
    {"hierarchical",
     "inside each site over its LAN, then between sites as hub, rack, binary, ring or forest do",
     make<HierarchicalConfig>,
     describe_config<HierarchicalConfig>,
     {.bits = Bits::plan, .sums_on_the_way = true}},
    {"tsengine",
     "each transfer decided online by a coordinator: pairs add up, holders pass the mean on",
     make<TsEngineConfig>,
     describe_config<TsEngineConfig>,
     {.bits = Bits::schedule, .sums_on_the_way = true}},
};

}  // namespace

std::span<const OverlayEntry> registry() { return kEntries; }

}  // namespace longhaul::overlay
