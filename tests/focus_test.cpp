// focus/ over the simulated network: queries over sites, losses, crashes, save and load.
//
// Invariants, tested here and in longhaul/focus/*_test.cpp:
//   1.  Clusters of 0.0 0.1 0.9 1.0 5.0 at T = 0.5 are {0,1} {2,3} {4}, also with M = 1;
//       0.0 0.9 0.1 1.0 5.0 gives five with M = 1, three with M = 2: Clustering.Golden*.
//   2.  T = 0: each object is a cluster, precision is 1, and the recall of a class is the share in
//       the top K: Tracks.WithoutClustersRecallIsTheShareInTheTopK.
//   3.  K = all classes: recall 1 at T = 0: the same test.
//   4.  Recall and candidates never fall as K grows: Tracks.RecallAndCandidatesGrowWithK. Postings
//       only grow: Index.CandidatesGrowAndKeepWhatTheyWere.
//   5.  A repeated query checks nothing: FocusQueries.TheSecondQueryChecksNothingAndAnswersTheSame.
//   6.  An earlier answer is the later one, clipped to its `asof`:
//       FocusQueries.AnswersGrowWithTheData, Index.CandidatesGrowAndKeepWhatTheyWere,
//       Index.WhatAQueryHasTakenDoesNotGrow.
//   7.  Every object is in one cluster; replaying a log twice changes nothing:
//       Log.ReplayedOnceOrTwiceItIsTheSameIndex.
//   8.  The answer is the union of the sites' answers, for any order of messages and with
//       duplicates: FocusQueries.TheAnswerIsTheUnion*, Querier.TheUnionForAnyOrderWithDuplicates.
//   9.  Rare classes are found through OTHER: Tracks.ARareClassIsFoundThroughOther.
//   10. A choice reaches the targets by its margin and is not dominated: Parameters.WhatIsChosen*,
//       Parameters.WhatIsWithin*, Parameters.TheErrorIs*.
//   11. One cluster per track at T = 0.5, for M = 4 and more:
//       Tracks.OneClusterATrackHoweverFewAreActive.
//   12. The table of docs/results/focus.md (The stream) holds for the mean of eight streams:
//       TracksNightly.TheTableHoldsInTheMeanOfEightStreams.
// Other tests: silent and faulty peers, Checks.*, Verifier.*, FocusLosses.*; new models,
// FocusModels.*; drift, ResamplerTest.*; changed parameters, Index.AdoptedParameters*; models from
// files, Inference.*; images to queries, tests/cli/sample_test.py; a killed site over sockets,
// tests/cli/serve_losses_test.py.
#include "longhaul/focus/focus_node.h"

#include <algorithm>
#include <map>

#include <gtest/gtest.h>

#include "longhaul/base/testing/effort.h"
#include "longhaul/base/testing/result.h"
#include "longhaul/core/testing/message_of.h"
#include "longhaul/focus/tracks.h"
#include "longhaul/sim/fifo_network.h"
#include "longhaul/sim/testing/networks.h"
#include "longhaul/sim/world.h"
#include "tests/hostile_network.h"

namespace longhaul::focus {
namespace {

using namespace std::chrono_literals;
using conformance::Abuse;
using conformance::HostileNetwork;
using sim::World;
using testing::kGate;

constexpr std::uint64_t kSeed = 3;
constexpr double kRate = 50;

class InferTimes final : public sim::ComputeTime {
 public:
  Time duration(Rank, std::uint64_t, Time, const Work& work) const override {
    const auto& infer = std::get<Infer>(work);
    return (infer.model == Infer::Model::cheap ? 400us : 20ms) * std::int64_t(infer.items.size());
  }
};

using Clusters = std::map<std::pair<Rank, std::uint64_t>, std::uint64_t>;  // objects of each

struct Asked {
  Clusters clusters;
  std::map<std::pair<Rank, std::uint64_t>, std::vector<Interval>> intervals;
  int caught_up = 0;
  std::optional<Answer> last;
  Time ended{0};
  std::map<Rank, std::string> taken;  // a model; why not
  std::uint64_t checked() const {
    std::uint64_t sum = 0;
    for (const SiteEnd& end : last->ends) sum += end.checked;
    return sum;
  }
};

// Sites with streams, a simulated network between them, and users.
class Sites {
 public:
  using Wrap = std::function<std::unique_ptr<sim::Network>(std::unique_ptr<sim::Network>)>;
  explicit Sites(std::uint32_t count, Config config = small(), bool tears = false,
                 Time duration = 1h, const Wrap& wrap = nullptr)
      : config_(std::move(config)), duration_(duration) {
    Members members;
    for (std::uint32_t i = 0; i < count; ++i) members.push_back({"site" + std::to_string(i)});
    members_ = std::make_shared<const Members>(members);
    std::unique_ptr<sim::Network> network =
        std::make_unique<sim::FifoNetwork>(sim::testing::equal(count));
    if (wrap) network = wrap(std::move(network));
    world_ = std::make_unique<World>(
        sim::WorldConfig{.threads = 0, .detect = 2s, .repeat = {}, .tears_writes = tears},
        std::move(network), std::make_unique<InferTimes>());
    sim::Observer observer;
    observer.on_reply = [this](Time at, Rank, const Reply& reply) { hear(at, reply); };
    observer.on_bad_message = [this](Time, Rank, Rank, const Error& e) { bad_ = e.what; };
    world_->observe(std::move(observer));
    for (Rank rank = 0; rank < count; ++rank) {
      learners_.push_back(learner());
      auto node = made(rank);
      nodes_.push_back(node.get());
      world_->add(place(rank, 0), std::move(node), learners_.back().get());
    }
  }
  static Config small() {
    Config config;
    config.T = 0.5;
    config.vote = "first";
    config.answer_timeout_s = 20;
    return config;
  }

