#include "longhaul/overlay/registry.h"

#include "longhaul/overlay/agreed.h"
#include "longhaul/overlay/fixed_plans.h"
#include "longhaul/overlay/forest.h"
#include "longhaul/overlay/hierarchical.h"
#include "longhaul/overlay/tsengine.h"

namespace longhaul::overlay {
namespace {

// `Way`: a Topology with `struct Config` (fields()) and a constructor from (Config, OverlayParts,
// Place); if no range of a key says all, with `static Status check(const Config&, const
// Settings&)`.
template <class Way>
Result<std::unique_ptr<Overlay>> make(const Settings& settings, OverlayParts parts,
                                      const Place& place) {
  typename Way::Config config;
  LH_TRY(read_settings(settings, config));
  if constexpr (requires { Way::check(config, settings); }) LH_TRY(Way::check(config, settings));
  auto way = std::make_unique<Way>(config, parts, place);
  return std::unique_ptr<Overlay>(
      std::make_unique<AgreedMean>(place, std::move(parts), std::move(way)));
}

template <class Way>
OverlayEntry entry(std::string_view name, std::string_view summary, OverlayTraits traits) {
  return {name, summary, make<Way>, [] { return describe(typename Way::Config{}); }, traits};
}

const OverlayEntry kEntries[] = {
    entry<Direct>("direct", "every worker to every other: each reduces its share of the vector",
                  {.bits = Bits::rank, .broadcast = BroadcastFrom::anyone}),
    entry<Hub>("hub", "all to one server and back: the parameter server",
               {.bits = Bits::rank, .broadcast = BroadcastFrom::server}),
    entry<Gather>("gather",
                  "all parts to every worker, no means: for codecs whose vectors cannot be added "
                  "as they are encoded",
                  {.bits = Bits::rank, .sums_everywhere = true}),
    entry<Ring>("ring",
                "in a circle, by rank or bandwidth: reduce-scatter and all-gather, chunk by chunk",
                {.bits = Bits::plan, .sums_on_the_way = true}),
    entry<Rack>("rack",
                "groups of workers: members to an aggregator, aggregators to the server, and back",
                {.bits = Bits::plan, .sums_on_the_way = true, .broadcast = BroadcastFrom::server}),
    entry<Binary>(
        "binary", "one complete binary tree below the server, up and down again",
        {.bits = Bits::plan, .sums_on_the_way = true, .broadcast = BroadcastFrom::server}),
    entry<HalvingDoubling>("halving_doubling",
                           "recursive halving of sums, doubling of means: 2 log2(n) steps",
                           {.bits = Bits::plan, .sums_on_the_way = true}),
    entry<PlannedForest>(
        "forest", "many trees, planned by the network's rates so that all links work at once",
        {.bits = Bits::plan, .sums_on_the_way = true}),
    entry<Hierarchical>("hierarchical",
                        "inside each site over its LAN, then between sites as hub, rack, binary, "
                        "ring or forest do",
                        {.bits = Bits::plan, .sums_on_the_way = true}),
    entry<TsEngine>("tsengine",
                    "each transfer decided online by a coordinator: pairs add up, holders pass the "
                    "mean on",
                    {.bits = Bits::schedule, .sums_on_the_way = true}),
};

}  // namespace

std::span<const OverlayEntry> registry() { return kEntries; }

}  // namespace longhaul::overlay
