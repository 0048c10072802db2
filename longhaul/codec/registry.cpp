#include "longhaul/codec/registry.h"

#include <fmt/format.h>

#include "longhaul/codec/entry.h"
#include "longhaul/codec/feedback.h"

namespace longhaul::codec {
namespace {

Status read_one(const Settings& settings, std::string_view key, auto& into) {
  const Setting* entry = settings.find(key);
  return entry ? read_value(settings, *entry, Field{.name = key}, into) : Status(Ok{});
}

}  // namespace

std::span<const CodecEntry> registry() {
  static const CodecEntry entries[] = {fp32(),    fp16(), int8(),      bf16(),    qsgd(),
                                       ternary(), sign(), top_k(),     q_top_k(), random_k(),
                                       dgc(),     demo(), bi_sparse(), sparse()};
  return entries;
}

Result<const CodecEntry*> entry_of(const Settings& settings) {
  std::string name(registry().front().name);
  if (const Setting* kind = settings.find("kind"))
    LH_TRY(read_value(settings, *kind, Field{.name = "kind"}, name));
  return find_entry(registry(), settings, name);
}

std::optional<std::string> refuses_feedback(const CodecEntry& codec) {
  if (codec.traits.lossless) return "it loses nothing that could be fed back";
  if (!codec.traits.contraction)
    return "it is no contraction, what it loses would add up without bound";
  return std::nullopt;
}

Result<bool> wants_error_feedback(const Settings& settings) {
  LH_LET(entry, entry_of(settings));
  const Setting* wish = settings.find("error_feedback");
  bool wanted = entry->traits.feedback;
  LH_TRY(read_one(settings, "error_feedback", wanted));
  if (!wanted) return false;
  if (const auto reason = refuses_feedback(*entry))
    return bad_setting(
        settings, *wish,
        fmt::format("false, or no such key, with kind = \"{}\": {}", entry->name, *reason));
  return true;
}

Result<std::unique_ptr<Codec>> make_codec(const Settings& settings, const Place& place,
                                          bool feedback) {
  LH_LET(wanted, wants_error_feedback(settings));
  const CodecEntry& entry = **entry_of(settings);
  auto made = entry.make(settings, place, feedback ? CodecUse::contribution : CodecUse::sum);
  if (!made) return made;
  if (!feedback && entry.traits.algebra == Algebra::gather)
    return (entry.traits.sparse ? sparse() : fp32()).make({}, place, CodecUse::sum);
  if (!feedback || !wanted) return made;
  FeedbackConfig config{.feedback_momentum = entry.traits.momentum};
  LH_TRY(read_one(settings, "feedback_decay", config.feedback_decay));
  LH_TRY(read_one(settings, "feedback_momentum", config.feedback_momentum));
  std::unique_ptr<Codec> fed =
      std::make_unique<ErrorFeedback>(*std::move(made), config.feedback_decay);
  if (config.feedback_momentum == 0) return fed;
  return std::unique_ptr<Codec>(
      std::make_unique<MomentumCorrection>(std::move(fed), float(config.feedback_momentum)));
}

}  // namespace longhaul::codec