  // Objects 1 to `last` of every live site, at their times but not before `from`.
  void stream(std::uint64_t first, std::uint64_t last, Time from = 1ms) {
    for (Rank rank = 0; rank < nodes_.size(); ++rank) {
      const Tracks tracks(kSeed, rank);
      for (std::uint64_t seq = first; seq <= last; ++seq) {
        Item item = tracks.item(seq, kRate);
        const Time at = std::max(item.at, from);
        world_->give(rank, at, Arrived{{std::move(item)}});
      }
    }
  }
  std::uint64_t ask(Rank rank, Time at, Wanted wanted) {
    wanted.window.to_ns = wanted.window.to_ns == 0 ? 1'000'000'000'000 : wanted.window.to_ns;
    world_->give(rank, at, Requested{next_, request_of(wanted)});
    return next_++;
  }
  // A user of that site gives all of them a model.
  std::uint64_t give(Rank rank, Time at, const GivenModel& model) {
    world_->give(rank, at,
                 Requested{next_, share(to_wire(Request{.query = {}, .model = {model}}))});
    return next_++;
  }
  const Asked& answer(std::uint64_t number) { return asked_[number]; }
  void crash(Rank rank, Time at) {
    world_->inject({.kind = sim::Fault::Kind::crash, .rank = rank, .at = at});
  }
  void run(Time until) {
    const auto ended = world_->run(until);
    EXPECT_TRUE(ended) << ended.error().what;
  }
  void restart(Rank rank) {
    retired_.push_back(std::move(learners_[rank]));
    learners_[rank] = learner();
    auto node = made(rank);
    EXPECT_TRUE(node->restore(world_->durable(rank), rank));
    nodes_[rank] = node.get();
    world_->restart(place(rank, 1), std::move(node), learners_[rank].get());
  }
  void try_with(NodeConfig::TryModel trial) { trial_ = std::move(trial); }
  void expect_lies() { lied_to_ = true; }  // what is answered may be anything
  World& world() { return *world_; }
  const FocusNode& node(Rank rank) const { return *nodes_[rank]; }
  const std::string& bad() const { return bad_; }

 private:
  std::unique_ptr<Learner> learner() const {
    return std::make_unique<TracksLearner>(kSeed, node_config(config_, 100, 0).index.specialised);
  }
  std::unique_ptr<FocusNode> made(Rank rank) const {
    NodeConfig config = node_config(config_, Tracks::kClasses, 0);
    config.duration = duration_;
    config.length = Tracks::kDimensions;
    config.put_model = [models = static_cast<TracksLearner*>(learners_[rank].get())](
                           std::uint32_t number, const GivenModel& model) {
      return models->put_cheap(number, model.classes, std::as_bytes(std::span(model.file)));
    };
    config.try_model = [this](const std::shared_ptr<const GivenModel>& model) {
      return trial_ ? trial_(model) : std::optional<Status>(Ok{});
    };
    if (config_.drift > 0)
      config.resample = ResampleConfig{.drift = config_.drift,
                                       .sample = config_.sample,
                                       .models = {{0.0004, Tracks::kClasses}},
                                       .grid = {{4, 8}, {0.5}},
                                       .targets = {0, 0, 1},
                                       .policy = "balance"};
    return std::make_unique<FocusNode>(config);
  }
  Place place(Rank rank, std::uint32_t incarnation) const {
    Members members = *members_;
    members[rank].incarnation = incarnation;
    Place place{.self = rank,
                .members = std::make_shared<const Members>(std::move(members)),
                .layout = Layout::flat(1),
                .seed = kSeed};
    return place;
  }
  void hear(Time at, const Reply& reply) {
    Asked& asked = asked_[reply.client];
    const auto answer = good(from_wire<Answer>(*reply.answer));
    for (const FoundCluster& one : answer->clusters) {
      const std::pair key(answer->site, one.cluster);
      EXPECT_TRUE(asked.clusters.emplace(key, one.count).second || lied_to_);
      asked.intervals[key] = one.intervals;
    }
    asked.caught_up += answer->kind == Answer::Kind::caught_up;
    if (answer->kind == Answer::Kind::taken) asked.taken[answer->site] = answer->why;
    if (answer->kind == Answer::Kind::found || answer->kind == Answer::Kind::taken) return;
    EXPECT_FALSE(asked.last && asked.last->kind != Answer::Kind::caught_up);
    asked.last = *answer;
    asked.ended = at;
  }

