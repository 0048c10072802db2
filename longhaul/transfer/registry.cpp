#include "longhaul/transfer/registry.h"

#include "longhaul/transfer/dgt.h"
#include "longhaul/transfer/reliable.h"

namespace longhaul::transfer {
namespace {

// clang-format off
constexpr TransferEntry (*kTransfers[])() = {
    Reliable::entry,
    Dgt::entry,
};
// clang-format on

}  // namespace

std::span<const TransferEntry> registry() {
  static const std::vector<TransferEntry> entries = [] {
    std::vector<TransferEntry> all;
    for (const auto entry : kTransfers) all.push_back(entry());
    return all;
  }();
  return entries;
}

}  // namespace longhaul::transfer
