// Invariants (in this file unless another is named):
//   1   with k = 1, or with every block in time, the vector is bit-identical
//   2   each offered block counts as exactly one figure: 100 runs with faults, 1,900 more at night
//   3   no block counts twice
//   4   nothing is delivered before all reliable blocks are in, in any order
//   5   no best-effort block of a tensor has a greater C than a reliable one: dgt/ranking_test.cpp
//   6   k stays in [k_min, 1] and follows the smoothed loss: dgt/share_test.cpp
//   7   no block that counts is more than `max_late` vectors old
//   8   a receiver's memory for a peer is bounded, also DgtLiars
//   9   `return`: the delivered vector is the given one minus the sender's residual
//   10  the order of best-effort blocks does not change the bits
//   11  without best-effort blocks, ranking ends nearer to the minimum than chance
//   -   every strategy with every overlay and codec runs or is refused with a reason:
//       DgtCombinations in tests/codecs_test.cpp
#include "longhaul/transfer/dgt.h"

#include <cmath>
#include <numeric>

#include <gtest/gtest.h>

#include "longhaul/transfer/testing/lossy_pair.h"

namespace longhaul::transfer {
namespace {

using testing::LossyOptions;
using testing::LossyPair;

// Blocks of 5 values: 5 or more to most tensors.
dgt::Config small_blocks(std::string late = "carry", double k = 0.5) {
  dgt::Config config;
  config.late = std::move(late);
  config.k0 = k;
  config.k_min = std::min(k, 0.2);
  config.block_bytes = 20;
  return config;
}

double count(const LossyPair& pair, const std::string& name) {
  const auto found = pair.records.find(name);
  return found == pair.records.end() ? 0 : found->second;
}

double settled(const LossyPair& pair) {
  double sum = 0;
  for (const char* name : {"dgt_fresh", "dgt_carried", "dgt_returned", "dgt_late", "dgt_expired",
                           "dgt_bad", "dgt_lost"})
    sum += count(pair, name);
  return sum;
}

// Of pushes whose accounts are closed.
double offered(const LossyPair& pair, std::uint32_t max_late) {
  double sum = 0;
  const std::uint64_t last = pair.ends.empty() ? 0 : pair.ends.rbegin()->first;
  for (const auto& [push, end] : pair.ends)
    if (push + max_late + 2 <= last) sum += dgt::count(end.offered);
  return sum;
}

void expect_handed_on_as_expected(const LossyPair& pair) {
  for (const auto& [round, values] : pair.expected)
    EXPECT_EQ(pair.handed_on.at(round), values) << "round " << round;
}

// --- what comes out; numbers of invariants are those of the list above

TEST(Dgt, Invariant1EverythingReliableIsBitForBit) {
  for (const double loss : {0.0, 0.5}) {
    LossyPair pair({.config = small_blocks("carry", 1.0), .loss = loss});
    pair.run();
    EXPECT_EQ(pair.rounds_done, 6u);
    EXPECT_EQ(pair.handed_on, pair.given);
    EXPECT_TRUE(pair.errors.empty()) << pair.errors.front();
  }
}

// With a long grace every block is in before the push is handed on.
TEST(Dgt, Invariant1WithoutLossAndWithGraceItIsBitForBit) {
  dgt::Config config = small_blocks();
  config.grace_ms = 6e4;
  LossyPair pair({.config = config});
  pair.run();
  EXPECT_EQ(pair.rounds_done, 6u);
  EXPECT_EQ(pair.handed_on, pair.given);
}

// With all best-effort blocks lost the grace ends by the timer.
TEST(Dgt, AGraceEnds) {
  dgt::Config config = small_blocks();
  config.grace_ms = 5;
  LossyPair pair({.config = config, .loss = 1});
  pair.run();
  EXPECT_EQ(pair.rounds_done, 6u);
  expect_handed_on_as_expected(pair);
  EXPECT_EQ(count(pair, "dgt_fresh") + count(pair, "dgt_lost"), offered(pair, 1));
  EXPECT_GT(count(pair, "dgt_lost"), 0);
}

TEST(Dgt, ModeOffIsReliable) {
  dgt::Config config = small_blocks();
  config.mode = "off";
  LossyPair pair({.config = config, .loss = 0.9});
  pair.run();
  EXPECT_EQ(pair.handed_on, pair.given);
  EXPECT_TRUE(pair.ends.empty());
}

// Invariants 2, 3, 4, 7, 8 and 10 under loss, repetition and reordering, against what the watcher
// of LossyPair computes from the wire alone.
void check_run(std::uint64_t seed) {
  Random random(seed, {Purpose::test, 77, 0, 0});
  dgt::Config config =
      small_blocks(std::vector<std::string>{"carry", "discard", "return"}[seed % 3],
                   0.3 + 0.6 * random.uniform());
  config.mode = std::vector<std::string>{"on", "on", "random", "bounded_loss",
                                         "sender_drop"}[random.below(5)];
  config.max_late = std::uint32_t(1 + random.below(3));
  config.channels = std::uint32_t(1 + random.below(4));
  LossyOptions options{.config = config, .seed = seed};
  options.loss = random.below(4) == 0 ? 0 : random.uniform() * 0.6;
  options.duplicated = random.below(2) == 0 ? 0 : random.uniform() * 0.5;
  options.repeats = random.below(2) == 0 ? 0 : 0.2;
  options.save_and_load = seed % 10 == 0;
  options.rounds = 8;
  LossyPair pair(std::move(options));
  pair.run();
  SCOPED_TRACE("seed " + std::to_string(seed) + ", " + config.mode + ", " + config.late);
  EXPECT_EQ(pair.rounds_done, 8u);
  EXPECT_TRUE(pair.errors.empty()) << pair.errors.front();
  expect_handed_on_as_expected(pair);
  EXPECT_EQ(settled(pair), offered(pair, config.max_late)) << "each block is counted once";
  EXPECT_LE(pair.most_kept, pair.receiver().receiver().most_kept());
  for (const auto& [push, end] : pair.ends)  // invariant 4
    if (pair.handed_on.contains(end.key.vector.round))
      for (std::uint32_t number = 0; number < end.blocks; ++number)
        if (dgt::has(end.reliable, number))
          EXPECT_EQ(pair.outcome.at({push, number}), 1) << "a reliable block was late";
  if (config.late == "return" && config.mode != "bounded_loss") {  // invariant 9
    const auto residual = pair.sender().sender().residuals().of({0, 0});
    for (std::size_t i = 0; i < pair.given.at(0).size(); ++i) {
      double sum = i < residual.size() ? residual[i] : 0;
      for (const auto& [round, values] : pair.handed_on) sum += values[i];
      for (const auto& [round, values] : pair.given) sum -= values[i];
      EXPECT_NEAR(sum, 0, 1e-5) << i;
    }
  }
}

TEST(Dgt, EveryBlockIsAccountedForOnce) {
  for (std::uint64_t seed = 1; seed <= 100; ++seed) check_run(seed);
}

TEST(DgtNightly, EveryBlockIsAccountedForOnce) {
  for (std::uint64_t seed = 101; seed <= 2000; ++seed) check_run(seed);
}

TEST(Dgt, LateBlocksAreCarriedAndReturned) {
  double carried = 0, returned = 0, late = 0;
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    LossyPair carry({.config = small_blocks("carry"), .seed = seed});
    LossyPair discard({.config = small_blocks("discard"), .seed = seed});
    LossyPair back({.config = small_blocks("return"), .loss = 0.3, .seed = seed});
    for (LossyPair* pair : {&carry, &discard, &back}) pair->run();
    carried += count(carry, "dgt_carried");
    late += count(discard, "dgt_late");
    returned += count(back, "dgt_returned");
  }
  EXPECT_GT(carried, 20);
  EXPECT_GT(late, 20);
  EXPECT_GT(returned, 20);
}

TEST(Dgt, TheSenderDropsWhatItIsToldTo) {
  dgt::Config config = small_blocks();
  config.mode = "sender_drop";
  LossyPair pair({.config = config});
  pair.run();
  EXPECT_EQ(pair.rounds_done, 6u);
  for (const auto& [id, values] : pair.blocks)
    EXPECT_TRUE(dgt::has(pair.ends.at(id.push).reliable, id.number)) << "never sent";
  EXPECT_GT(count(pair, "dgt_expired"), 0);
  EXPECT_EQ(count(pair, "dgt_fresh") + count(pair, "dgt_expired"), offered(pair, 1));
}

TEST(Dgt, ShareFollowsTheTrainingLoss) {
  dgt::Config config = small_blocks("carry", 0.8);
  config.w_loss = 2;
  config.tau = 1;
  LossyPair pair({.config = config, .rounds = 10, .training_loss = [](Round round) {
                    return 1.0 / double(1 + round);
                  }});
  pair.run();
  std::vector<double> shares;
  for (const auto& [push, end] : pair.ends)
    shares.push_back(double(dgt::count(end.reliable)) / double(dgt::count(end.offered)));
  EXPECT_NEAR(shares.front(), 0.8, 0.1);
  EXPECT_NEAR(shares.back(), 0.2, 0.1);
}

TEST(Dgt, PhantomsHaveSizesAndNoNumbers) {
  LossyPair pair({.config = small_blocks(), .loss = 0.3, .phantom = true});
  pair.run();
  EXPECT_EQ(pair.rounds_done, 6u);
  EXPECT_EQ(settled(pair), offered(pair, 1));
  EXPECT_TRUE(pair.errors.empty());
}

// --- losses

TEST(Dgt, OfALostSenderNothingIsHandedOnInPart) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    LossyPair pair({.config = small_blocks(), .loss = 0.2, .seed = seed, .rounds = 100});
    for (std::uint64_t events = 40 + 17 * seed; events > 0 && pair.step(); --events) continue;
    const auto before = pair.handed_on;
    pair.crash_sender();
    pair.run();
    EXPECT_EQ(pair.handed_on, before);
    EXPECT_EQ(pair.receiver().receiver().kept(LossyPair::kSender), 0u);
    EXPECT_TRUE(pair.errors.empty());
  }
}