  Config config_;
  NodeConfig::TryModel trial_;
  Time duration_;
  std::shared_ptr<const Members> members_;
  std::vector<std::unique_ptr<Learner>> learners_, retired_;
  std::vector<const FocusNode*> nodes_;
  std::unique_ptr<World> world_;
  std::map<std::uint64_t, Asked> asked_;
  std::uint64_t next_ = 0;
  std::string bad_;
  bool lied_to_ = false;
};

// The clusters that a site's index would confirm, by the labels of its representatives.
Clusters expected(const Sites& sites, Rank rank, std::uint32_t cls) {
  Clusters found;
  const Index& index = sites.node(rank).index();
  const Tracks tracks(kSeed, rank);
  for (const auto& one : index.candidates(cls, {0, 1'000'000'000'000}))
    if (tracks.label(index.representative(one.cluster).seq) == cls)
      found[{rank, one.cluster}] = one.count;
  return found;
}
auto expected_of_all(const Sites& sites, std::uint32_t count, std::uint32_t cls) {
  auto all = expected(sites, 0, cls);
  for (Rank rank = 1; rank < count; ++rank) all.merge(expected(sites, rank, cls));
  return all;
}

// It has ended, no site is missing, and all that is there was found.
void expect_whole(Sites& sites, std::uint64_t asked, std::uint32_t count, std::uint32_t cls) {
  const Asked& answer = sites.answer(asked);
  ASSERT_TRUE(answer.last);
  EXPECT_TRUE(answer.last->missing.empty());
  EXPECT_EQ(answer.clusters, expected_of_all(sites, count, cls));
}

// One of three sites is missing, and all that is at the others was found.
void expect_without(Sites& sites, std::uint64_t asked, Rank missing) {
  const Asked& answer = sites.answer(asked);
  ASSERT_TRUE(answer.last);
  ASSERT_EQ(answer.last->missing.size(), 1u);
  EXPECT_EQ(answer.last->missing[0].site, missing);
  for (Rank rank = 0; rank < 3; ++rank)
    for (const auto& [cluster, count] : rank != missing ? expected(sites, rank, 0) : Clusters{})
      EXPECT_TRUE(answer.clusters.contains(cluster));
}

// Invariant 8: the union of what each site alone answers, wherever the accurate model runs.
TEST(FocusQueries, TheAnswerIsTheUnionOverSites) {
  for (const std::string place : {"site", "querier", "hub"}) {
    SCOPED_TRACE(place);
    Config config = Sites::small();
    config.gt_place = place;
    Sites sites(3, config);
    sites.stream(1, 240);
    const auto asked = sites.ask(1, 10s, {.cls = 0});
    sites.run(60s);
    expect_whole(sites, asked, 3, 0);
    EXPECT_EQ(sites.answer(asked).last->kind, Answer::Kind::ended);
    EXPECT_FALSE(sites.answer(asked).clusters.empty());
    const std::uint64_t here = sites.node(1).counters().accurate;
    EXPECT_EQ(here == sites.answer(asked).checked(), place == "querier");
  }
}

// Invariant 5.
TEST(FocusQueries, TheSecondQueryChecksNothingAndAnswersTheSame) {
  Sites sites(2);
  sites.stream(1, 240);
  const auto first = sites.ask(0, 10s, {.cls = 0}), second = sites.ask(1, 30s, {.cls = 0});
  sites.run(60s);
  EXPECT_GT(sites.answer(first).checked(), 0u);
  EXPECT_EQ(sites.answer(second).checked(), 0u);
  EXPECT_EQ(sites.answer(first).clusters, sites.answer(second).clusters);
}

// Invariant 6: asked while data arrive, an answer holds what was indexed then, also where it comes
// late; a later one has the same, as far as it was known then, and more.
TEST(FocusQueries, AnswersGrowWithTheData) {
  Config config = Sites::small();
  config.T = 0;  // many clusters: their checks take a second, in which objects come
  config.gt_batch = 8;
  Sites sites(2, config);
  sites.stream(1, 480);
  const auto early = sites.ask(0, 3s, {.cls = 0}), late = sites.ask(0, 15s, {.cls = 0});
  for (Time now = 3s; sites.node(0).index().asof() <= 160; now += 10ms) sites.run(now);
  EXPECT_FALSE(sites.answer(early).last);  // and later objects are indexed by now
  sites.run(60s);
  const Asked &before = sites.answer(early), &after = sites.answer(late);
  ASSERT_TRUE(before.last && after.last);
  std::map<Rank, std::int64_t> asof;
  for (const SiteEnd& end : before.last->ends) asof[end.site] = end.asof_ns;
  for (const auto& [cluster, count] : before.clusters) {
    ASSERT_TRUE(after.clusters.contains(cluster));
    EXPECT_LE(count, after.clusters.at(cluster));
    std::vector<Interval> clipped;
    for (const Interval& one : after.intervals.at(cluster))
      if (one.from_ns <= asof[cluster.first])
        clipped.push_back({one.from_ns, std::min(one.to_ns, asof[cluster.first])});
    EXPECT_EQ(before.intervals.at(cluster), clipped);
  }
  EXPECT_LT(before.clusters.size(), after.clusters.size());
  for (const SiteEnd& end : before.last->ends) EXPECT_LE(end.asof, 154u);  // at 50 a second
  for (const SiteEnd& end : after.last->ends) EXPECT_EQ(end.asof, 480u);
}

// Invariant 8, of whole sites: whatever comes twice, or once more much later.
TEST(FocusQueries, TheAnswerIsTheUnionWhateverComesTwiceOrLate) {
  for (std::uint64_t seed = 1; seed <= (kGate ? 3u : 6u); ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    Config config = Sites::small();
    config.gt_place = seed % 3 == 0 ? "site" : seed % 3 == 1 ? "querier" : "hub";
    HostileNetwork* hostile = nullptr;
    Sites sites(3, config, false, 1h, [&](std::unique_ptr<sim::Network> network) {
      auto made = std::make_unique<HostileNetwork>(std::move(network),
                                                   std::set{Abuse::twice, Abuse::late}, 0.4, seed);
      hostile = made.get();
      return made;
    });
    sites.stream(1, 240);
    std::vector<std::uint64_t> asked;
    for (const std::uint32_t cls : {0u, 1u, 0u, 2u})  // at once, from two sites
      asked.push_back(sites.ask(Rank(asked.size() % 2), 10s, {.cls = cls}));
    for (const std::uint32_t cls : {0u, 1u, 3u})
      asked.push_back(sites.ask(2, 30s + asked.size() * 1s, {.cls = cls}));
    sites.run(90s);
    EXPECT_GT(hostile->abused(), 20u);
    const std::uint32_t classes[] = {0, 1, 0, 2, 0, 1, 3};
    for (std::size_t i = 0; i < asked.size(); ++i) expect_whole(sites, asked[i], 3, classes[i]);
  }
}

// However long a batch takes, wherever it is checked: its site says that it is at work.
TEST(FocusQueries, ABatchThatTakesLongIsNoSilence) {
  for (const std::string place : {"site", "querier", "hub"}) {
    SCOPED_TRACE(place);
    Config config = Sites::small();
    config.gt_place = place;
    config.T = 0;                    // batches of 32 objects, 640 ms each
    config.thumb_kb = 0.5;           // and soon on their way
    config.answer_timeout_s = 0.25;  // two delays are 100 ms
    Sites sites(3, config);
    sites.stream(1, 120);
    const auto asked = sites.ask(1, 10s, {.cls = 0});
    sites.run(60s);
    expect_whole(sites, asked, 3, 0);
    EXPECT_GT(sites.answer(asked).checked(), 32u);
    const std::uint64_t here = sites.node(1).counters().accurate;  // nobody was given up
    EXPECT_EQ(here == sites.answer(asked).checked(), place == "querier");
  }
}

TEST(FocusQueries, AWindowALimitAndAnUnknownClass) {
  Sites sites(2);
  sites.stream(1, 480);
  const auto window = sites.ask(0, 20s, {.cls = 0, .window = {0, 2'000'000'000}});
  const auto limited = sites.ask(0, 21s, {.cls = 0, .limit = 1});
  const auto unknown = sites.ask(0, 22s, {.cls = 100});
  sites.run(60s);
  EXPECT_LT(sites.answer(window).clusters.size(), expected_of_all(sites, 2, 0).size());
  EXPECT_EQ(sites.answer(limited).clusters.size(), 1u);
  EXPECT_TRUE(sites.answer(limited).last->limited);
  EXPECT_EQ(sites.answer(unknown).last->kind, Answer::Kind::refused);
  EXPECT_EQ(sites.node(0).open_queries() + sites.node(1).open_queries(), 0u);
}

TEST(FocusQueries, AQueryThatFollowsHearsOfLaterClustersUntilItIsCancelled) {
  Sites sites(2);
  sites.stream(1, 600);
  const auto asked = sites.ask(0, 2s, {.cls = 0, .follow = true});
  sites.run(11s);
  EXPECT_EQ(sites.answer(asked).last->kind, Answer::Kind::caught_up);
  sites.world().give(0, 20s, Requested{asked, nullptr});
  sites.run(60s);
  std::set<std::pair<Rank, std::uint64_t>> found, all;
  for (const auto& [cluster, count] : sites.answer(asked).clusters) found.insert(cluster);
  for (const auto& [cluster, count] : expected_of_all(sites, 2, 0)) all.insert(cluster);
  EXPECT_EQ(found, all);
  EXPECT_EQ(sites.answer(asked).last->kind, Answer::Kind::ended);
  EXPECT_EQ(sites.node(0).open_queries() + sites.node(1).open_queries(), 0u);
}

TEST(FocusQueries, WhoFollowsIsToldOfALostSiteAndOfTheEnd) {
  Sites sites(3, Sites::small(), false, 30s);
  sites.stream(1, 960);
  const auto asked = sites.ask(0, 2s, {.cls = 0, .follow = true});
  sites.run(8s);
  EXPECT_EQ(sites.answer(asked).caught_up, 1);
  EXPECT_TRUE(sites.answer(asked).last->missing.empty());
  sites.crash(2, 9s);
  sites.run(15s);
  EXPECT_EQ(sites.answer(asked).caught_up, 2);
  ASSERT_EQ(sites.answer(asked).last->missing.size(), 1u);
  EXPECT_EQ(sites.answer(asked).last->missing[0].site, 2u);
  const auto late = sites.ask(1, 31s, {.cls = 0, .follow = true});  // when they are about to end
  sites.run(60s);
  EXPECT_EQ(sites.answer(asked).last->kind, Answer::Kind::ended);
  expect_without(sites, asked, 2);
  EXPECT_EQ(sites.node(0).waiting_for(), "");
  EXPECT_FALSE(sites.answer(late).last);  // nobody is there to be asked
}

TEST(FocusLosses, ALostSiteIsNamedAndTheOthersAnswer) {
  for (const Time crash : {Time(5s), Time(10s + 10ms)}) {  // before the query, and during it
    Sites sites(3);
    sites.stream(1, 240);
    sites.crash(2, crash);
    const auto known = sites.ask(0, 4s, {.cls = 1}), asked = sites.ask(0, 10s, {.cls = 0});
    sites.run(60s);
    expect_without(sites, asked, 2);
    for (const SiteEnd& end : sites.answer(known).last->ends)
      EXPECT_TRUE(end.site != 2 || sites.answer(asked).last->missing[0].asof == end.asof);
  }
}

TEST(FocusLosses, WhatALostVerifierOwesIsCheckedByTheSiteItself) {
  Config config = Sites::small();
  config.gt_place = "hub";  // site 0
  Sites sites(3, config);
  sites.stream(1, 240);
  const auto asked = sites.ask(1, 10s, {.cls = 0});
  sites.crash(0, 10s + 20ms);
  sites.run(60s);
  expect_without(sites, asked, 0);
  EXPECT_GT(sites.node(1).counters().accurate + sites.node(2).counters().accurate, 0u);
}

// It is not lost, and says nothing: its site checks by itself, and asks it again when it is back.
TEST(FocusLosses, ASilentVerifierIsGivenUp) {
  Config config = Sites::small();
  config.gt_place = "hub";  // site 0
  config.answer_timeout_s = 1;
  Sites sites(3, config);
  sites.stream(1, 240);
  sites.world().inject(  // not for so long that it is lost
      {.kind = sim::Fault::Kind::pause, .rank = 0, .at = 10s + 20ms, .until = 11900ms});
  const auto asked = sites.ask(1, 10s, {.cls = 0});
  sites.run(15s);
  expect_without(sites, asked, 0);
  EXPECT_LT(sites.answer(asked).ended, 11800ms);  // a second of silence, and the checks
  const auto checked_here = [&] {
    return sites.node(1).counters().accurate + sites.node(2).counters().accurate;
  };
  const std::uint64_t before = checked_here();
  EXPECT_GT(before, 0u);
  const auto again = sites.ask(1, 20s, {.cls = 1});
  sites.run(60s);
  expect_whole(sites, again, 3, 1);
  EXPECT_EQ(checked_here(), before);  // the hub has
  EXPECT_TRUE(sites.bad().empty()) << sites.bad();
}

// Fields that lie, heads and bodies that are cut: every query ends, no node fails or keeps more.
TEST(FocusLosses, LiesDoNotKeepAQuery) {
  for (std::uint64_t seed = 1; seed <= testing::cases(8); ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    Config config = Sites::small();
    config.gt_place = seed % 2 == 0 ? "querier" : "hub";
    Sites sites(3, config, false, 1h, [&](std::unique_ptr<sim::Network> network) {
      return std::make_unique<HostileNetwork>(
          std::move(network), std::set{Abuse::lie, Abuse::cut_head, Abuse::cut_body}, 0.2, seed);
    });
    sites.expect_lies();
    sites.stream(1, 240);
    std::vector<std::uint64_t> asked;
    for (std::uint32_t cls = 0; cls < 12; ++cls)
      asked.push_back(sites.ask(cls % 3, 10s + cls * 5s, {.cls = cls}));
    sites.run(200s);
    for (const std::uint64_t number : asked) {
      ASSERT_TRUE(sites.answer(number).last);
      EXPECT_EQ(sites.answer(number).last->kind, Answer::Kind::ended);
    }
  }
}

TEST(FocusLosses, ACrashedSiteComesBackWithWhatItHadAcknowledged) {
  Sites sites(3, Sites::small(), /*tears=*/true);
  sites.stream(1, 240);
  sites.run(2s + 500us);
  const std::uint64_t acknowledged = sites.node(2).acknowledged();
  sites.crash(2, sites.world().now());
  sites.run(15s);
  sites.restart(2);
  EXPECT_EQ(sites.node(2).index().asof(), acknowledged);
  EXPECT_GT(acknowledged, 90u);
  sites.run(30s);
  const Tracks tracks(kSeed, 2);
  for (std::uint64_t seq = acknowledged + 1; seq <= 240; ++seq)  // its source sends again
    sites.world().give(2, 31s, Arrived{{tracks.item(seq, kRate)}});
  const auto asked = sites.ask(0, 40s, {.cls = 0});
  sites.run(80s);
  EXPECT_EQ(sites.node(2).index().objects(), 240u);
  expect_whole(sites, asked, 3, 0);
}

TEST(FocusDrift, ParametersAreChosenAgainAndClustersOfBeforeAreFoundToo) {
  Config config = Sites::small();
  config.drift = 0.05;  // any two windows of so few tracks differ by more
  config.sample = 120;
  Sites sites(3, config);  // a majority is left
  sites.stream(1, 960);
  const auto asked = sites.ask(0, 30s, {.cls = 0});
  sites.run(50s);
  const Index& index = sites.node(1).index();
  EXPECT_GT(sites.node(1).samples(), 0u);
  EXPECT_GT(index.generations(), 1u);
  expect_whole(sites, asked, 3, 0);
  const std::size_t generations = index.generations(), clusters = index.clusters();
  sites.crash(1, sites.world().now());
  sites.run(60s);
  sites.restart(1);
  EXPECT_EQ(sites.node(1).index().generations(), generations);
  EXPECT_EQ(sites.node(1).index().clusters(), clusters);
}

GivenModel exact_model(const std::string& file = "noise = 0") {
  GivenModel model{.file = file};
  return model;
}

// Clusters of before keep the model that made them, and are searched beside the new ones.
TEST(FocusModels, AGivenModelReachesAllSitesAndOldClustersKeepTheirs) {
  Sites sites(3);
  sites.stream(1, 480);
  GivenModel model = exact_model();
  model.K = 1;
  model.classes = {5, 0, 2};
  const auto given = sites.give(1, 5s, model);
  const auto zero = sites.ask(0, 30s, {.cls = 0}), other = sites.ask(2, 35s, {.cls = 1});
  sites.run(60s);
  ASSERT_TRUE(sites.answer(given).last);
  EXPECT_EQ(sites.answer(given).last->kind, Answer::Kind::given);
  EXPECT_EQ(sites.answer(given).last->model, 1u);
  EXPECT_TRUE(sites.answer(given).last->missing.empty());
  EXPECT_EQ(sites.answer(given).taken, (std::map<Rank, std::string>{{0, ""}, {1, ""}, {2, ""}}));
  for (Rank rank = 0; rank < 3; ++rank) {
    const Index& index = sites.node(rank).index();
    EXPECT_EQ(index.config().model, (ModelVersion{1, 1}));
    EXPECT_EQ(index.config().top, 1u);
    EXPECT_EQ(index.generations(), 2u);
    EXPECT_EQ(index.model_of(0), ModelVersion{});
    EXPECT_EQ(index.model_of(index.clusters() - 1), (ModelVersion{1, 1}));
    EXPECT_EQ(index.objects(), 480u);
  }
  EXPECT_EQ(sites.answer(zero).clusters, expected_of_all(sites, 3, 0));   // a class of the list
  EXPECT_EQ(sites.answer(other).clusters, expected_of_all(sites, 3, 1));  // OTHER
  EXPECT_TRUE(sites.bad().empty()) << sites.bad();
}

TEST(FocusModels, SitesAnswerAndIndexWhileAModelIsTried) {
  Sites sites(3);
  sites.stream(1, 480);
  sites.try_with([&](const std::shared_ptr<const GivenModel>& model) -> std::optional<Status> {
    if (sites.world().now() < Time(20s)) return std::nullopt;
    if (model->file != exact_model().file) return Status(invalid("it took too long"));
    return Status(Ok{});
  });
  const auto given = sites.give(1, 2s, exact_model());
  const auto asked = sites.ask(1, 10s, {.cls = 0});
  for (Rank rank = 0; rank < 3; ++rank)
    sites.ask(rank, 25s, {.cls = 0});  // an input after the trial
  sites.run(15s);
  EXPECT_FALSE(sites.answer(given).last);
  ASSERT_TRUE(sites.answer(asked).last);
  EXPECT_TRUE(sites.answer(asked).last->missing.empty());
  EXPECT_GT(sites.node(1).index().objects(), 100u);
  const auto refused = sites.give(0, 40s, exact_model("noise = 1"));
  sites.run(60s);
  ASSERT_TRUE(sites.answer(given).last);
  EXPECT_EQ(sites.answer(given).last->kind, Answer::Kind::given);
  ASSERT_TRUE(sites.answer(refused).last);
  EXPECT_EQ(sites.answer(refused).last->why, "it took too long");
  for (Rank rank = 0; rank < 3; ++rank)
    EXPECT_EQ(sites.node(rank).index().config().model, (ModelVersion{1, 1}));
}

// A file of several pieces; a site that was lost, and one that was lost while it fetched.
TEST(FocusModels, ASiteThatComesBackAsksForTheNewest) {
  for (const Time crash : {Time(2s), Time(5s + 100ms)}) {
    SCOPED_TRACE(seconds(crash));
    Sites sites(3, Sites::small(), /*tears=*/true);
    sites.stream(1, 480);
    sites.crash(2, crash);
    const auto given =
        sites.give(0, 5s, exact_model("noise = 0" + std::string(Models::kPart, ' ')));
    sites.run(20s);
    ASSERT_TRUE(sites.answer(given).last);
    ASSERT_EQ(sites.answer(given).last->missing.size(), 1u);
    EXPECT_EQ(sites.answer(given).last->missing[0].site, 2u);
    sites.restart(2);
    sites.run(40s);
    EXPECT_EQ(sites.node(2).index().config().model, (ModelVersion{1, 0}));
    // And once more: it is in its log.
    const std::uint64_t clusters = sites.node(2).index().clusters();
    sites.crash(2, sites.world().now());
    sites.run(60s);
    sites.restart(2);
    EXPECT_EQ(sites.node(2).index().config().model, (ModelVersion{1, 0}));
    EXPECT_EQ(sites.node(2).index().clusters(), clusters);
    sites.run(80s);
    ASSERT_TRUE(sites.node(2).models().newest());
    EXPECT_EQ(sites.node(2).models().newest()->version, (ModelVersion{1, 0}));
  }
}

// Two users at two sites: all sites end with one of both, and the numbers go on from there.
TEST(FocusModels, OfTwoGivenAtOnceTheLaterVersionWinsEverywhere) {
  Sites sites(3);
  sites.stream(1, 240);
  sites.give(0, 2s, exact_model());
  sites.give(2, 2s, exact_model("noise = 1"));
  const auto third = sites.give(1, 20s, exact_model());
  sites.run(15s);
  for (Rank rank = 0; rank < 3; ++rank)
    EXPECT_EQ(sites.node(rank).index().config().model, (ModelVersion{1, 2}));
  sites.run(40s);
  EXPECT_EQ(sites.answer(third).last->model, 2u);
  for (Rank rank = 0; rank < 3; ++rank)
    EXPECT_EQ(sites.node(rank).index().config().model, (ModelVersion{2, 1}));
}

TEST(FocusModels, WhatIsNoModelIsRefusedAndNothingChanges) {
  Sites sites(2);
  sites.stream(1, 120);
  GivenModel classes = exact_model(), twice = exact_model();
  classes.classes = {3, 100};
  twice.classes = {3, 3};
  const auto first = sites.give(0, 3s, exact_model("a picture")),
             second = sites.give(0, 4s, classes), third = sites.give(0, 5s, twice);
  sites.world().give(0, 6s, Requested{77, share(Buffer(3))});
  sites.run(10s);
  EXPECT_TRUE(says(sites.answer(first).last->why, "noise = N"));
  EXPECT_TRUE(says(sites.answer(second).last->why, "expected 0 to 99"));
  EXPECT_TRUE(says(sites.answer(third).last->why, "twice"));
  EXPECT_EQ(sites.answer(77).last->kind, Answer::Kind::refused);
  EXPECT_EQ(sites.node(0).index().generations(), 1u);
  EXPECT_FALSE(sites.node(0).models().newest());
  Config config = Sites::small();
  config.baseline = "ingest_all";
  Sites exact(2, config);
  const auto none = exact.give(0, 3s, exact_model());
  exact.run(10s);
  EXPECT_TRUE(says(exact.answer(none).last->why, "without a cheap model"));
}

// Where T is chosen, the site takes a sample for it, and the model with it or not at all.
TEST(FocusModels, WhereParametersAreChosenASampleDecides) {
  Config config = Sites::small();
  config.drift = 1;  // never
  config.sample = 120;
  Sites sites(1, config);
  sites.stream(1, 960);
  sites.give(0, 5s, exact_model());
  sites.run(60s);
  EXPECT_EQ(sites.node(0).samples(), 1u);
  ASSERT_TRUE(sites.node(0).models().newest());
  EXPECT_EQ(sites.node(0).index().generations(), 2u);
  EXPECT_EQ(sites.node(0).index().config().model, (ModelVersion{1, 0}));
}

TEST(FocusBaselines, AnswerAsTheirNamesSay) {
  std::map<std::string, Asked> asked;
  std::map<std::string, std::uint64_t> wan;
  for (const std::string baseline : {"ingest_all", "query_all", "ship_all", "no_cluster"}) {
    SCOPED_TRACE(baseline);
    Config config = Sites::small();
    config.baseline = baseline;
    Sites sites(2, config);
    sites.stream(1, 120);
    const auto number = sites.ask(0, 30s, {.cls = 0});
    sites.run(300s);
    asked[baseline] = sites.answer(number);
    ASSERT_TRUE(asked[baseline].last);
    wan[baseline] = sites.world().counters().wan_bytes;
    EXPECT_EQ(sites.node(0).index().clusters(), 120u);
    EXPECT_EQ(sites.node(0).counters().cheap, baseline == "no_cluster" ? 120u : 0u);
  }
  EXPECT_EQ(asked["ingest_all"].checked(), 0u);
  EXPECT_EQ(asked["query_all"].checked(), 240u);
  EXPECT_LT(asked["no_cluster"].checked(), 240u);
  EXPECT_EQ(asked["ingest_all"].clusters, asked["query_all"].clusters);
  EXPECT_EQ(asked["ship_all"].clusters, asked["query_all"].clusters);
  EXPECT_GT(wan["ship_all"], 120u * 12000);
  EXPECT_LT(wan["query_all"], 10000u);
}

TEST(FocusNode, MessagesOfALyingPeerAreRefusedOrIgnored) {
  Sites sites(2);
  sites.stream(1, 120);
  sites.run(5s);
  Node& node = sites.world().node(0);
  const auto deliver = [&]<MessageStruct M>(const M& m, Payload body = {}) {
    Message message = longhaul::testing::message_of(m);
    message.machine = Path().child(2);
    message.body = std::move(body);
    return bool(node.deliver(sites.world().now(), 1, message));
  };
  EXPECT_FALSE(deliver(Found{.query = 7, .clusters = {}}));  // was not asked
  EXPECT_FALSE(deliver(Check{.batch = 1, .length = 4, .stride = 4, .items = {{}}}));
  EXPECT_FALSE(deliver(Check{.batch = 1, .length = 1, .stride = 4, .items = {{0, 1, 0}}},
                       Payload(share(Buffer(4)))));  // no object of this stream
  EXPECT_FALSE(deliver(Check{.batch = 1, .length = 16, .stride = 64, .items = {{0, 0, 0}}},
                       Payload(share(Buffer(64)))));
  EXPECT_FALSE(deliver(Query{7, {.cls = 4000}}));
  EXPECT_FALSE(deliver(Query{7, {.cls = 0, .window = {5, 4}}}));
  EXPECT_TRUE(deliver(StillChecking{12}));                                   // given up long ago
  EXPECT_TRUE(deliver(Verdict{.batch = 99, .version = 1, .classes = {1}}));  // given up long ago
  EXPECT_TRUE(deliver(Cancel{12}));
  EXPECT_FALSE(deliver(FetchModel{{9, 1}, 0}));  // was not given
  EXPECT_FALSE(deliver(ModelTaken{{9, 1}, ""}));
  EXPECT_TRUE(deliver(ModelPart{{9, 1}, 0, 4}, Payload(share(Buffer(4)))));  // was not asked for
  EXPECT_TRUE(deliver(NewestModel{{9, 1}}));
  EXPECT_FALSE(deliver(ModelPart{{9, 1}, 0, 2}, Payload(share(Buffer(4)))));
  for (std::uint64_t i = 0; i < Querier::kMostOpen; ++i)
    EXPECT_TRUE(deliver(Query{100 + i, {.cls = 0, .follow = true}}));
  EXPECT_TRUE(deliver(Query{100, {.cls = 0}}));  // a duplicate is answered by the running one
  EXPECT_FALSE(deliver(Query{999, {.cls = 0, .follow = true}}));
  EXPECT_EQ(sites.node(0).open_queries(), Querier::kMostOpen);
}

// Saving and loading between any two events of a run that meets every phase equals going on.
TEST(FocusNode, SavedAndLoadedItGoesOn) {
  Config config = Sites::small();
  config.gt_place = "querier";
  const auto begin = [&](Sites& sites) {
    sites.stream(1, 16);
    sites.ask(1, 250ms, {.cls = 0, .follow = true});
    sites.give(0, 150ms, exact_model());
  };
  const auto state_of = [](World& world) {
    Archive ar;
    world.state(ar);
    return ar.take();
  };
  Sites whole(2, config, false, 1s);
  begin(whole);
  while (whole.world().now() < 900ms) {
    ASSERT_TRUE(*whole.world().step());
    if (kGate && whole.world().counters().events % 4 != 0) continue;
    const Buffer saved = state_of(whole.world());
    Sites loaded(2, config, false, 1s);
    Archive ar(saved);
    loaded.world().state(ar);
    ASSERT_TRUE(ar.finish());
    ASSERT_EQ(state_of(loaded.world()), saved);
    if (whole.world().counters().events % 8 != 0) continue;
    Sites other(2, config, false, 1s);  // and takes the same way from there
    begin(other);
    while (other.world().counters().events < whole.world().counters().events)
      ASSERT_TRUE(*other.world().step());
    for (int i = 0; i < 10 && other.world().now() < 900ms; ++i) {
      ASSERT_TRUE(*loaded.world().step());
      ASSERT_TRUE(*other.world().step());
    }
    ASSERT_EQ(state_of(loaded.world()), state_of(other.world()));
  }
}

}  // namespace
}  // namespace longhaul::focus
