#pragma once
// Completion of every codec's entry: how to construct the codec from the settings of [codec], and
// the documentation of these.
//
// A codec is a class `Part` in its own source. If it has settings, it has a `struct Config`
// (fields()) and a constructor from (Config, CodecSetting) or one of these. If the ranges of its
// keys do not suffice, it has a `static Status check(const Config&, const Settings&)`. Its entry
// follows in the same source: a function with its name, which is declared here and listed in
// registry.cpp.
#include <concepts>

#include "longhaul/core/registry.h"

namespace longhaul::codec {

// The keys that every codec has.
struct FeedbackConfig {
  bool error_feedback = false;
  double feedback_decay = 1;
  double feedback_momentum = 0;

  static void fields(auto& self, auto&& visit) {
    LONGHAUL_KEY(error_feedback, "add to the next vector what the encoding of this one lost");
    LONGHAUL_KEY(
        feedback_decay,
        "what is left of the residual when the next vector is added to it; with error_feedback",
        .min = 0, .max = 1);
    LONGHAUL_KEY(
        feedback_momentum,
        "momentum that each site adds to its vectors before they are encoded; with error_feedback",
        .min = 0, .max = 0.999);
  }
};

// The place and use of a codec.
struct CodecSetting {
  Place place;
  CodecUse use = CodecUse::contribution;
  bool feedback = false;  // whether it is wrapped in error feedback
};

struct NoConfig {
  static void fields(auto&, auto&&) {}
};

template <class Part>
struct ConfigOf {
  using Type = NoConfig;
};
template <class Part>
requires requires { typename Part::Config; }
struct ConfigOf<Part> {
  using Type = typename Part::Config;
};

// A codec's own keys and the common ones, with the codec's defaults.
template <class Part, CodecEntry (*kEntry)()>
struct CodecKeys {
  typename ConfigOf<Part>::Type own = {};
  FeedbackConfig common = {.error_feedback = kEntry().traits.feedback,
                           .feedback_momentum = kEntry().traits.momentum};

  static void fields(auto& self, auto&& visit) {
    ConfigOf<Part>::Type::fields(self.own, visit);
    FeedbackConfig::fields(self.common, visit);
  }
};

template <class Part, CodecEntry (*kEntry)()>
Result<std::unique_ptr<Codec>> make_part(const Settings& settings, const Place& place,
                                         CodecUse use) {
  using Config = typename ConfigOf<Part>::Type;
  CodecKeys<Part, kEntry> keys;
  LH_TRY(read_settings(settings, keys));
  if constexpr (requires { Part::check(keys.own, settings); })
    LH_TRY(Part::check(keys.own, settings));
  const CodecSetting where{place, use, keys.common.error_feedback};
  std::unique_ptr<Codec> made;
  if constexpr (std::constructible_from<Part, const Config&, const CodecSetting&>)
    made = std::make_unique<Part>(keys.own, where);
  else if constexpr (std::constructible_from<Part, const CodecSetting&>)
    made = std::make_unique<Part>(where);
  else if constexpr (std::constructible_from<Part, const Config&>)
    made = std::make_unique<Part>(keys.own);
  else
    made = std::make_unique<Part>();
  return made;
}

template <class Part, CodecEntry (*kEntry)()>
CodecEntry codec_entry(CodecEntry entry) {
  entry.make = make_part<Part, kEntry>;
  entry.describe = [] { return describe(CodecKeys<Part, kEntry>{}); };
  return entry;
}

CodecEntry fp32();
CodecEntry fp16();
CodecEntry int8();
CodecEntry bf16();
CodecEntry qsgd();
CodecEntry ternary();
CodecEntry sign();
CodecEntry top_k();
CodecEntry q_top_k();
CodecEntry random_k();
CodecEntry dgc();
CodecEntry demo();
CodecEntry bi_sparse();
CodecEntry sparse();

}  // namespace longhaul::codec