// --- invariant 11, on a quadratic: x falls to 0 along the gradients that arrive

double distance(const std::string& mode, std::uint64_t seed) {
  dgt::Config config = small_blocks("discard", 0.3);
  config.mode = mode;
  config.adaptive = false;
  config.alpha = 0;
  // Blocks of unlike scale, as layers' gradients are.
  std::vector<double> x(103);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = std::exp(-double(i * 37 % 103 / 5) / 4);
  LossyPair* running = nullptr;
  LossyOptions options{.config = config, .loss = 1, .seed = seed, .rounds = 12};
  options.gradient = [&](Round round) {
    if (round > 0)
      for (std::size_t i = 0; i < x.size(); ++i)
        x[i] -= 0.3 * double(running->handed_on.at(round - 1)[i]);
    return std::vector<float>(x.begin(), x.end());
  };
  LossyPair pair(std::move(options));
  running = &pair;
  pair.run();
  return std::inner_product(x.begin(), x.end(), x.begin(), 0.0);
}

TEST(Dgt, Invariant11RankingBeatsChance) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed)
    EXPECT_LT(distance("on", seed), 0.9 * distance("random", seed)) << seed;
}

// --- liars

template <MessageStruct M>
Message message_of(const M& fields, Payload body = {}) {
  return {Path(), M::kKind, 0, Payload(share(to_wire(fields))), std::move(body)};
}

