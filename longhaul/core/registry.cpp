#include "longhaul/core/registry.h"

#include <algorithm>

namespace longhaul {
namespace {

std::string quoted(std::string_view table, std::string_view name) {
  return "[" + std::string(table) + "] kind = \"" + std::string(name) + "\"";
}

std::string_view what(Op op) {
  switch (op) {
    case Op::mean:
      return "means";
    case Op::gather:
      return "gathers";
    case Op::broadcast:
      return "broadcasts";
  }
  return "";
}

}  // namespace

std::string_view to_string(Bits bits) {
  switch (bits) {
    case Bits::rank:
      return "rank";
    case Bits::plan:
      return "plan";
    case Bits::schedule:
      return "schedule";
  }
  return "";
}

SyncEntry entry_with(const SyncEntry& entry, const Settings& settings) {
  SyncEntry with = entry;
  if (entry.adapt) entry.adapt(settings, with.traits);
  return with;
}

std::optional<std::string> illegal(const SyncEntry& sync, const OverlayEntry& overlay,
                                   const TransferEntry& transfer, const CodecEntry& codec,
                                   bool error_feedback, const OuterEntry& outer) {
  const std::string strategy = quoted("sync", sync.name), way = quoted("overlay", overlay.name);
  const std::string numbers = quoted("codec", codec.name);
  if (!sync.traits.only_overlay.empty() && overlay.name != sync.traits.only_overlay)
    return strategy + " talks to its server by itself, not through " + way + ": set " +
           quoted("overlay", sync.traits.only_overlay);
  const std::vector<Op>& ops = overlay.traits.ops;
  if (std::find(ops.begin(), ops.end(), sync.traits.op) == ops.end())
    return strategy + " exchanges " + std::string(what(sync.traits.op)) + ", which " + way +
           " cannot make: choose another overlay";
  if (overlay.traits.sums_on_the_way && codec.traits.algebra == Algebra::gather)
    return way + " adds to what others encoded, which " + numbers +
           " does not allow: choose [overlay] kind = \"direct\" or \"hub\"";
  if (overlay.traits.sums_on_the_way && codec.traits.algebra == Algebra::reencode && error_feedback)
    return way +
           " encodes partial sums, whose error no site could feed back: set [codec] "
           "error_feedback = false, or choose [overlay] kind = \"direct\" or \"hub\"";
  if (error_feedback && !codec.traits.contraction)
    return numbers +
           " is no contraction, so its error must not be fed back: set [codec] "
           "error_feedback = false";
  if (error_feedback && !sync.traits.no_feedback.empty())
    return strategy + " " + std::string(sync.traits.no_feedback) +
           ": set [codec] error_feedback = false";
  if (!codec.traits.contraction && !sync.traits.takes_unbiased)
    return strategy +
           " needs a codec that is near its input each time, not in the mean: choose "
           "[codec] kind = \"fp16\" instead of \"" +
           std::string(codec.name) + "\"";
  if (!transfer.traits.lossless && sync.traits.op == Op::mean)
    return way + " promises a mean of whole vectors, and " + quoted("transfer", transfer.name) +
           " may lose parts of them: choose [transfer] kind = \"reliable\"";
  if (outer.name != "none" && !sync.traits.takes_outer)
    return strategy + " takes no outer optimiser: set [outer] kind = \"none\"";
  return std::nullopt;
}

}  // namespace longhaul
