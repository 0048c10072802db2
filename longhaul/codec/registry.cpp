#include "longhaul/codec/registry.h"

#include <fmt/format.h>

#include "longhaul/codec/error_feedback.h"
#include "longhaul/codec/fp16.h"
#include "longhaul/codec/fp32.h"
#include "longhaul/codec/int8.h"

namespace longhaul::codec {
namespace {

// Codecs without keys of their own.
template <class Kind>
Result<std::unique_ptr<Codec>> make(const Settings& settings, const Place&) {
  CommonConfig config;
  LH_TRY(read_settings(settings, config));
  return std::unique_ptr<Codec>(std::make_unique<Kind>());
}

std::vector<FieldDoc> describe_common() { return describe(CommonConfig{}); }

constexpr CodecEntry kEntries[] = {
    {"fp32",
     "the values as they stand, 4 bytes each",
     make<Fp32>,
     describe_common,
     {.algebra = Algebra::add, .contraction = true, .unbiased = true, .lossless = true}},
    {"fp16",
     "IEEE half precision, 2 bytes each, nearest even",
     make<Fp16>,
     describe_common,
     {.algebra = Algebra::reencode, .contraction = true, .unbiased = false}},
    {"int8",
     "one byte each and a scale per block of 256",
     make<Int8>,
     describe_common,
     {.algebra = Algebra::reencode, .contraction = true, .unbiased = false}},
};

}  // namespace

std::span<const CodecEntry> registry() { return kEntries; }

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
  const auto entry = entry_of(settings);
  if (!entry) return entry.error();
  const Setting* wish = settings.find("error_feedback");
  bool wanted = false;
  if (wish) LH_TRY(read_value(settings, *wish, Field{.name = "error_feedback"}, wanted));
  if (!wanted) return false;
  if (const auto reason = refuses_feedback(**entry))
    return bad_setting(
        settings, *wish,
        fmt::format("false, or no such key, with kind = \"{}\": {}", (*entry)->name, *reason));
  return true;
}

Result<std::unique_ptr<Codec>> make_codec(const Settings& settings, const Place& place,
                                          bool feedback) {
  const auto wanted = wants_error_feedback(settings);
  if (!wanted) return wanted.error();
  auto made = (*entry_of(settings))->make(settings, place);
  if (!made || !feedback || !*wanted) return made;
  return std::unique_ptr<Codec>(std::make_unique<ErrorFeedback>(*std::move(made)));
}

}  // namespace longhaul::codec