dgt::End an_end(const LossyPair& pair) {
  dgt::End end = pair.ends.rbegin()->second;
  end.push += 1;
  end.oldest = end.push;
  end.key.vector.round += 1;
  return end;
}

TEST(DgtLiars, AnEndThatDoesNotFitIsRefused) {
  LossyPair pair({.config = small_blocks(), .rounds = 3});
  pair.run();
  const auto refused = [&](auto&& spoil) {
    dgt::End end = an_end(pair);
    spoil(end);
    return !pair.inject(message_of(end));
  };
  EXPECT_TRUE(refused([](dgt::End& end) { end.ranges.clear(); }));
  EXPECT_TRUE(refused([](dgt::End& end) { std::swap(end.ranges[0], end.ranges[1]); }));
  EXPECT_TRUE(refused([](dgt::End& end) { end.ranges[1] = end.ranges[0]; })) << "twice";
  EXPECT_TRUE(refused([](dgt::End& end) { end.ranges[0].length = 0; }));
  EXPECT_TRUE(refused([](dgt::End& end) { end.ranges.back().length = 1u << 30; }));
  EXPECT_TRUE(refused([](dgt::End& end) { end.blocks += 1; }));
  EXPECT_TRUE(refused([](dgt::End& end) { end.offered.pop_back(); }));
  EXPECT_TRUE(refused([](dgt::End& end) { end.reliable[0] = 0xFF, end.offered[0] = 0; }));
  EXPECT_TRUE(refused([](dgt::End& end) { end.key.coding = Coding::down; }));
  EXPECT_TRUE(refused([](dgt::End& end) { end.key.vector.origin = 1; }));
  EXPECT_TRUE(refused([](dgt::End& end) { end.key.vector.group = 1; }));
  EXPECT_TRUE(refused([](dgt::End& end) { end.weight = 0; }));
  EXPECT_TRUE(refused([](dgt::End& end) { end.oldest = end.push + 1; }));
  EXPECT_TRUE(refused([](dgt::End& end) { end.key.vector.round += 1; })) << "not admitted";
}

