#include "longhaul/transfer/registry.h"

#include "longhaul/transfer/reliable.h"

namespace longhaul::transfer {
namespace {

Result<std::unique_ptr<Transfer>> make_reliable(const Settings& settings, const Place& place) {
  LH_TRY(refuse_unknown(settings, {"kind"}));
  return std::unique_ptr<Transfer>(std::make_unique<Reliable>(place));
}

std::vector<FieldDoc> describe_reliable() { return {}; }

constexpr TransferEntry kEntries[] = {
    {"reliable",
     "every value arrives, in pieces of a chunk, by priority",
     make_reliable,
     describe_reliable,
     {.lossless = true}},
};

}  // namespace

std::span<const TransferEntry> registry() { return kEntries; }

}  // namespace longhaul::transfer
