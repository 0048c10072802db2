#include "longhaul/transfer/registry.h"

#include "longhaul/transfer/dgt.h"
#include "longhaul/transfer/reliable.h"

namespace longhaul::transfer {
namespace {

// `Part`: a Transfer with `struct Config` (fields()) and a constructor from (Config, Place); if no
// range of a key says all, with `static Status check(const Config&)`.
template <class Part>
Result<std::unique_ptr<Transfer>> make(const Settings& settings, const Place& place) {
  typename Part::Config config;
  LH_TRY(read_settings(settings, config));
  if constexpr (requires { Part::check(config); }) LH_TRY(Part::check(config));
  return std::unique_ptr<Transfer>(std::make_unique<Part>(config, place));
}

template <class Part>
TransferEntry entry(std::string_view name, std::string_view summary, TransferTraits traits = {}) {
  TransferEntry entry{.name = name, .summary = summary, .traits = traits};
  entry.make = make<Part>;
  entry.describe = [] { return describe(typename Part::Config{}); };
  return entry;
}

const TransferEntry kEntries[] = {
    entry<Reliable>("reliable", "every value arrives, in pieces of a chunk, by priority"),
    entry<Dgt>("dgt", "blocks that contribute much go reliably and first, the others best effort",
               {.lossless = false, .bits = Bits::schedule}),
};

}  // namespace

std::span<const TransferEntry> registry() { return kEntries; }

}  // namespace longhaul::transfer