TEST(DgtLiars, BlocksAreBounded) {
  LossyPair pair({.config = small_blocks(), .rounds = 3});
  pair.run();
  const dgt::StreamId stream = pair.ends.begin()->second.stream;
  const auto blocks = [&](std::uint64_t push, std::uint32_t number, std::size_t size) {
    return message_of(dgt::Blocks{stream, push, {number}, {std::uint32_t(size)}},
                      Payload(share(Buffer(size))));
  };
  EXPECT_TRUE(pair.inject(blocks(10, 0, 20)));
  EXPECT_TRUE(pair.inject(blocks(11, 0, 20)));
  EXPECT_TRUE(pair.inject(blocks(12, 0, 20)));
  EXPECT_FALSE(pair.inject(blocks(13, 0, 20))) << "too many vectors under way";
  bool refused = false;
  for (std::uint32_t number = 0; number < 10000 && !refused; ++number)
    refused = !pair.inject(blocks(10, number, 1000));
  EXPECT_TRUE(refused) << "too many bytes";
  EXPECT_LE(pair.most_kept, pair.receiver().receiver().most_kept());
  Message none = message_of(dgt::Blocks{stream, 10, {}, {}});
  EXPECT_FALSE(pair.inject(none));
  Message odd = message_of(dgt::Blocks{stream, 10, {1, 2}, {4}}, Payload(share(Buffer(4))));
  EXPECT_FALSE(pair.inject(odd));
  Message cut = message_of(dgt::Blocks{stream, 10, {1}, {8}}, Payload(share(Buffer(4))));
  EXPECT_FALSE(pair.inject(cut));
  Message cut_head{Path(), dgt::Blocks::kKind, 0, Payload(share(Buffer(9))), {}};
  EXPECT_FALSE(pair.inject(cut_head));
}

// A block of broken bytes counts as bad, and the rest of its vector is used.
TEST(DgtLiars, BrokenBestEffortBlocksAreBad) {
  LossyPair pair({.config = small_blocks(), .loss = 1, .rounds = 8});
  const dgt::StreamId stream{0, 0, 0};
  while (pair.ends.empty() && pair.step()) continue;
  const dgt::End& end = pair.ends.at(0);
  std::uint32_t victim = 0;
  while (dgt::has(end.reliable, victim)) ++victim;
  (void)bool(
      pair.inject(message_of(dgt::Blocks{stream, 0, {victim}, {3}}, Payload(share(Buffer(3))))));
  pair.run();
  EXPECT_EQ(pair.rounds_done, 8u);
  EXPECT_EQ(count(pair, "dgt_bad"), 1);
  EXPECT_EQ(settled(pair), offered(pair, 1));
}

TEST(DgtLiars, ReceiptsThatNobodyAskedForAreRefused) {
  LossyPair carry({.config = small_blocks("carry"), .rounds = 3});
  LossyPair back({.config = small_blocks("return"), .rounds = 3});
  for (LossyPair* pair : {&carry, &back}) pair->run();
  const dgt::StreamId stream = back.ends.begin()->second.stream;
  const Message known = message_of(dgt::Receipt{stream, 0, dgt::empty_bitmap(4)});
  EXPECT_FALSE(carry.inject(known, LossyPair::kReceiver));
  EXPECT_TRUE(back.inject(known, LossyPair::kReceiver)) << "settled before";
  EXPECT_FALSE(back.inject(message_of(dgt::Receipt{stream, 99, {}}), LossyPair::kReceiver));
  EXPECT_FALSE(back.inject(message_of(dgt::Receipt{{9, 9, 9}, 0, {}}), LossyPair::kReceiver));
}

}  // namespace
}  // namespace longhaul::transfer
