// Codecs with all that they can be combined with: what sends a part of a vector best effort, and
// every overlay, in both hosts.
#include <set>

#include "tests/job_checks.h"
#include "tests/over_sockets.h"
#include "tests/side_by_side.h"

namespace longhaul::conformance {
namespace {

template <class Entry>
std::vector<Variant<Entry>> defaults_of(std::vector<Variant<Entry>> all) {
  std::erase_if(all, [](const auto& one) { return one.number > 0; });
  return all;
}

// Every strategy x overlay x codec over dgt is refused with a reason, or runs to its end with equal
// models at all sites.
TEST(DgtCombinations, RunOrAreRefusedWithAReason) {
  const auto dgt = variant_named(transfer_variants(), "dgt");
  std::set<std::string> strategies, codecs;
  std::size_t refused = 0, legal = 0;
  for (const auto& sync : defaults_of(sync_variants()))
    for (const auto& overlay : defaults_of(overlay_variants()))
      for (const auto& codec : defaults_of(codec_variants()))
        for (const bool feedback : {false, true}) {
          Combination parts = plain(sync, overlay);
          parts.transfer = dgt;
          parts.codec = codec;
          parts.codec.feedback = feedback;
          const std::string name = parts.name() + (feedback ? " with feedback" : "");
          SCOPED_TRACE(name);
          if (const auto why = refusal(parts)) {
            EXPECT_GT(why->why.size(), 30u);
            ++refused;
            continue;
          }
          ++legal;
          strategies.insert(sync.name());
          codecs.insert(codec.name());
          if (legal % kStride != 0) continue;  // under a sanitizer a share of them
          JobSpec spec{.parts = parts, .workers = 3, .rounds = 3};
          Job job(spec);
          expect_ends_alike(job);
        }
  EXPECT_GE(strategies.size(), 7u);
  EXPECT_GE(codecs.size(), 3u);
  EXPECT_GT(refused, 1000u);
  EXPECT_GE(legal, 50u);
}

struct CodecsNightly : ::testing::TestWithParam<Variant<OverlayEntry>> {};
INSTANTIATE_TEST_SUITE_P(Overlay, CodecsNightly, ::testing::ValuesIn(overlay_variants()), kByName);

// Every codec with every overlay that allows it: the simulator's bits over sockets.
TEST_P(CodecsNightly, GiveTheBitsOfTheSimulator) {
  std::vector<Combination> all;
  for (const auto& codec : codec_variants())
    for (const auto& sync : defaults_of(sync_variants())) {
      Combination parts = plain(sync, GetParam());
      parts.codec = codec;
      if (traits_of(sync).bits == Bits::schedule || refusal(parts)) continue;
      all.push_back(parts);
      break;  // one strategy each
    }
  EXPECT_GE(all.size(), 4u);
  side_by_side(all, [](const Combination& parts) {
    SCOPED_TRACE(parts.name());
    JobSpec spec{.parts = parts, .workers = 3, .rounds = 3};
    expect_equal_bits(spec, over_sockets(spec));
  });
}

}  // namespace
}  // namespace longhaul::conformance
