#include "longhaul/core/registry.h"

namespace longhaul {
namespace {

std::string quoted(std::string_view table, std::string_view name) {
  return "[" + std::string(table) + "] kind = \"" + std::string(name) + "\"";
}

}  // namespace

std::string_view to_string(Bits bits) {
  constexpr std::string_view kNames[] = {"rank", "plan", "schedule"};
  return kNames[std::size_t(bits)];
}

SyncEntry entry_with(const SyncEntry& entry, const Settings& settings) {
  SyncEntry with = entry;
  if (entry.adapt) entry.adapt(settings, with.traits);
  return with;
}

std::optional<Illegal> illegal(const SyncEntry& sync, const OverlayEntry& overlay,
                               const TransferEntry& transfer, const CodecEntry& codec,
                               bool error_feedback, const OuterEntry& outer) {
  constexpr const char* kNoFeedback = ": set [codec] error_feedback = false";
  const std::string strategy = quoted("sync", sync.name), way = quoted("overlay", overlay.name);
  const std::string numbers = quoted("codec", codec.name);
  if (!sync.traits.only_overlay.empty() && overlay.name != sync.traits.only_overlay)
    return Illegal{strategy + " talks to its server by itself, not through " + way, "overlay"};
  if (overlay.traits.sums_on_the_way && codec.traits.algebra == Algebra::gather)
    return Illegal{
        way + " adds to values that others encoded, which " + numbers + " does not allow",
        "overlay"};
  if (overlay.traits.sums_on_the_way && codec.traits.algebra == Algebra::reencode && error_feedback)
    return Illegal{way + " encodes partial sums, whose error no site could feed back" +
                   kNoFeedback + ", or choose an overlay without partial sums"};
  if (error_feedback && !codec.traits.contraction)
    return Illegal{numbers + " is no contraction, so its error must not be fed back" + kNoFeedback};
  const bool near = codec.traits.contraction && codec.traits.close;
  if (!near && !sync.traits.takes_unbiased)
    return Illegal{strategy + " needs a codec that is near its input each time, and " + numbers +
                       " is so in the mean or with error feedback only",
                   "codec"};
  if (error_feedback && !sync.traits.no_feedback.empty())
    return Illegal{strategy + " " + std::string(sync.traits.no_feedback) + kNoFeedback};
  if (!transfer.traits.lossless) {
    const std::string moves = quoted("transfer", transfer.name);
    if (!sync.traits.takes_gaps)
      return Illegal{strategy + " needs every value that it sends, and " + moves + " loses some",
                     "transfer"};
    if (overlay.traits.sums_everywhere)
      return Illegal{way + " has every node add all parts, of which " + moves +
                         " loses other values for each: their means would differ",
                     "overlay"};
    if (overlay.traits.sums_on_the_way)
      return Illegal{way + " sends partial sums, and of a sum " + moves +
                         " would lose the values of several sites",
                     "overlay"};
    if (codec.traits.algebra == Algebra::gather)
      return Illegal{numbers + " leaves out small values already, and " + moves +
                         " could not weigh what is left",
                     "codec"};
  }
  if (outer.traits.changes && !sync.traits.takes_outer)
    return Illegal{strategy + " takes no outer optimiser", "outer"};
  return std::nullopt;
}

}  // namespace longhaul
