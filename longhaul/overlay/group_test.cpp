// Groups of workers that form means beside each other, in all forms of overlays.
#include "longhaul/overlay/group.h"

#include <algorithm>
#include <numeric>

#include <gtest/gtest.h>

#include "longhaul/base/testing/effort.h"
#include "longhaul/overlay/messages.h"
#include "longhaul/overlay/testing/fed_node.h"
#include "longhaul/overlay/testing/forms.h"
#include "longhaul/overlay/tsengine_messages.h"

namespace longhaul::overlay {
namespace {

using longhaul::testing::cases;
using longhaul::testing::kGate;
using longhaul::testing::kStride;
using testing::Exchange;
using testing::ExchangeConfig;
using testing::FedNode;
using testing::forms;
using testing::name;
using Grouping = ExchangeConfig::Grouping;

std::vector<Rank> odd_or_even(Rank rank, std::uint32_t workers) {
  std::vector<Rank> members;
  for (Rank one = rank % 2; one < workers; one += 2) members.push_back(one);
  return members;
}

// Two groups for the whole run, of the odd and of the even ranks.
ExchangeConfig in_two_groups(ExchangeConfig c, std::uint32_t workers) {
  c.workers = workers;
  c.length = 8 * workers + 3;
  c.chunk_bytes = 16;
  c.rounds = kGate ? 2 : 3;
  c.lossy = true;
  c.buffers = 3;
  c.grouping = [workers](Rank rank, Round round) {
    return Grouping{1 + rank % 2, odd_or_even(rank, workers), round, false};
  };
  return c;
}

// Other pairs and threes in every round, as drawn from the round; each group is closed behind it.
ExchangeConfig shuffled(ExchangeConfig c, std::uint32_t workers) {
  c = in_two_groups(std::move(c), workers);
  c.rounds = kGate ? 4 : 6;
  c.grouping = [workers](Rank rank, Round round) {
    std::vector<Rank> order(workers);
    std::iota(order.begin(), order.end(), Rank{0});
    Random(7, {Purpose::test, round}).shuffle(std::span(order));
    const auto place = std::find(order.begin(), order.end(), rank) - order.begin();
    const bool second = place >= std::ptrdiff_t(workers / 2);
    const auto middle = order.begin() + std::ptrdiff_t(workers / 2);
    std::vector<Rank> members(second ? middle : order.begin(), second ? order.end() : middle);
    std::sort(members.begin(), members.end());
    return Grouping{std::uint32_t(1 + 2 * round + (second ? 1 : 0)), members, 0, true};
  };
  return c;
}

void expect_all_dropped(Exchange& exchange, const std::string& what) {
  for (Rank rank = 0; rank < exchange.config().workers + (exchange.config().server ? 1 : 0); ++rank)
    if (exchange.net().alive(rank))
      EXPECT_EQ(exchange.at(rank).groups(), 1u) << what << ", rank " << rank;
}

TEST(Groups, DisjointOnesFormTheirMeansAtTheSameTime) {
  for (const ExchangeConfig& form : forms()) {
    for (const std::uint32_t workers : {2u, 5u, 8u}) {
      if (kGate && workers == 8) continue;
      ExchangeConfig c = in_two_groups(form, workers);
      c.order = workers;
      Exchange exchange = Exchange::agreed(c);
      for (Rank rank = 0; rank < workers; ++rank)
        EXPECT_EQ(exchange.at(rank).outcomes()[1].counted, odd_or_even(rank, workers)) << name(c);
    }
  }
}

TEST(Groups, OtherOnesInEveryRoundAndNothingIsKeptOfThem) {
  for (const ExchangeConfig& form : forms()) {
    for (std::uint64_t order = 1; order <= cases(5); ++order) {
      ExchangeConfig c = shuffled(form, 5);
      c.order = order;
      Exchange exchange(c);
      std::size_t most = 0;
      for (std::uint64_t events = 0; exchange.step(); ++events)
        for (Rank rank = 0; rank < c.workers && (!kGate || events % 7 == 0); ++rank)
          most = std::max(most, exchange.at(rank).groups());
      EXPECT_EQ(exchange.disagreement(), "") << name(c);
      EXPECT_LE(most, 1u + 2 * c.rounds);
      expect_all_dropped(exchange, name(c));
      EXPECT_TRUE(exchange.net().records["late"] == 0 || c.kind == "tsengine") << name(c);
    }
  }
}

std::string run_with_crash(const ExchangeConfig& c, std::uint64_t at, Rank victim, bool* ended) {
  Exchange exchange(c);
  for (std::uint64_t i = 0; i < at; ++i)
    if (!exchange.step()) *ended = true;
  exchange.net().crash(victim);
  exchange.run();
  if (c.grouping(0, 0).last) expect_all_dropped(exchange, name(c));
  return exchange.disagreement();
}

class GroupsForm : public ::testing::TestWithParam<std::size_t> {};

// Whoever dies when: its group agrees, and so does the other.
TEST_P(GroupsForm, R2_1_OneCrashAtAnyEvent) {
  // Two groups take many times the events of one.
  constexpr std::uint64_t kEvery = kGate ? 911 : kStride > 1 ? 411 : 1;
  std::uint64_t runs = 0;
  for (const bool moves : {false, true}) {
    const ExchangeConfig form = forms()[GetParam()];
    const ExchangeConfig c = moves ? shuffled(form, 5) : in_two_groups(form, 4);
    for (Rank victim = 0; victim < c.workers + (c.server ? 1 : 0); ++victim) {
      // In the gate a third of the victims, others in each form.
      if (kGate && (victim + GetParam() + moves) % 3 != 0) continue;
      bool ended = false;
      for (std::uint64_t at = victim; !ended; at += kEvery, ++runs)
        ASSERT_EQ(run_with_crash(c, at, victim, &ended), "")
            << name(c) << (moves ? ", shuffled" : "") << ", crash of " << victim << " at " << at;
    }
  }
  EXPECT_GT(runs, 100u / kStride);
}

INSTANTIATE_TEST_SUITE_P(Forms, GroupsForm, ::testing::Range(std::size_t{0}, forms().size()));

TEST(Groups, SavingAndLoadingAfterEveryEventEqualsGoingOn) {
  for (const ExchangeConfig& form : forms()) {
    const ExchangeConfig c = shuffled(form, 4);
    Exchange plain(c), saved(c);
    for (std::uint64_t events = 0;; ++events) {
      if (events == 60) plain.net().crash(1), saved.net().crash(1);
      const bool more = plain.step();
      ASSERT_EQ(saved.step(), more);
      if (!more) break;
      if (events % kStride != 0) continue;
      for (Rank rank = 0; rank < c.workers + (c.server ? 1 : 0); ++rank)
        saved.net().save_and_load(rank);
    }
    ASSERT_EQ(saved.disagreement(), "") << name(c);
    EXPECT_EQ(saved.net().messages(), plain.net().messages()) << name(c);
    for (Round round = 0; round < c.rounds; ++round)
      EXPECT_EQ(saved.at(0).outcomes()[round].values, plain.at(0).outcomes()[round].values);
  }
}

// Who is not in the group of the lost one goes on in the same epoch, and nobody asks it anything.
TEST(Groups, ALossIsNoneOfAnotherGroupsBusiness) {
  FedNode node(2);
  const std::vector<Rank> members = {0, 2};
  node.begin_in(1, members, 0);
  const auto before = node.take_sends();
  ASSERT_EQ(FedNode::those<Announcement>(before).size(), 1u);
  EXPECT_EQ(FedNode::those<Announcement>(before)[0].second.members, to_bits(members));
  node.lose(3);
  for (const auto& [to, report] : FedNode::those<Report>(node.take_sends()))
    EXPECT_EQ(report.group, 0u);
  EXPECT_EQ(node.waiting_for(), "epoch 1: reports of ranks 0, 1")
      << "that of all workers, which is idle";
  // A peer that knows of the loss, and one that does not, speak of the same epoch.
  const CodecKey theirs{{0, 1, 0}, 0};
  EXPECT_FALSE(node.hear(0, Announcement{1, theirs, testing::kLength, false, 1, to_bits(members)}));
  ASSERT_TRUE(node.hear(0, Announcement{0, theirs, testing::kLength, false, 1, to_bits(members)}));
  const auto piece = [&](Phase phase, Coding coding, std::uint64_t offset) {
    const TransferKey key{0, theirs, std::uint8_t(phase), coding};
    return node.hear(0, longhaul::testing::PlainTransfer::Piece{key, {offset, 2}, 1},
                     testing::kTransfer, testing::floats(2, 4));
  };
  for (const std::uint64_t offset : {4u, 6u}) ASSERT_TRUE(piece(Phase::part, Coding::up, offset));
  for (const std::uint64_t offset : {0u, 2u}) ASSERT_TRUE(piece(Phase::mean, Coding::down, offset));
  ASSERT_TRUE(node.hear(0, Contributors{0, theirs, 3, to_bits(members)}));
  const auto outcome = node.poll_in(1, 0);
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->counted, members);
  // A loss in the group itself is: this node is alone.
  node.lose(0);
  node.begin_in(1, members, 1);
  ASSERT_TRUE(node.poll_in(1, 1));
}

// Two vectors are sent on, each with a deadline of its own.
TEST(Groups, TheEarliestDeadlineOfItsVectorsWakesIt) {
  for (const std::uint32_t sooner : {0u, 1u}) {
    FedNode node(2, {.kind = "tsengine"});
    node.plug(true);
    for (const std::uint32_t range : {0u, 1u}) {
      node.begin(0, 2, range);
      AttemptMessage order = tsengine::write(
          tsengine::Merge{0, range == 0 ? 1u : 3u, 1 + range, range == sooner ? 200 : 500});
      order.vector = {{0, 0, range}, 0};
      ASSERT_TRUE(node.hear(0, order)) << node.last_error();
    }
    EXPECT_EQ(node.alarm(), Time(200)) << sooner;
  }
}

TEST(Groups, MembersThatDisagreeAreNamed) {
  FedNode node(2);
  node.begin_in(1, {0, 2}, 0);
  const Announcement other{0, {{0, 1, 0}, 0}, testing::kLength, false, 1, to_bits({0, 1, 2})};
  EXPECT_FALSE(node.hear(0, other));
  EXPECT_EQ(node.last_error(),
            "rank 0 says that the members of group 1 are 0, 1, 2; here they are 0, 2");
  // The other way about: a peer spoke first.
  ASSERT_TRUE(
      node.hear(1, Announcement{0, {{0, 2, 0}, 1}, testing::kLength, false, 1, to_bits({1, 2})}));
  EXPECT_TRUE(node.tries_in(2, {0, 1, 2}, 0)) << "what a peer says ends no run";
  EXPECT_FALSE(node.tries_in(2, {1, 2}, 0));
}

TEST(Groups, APeerMakesANodeKeepOnlySoMany) {
  FedNode node(2);
  const auto names = [&](const std::vector<Rank>& members) {
    return node.hear(1,
                     Announcement{0, {{0, 9, 0}, 1}, testing::kLength, false, 1, to_bits(members)});
  };
  EXPECT_FALSE(names({0, 1})) << "this node is no member";
  EXPECT_FALSE(names({0, 2})) << "nor the one that speaks";
  EXPECT_FALSE(names({1, 2, 77})) << "of who is not in the job";
  EXPECT_EQ(node.groups(), 1u);
  const auto share = [&](std::uint32_t group) {
    return node.hear(
        1, Announcement{0, {{0, group, 0}, 1}, testing::kLength, false, 1, to_bits({1, 2})});
  };
  std::uint32_t kept = 0;
  while (kept < 200 && share(kept + 1)) ++kept;
  EXPECT_EQ(2 * kept, AgreedMean::kMostOpened) << "a group and its vector";
  EXPECT_TRUE(node.tries_in(1, {1, 2}, 0));
  EXPECT_TRUE(share(kept + 1)) << "one of them is this node's own now";
}

// A member that has not begun the group yet is asked of it after a loss, answers, and is in it.
TEST(Groups, AReportTellsOfAGroupThatThisNodeHasNotBegun) {
  FedNode node(2);
  node.lose(3);
  node.take_sends();
  ASSERT_TRUE(node.hear(1, Report{1, 5, to_bits({1, 2, 3}), {}}));
  const auto reports = FedNode::those<Report>(node.take_sends());
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_EQ(reports[0].first, 1u);
  EXPECT_EQ(reports[0].second.group, 5u);
  EXPECT_TRUE(reports[0].second.standings.empty());
  EXPECT_FALSE(node.hear(1, Report{1, 5, to_bits({1, 2, 3}), {}})) << "for the second time";
  EXPECT_TRUE(node.tries_in(5, {1, 2, 3}, 0));
  EXPECT_EQ(FedNode::those<Announcement>(node.take_sends()).size(), 1u) << "nothing is waited for";
}

TEST(Groups, AClosedOneIsKeptUntilAllHaveClosedIt) {
  FedNode node(2);
  node.begin_in(1, {0, 2}, 0, /*weight=*/0);
  ASSERT_TRUE(
      node.hear(0, Announcement{0, {{0, 1, 0}, 0}, testing::kLength, false, 0, to_bits({0, 2})}));
  ASSERT_TRUE(node.hear(0, Contributors{0, {{0, 1, 0}, 0}, 0, {}}));
  ASSERT_TRUE(node.poll_in(1, 0));
  node.take_sends();
  node.close(1);
  const auto told = FedNode::those<Closed>(node.take_sends());
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].first, 0u);
  EXPECT_EQ(node.groups(), 2u);
  EXPECT_FALSE(node.hear(1, Closed{1})) << "no member";
  EXPECT_FALSE(
      node.hear(0, Announcement{0, {{1, 1, 0}, 0}, testing::kLength, false, 0, to_bits({0, 2})}))
      << "another round of it";
  EXPECT_TRUE(node.hear(0, Closed{1}));
  EXPECT_EQ(node.groups(), 1u);
  EXPECT_TRUE(node.hear(0, Closed{1})) << "late";
}

// It answers those who need the last mean, and waits for nobody.
TEST(Groups, AClosedOneStillServesAfterALoss) {
  FedNode node(2);
  node.begin_in(1, {0, 1, 2}, 0, /*weight=*/0);
  ASSERT_TRUE(node.hear(0, Contributors{0, {{0, 1, 0}, 0}, 0, {}}));
  ASSERT_TRUE(node.poll_in(1, 0));
  node.close(1);
  node.lose(0);
  node.take_sends();
  ASSERT_TRUE(node.hear(1, Report{1, 1, to_bits({0, 1, 2}), {}}));
  const auto reports = FedNode::those<Report>(node.take_sends());
  ASSERT_EQ(reports.size(), 1u);
  ASSERT_EQ(reports[0].second.standings.size(), 1u);
  EXPECT_EQ(reports[0].second.standings[0].rounds, 1u);
  ASSERT_TRUE(node.hear(1, Fetch{1, {0, 1, 0}}));
  EXPECT_EQ(FedNode::those<Contributors>(node.take_sends()).size(), 1u);
  EXPECT_TRUE(node.hear(1, Closed{1}));
  EXPECT_EQ(node.groups(), 1u);
}

}  // namespace
}  // namespace longhaul::overlay
