#include "longhaul/run/summary.h"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "longhaul/base/testing/result.h"
#include "longhaul/run/progress.h"

namespace longhaul::run {
namespace {

Summary sample() {
  Summary s;
  s.name = "x";
  s.sync = "bsp";
  s.target_accuracy = 0.97;
  s.rounds = 3;
  s.time_s = 0.1;
  s.final_accuracy = 0.5;
  s.wan_bytes = 1ull << 60;
  s.params_hash = hex64(0xAB);
  s.stop_reason = StopReason::max_hours;
  return s;
}

TEST(Summary, ReadsBackAsItself) {
  const std::string text = to_json(sample()).dump();
  auto again = good(parse_summary(text));
  EXPECT_EQ(to_json(*again).dump(), text);
  EXPECT_EQ(again->params_hash, "00000000000000ab");
  EXPECT_FALSE(again->time_to_target_s);
  Summary reached = sample();
  reached.time_to_target_s = 27.5;
  reached.target_after_s = 27;
  EXPECT_EQ(good(parse_summary(to_json(reached).dump()))->target_after_s, 27);
  for (const char* torn : {"", "{", "{}", "[]", "{\"name\": 3}"}) EXPECT_FALSE(parse_summary(torn));
}

TEST(Summary, KeepsWhatTheRouterSaid) {
  Summary s = sample();
  EXPECT_FALSE(to_json(s).contains("lab"));
  s.lab = LabFigures{.router_limited = true, .limited_share = 0.25, .packets = 77};
  auto again = good(parse_summary(to_json(s).dump()));
  ASSERT_TRUE(again->lab);
  EXPECT_TRUE(again->lab->router_limited);
  EXPECT_EQ(again->lab->limited_share, 0.25);
  EXPECT_EQ(again->lab->packets, 77u);
  for (const char* bad : {"[]", "3", "{}", R"({"router_limited": 1})"})
    EXPECT_FALSE(lab_figures(nlohmann::json::parse(bad)));
}

// A run whose steps took longer than they should have, more than 1 % of them, is marked.
TEST(Summary, SaysWhetherStepsTookTheirTime) {
  Summary s = sample();
  EXPECT_FALSE(to_json(s).contains("overruns"));
  s.pace = PaceFigures{.steps = 1000, .overruns = 10};
  EXPECT_FALSE(to_json(s)["void_for_comparison"].get<bool>());
  s.pace->overruns = 15;
  EXPECT_TRUE(to_json(s)["void_for_comparison"].get<bool>());
  EXPECT_EQ(to_json(s)["overrun_share"], 0.015);
  const auto again = good(parse_summary(to_json(s).dump()));
  EXPECT_EQ(again->pace->steps, 1000u);
  EXPECT_EQ(again->pace->overruns, 15u);
  EXPECT_FALSE(PaceFigures{}.is_void());
}

TEST(Summary, ExitCodesTellDoneFromStoppedFromFailed) {
  Summary s = sample();
  s.time_to_target_s.reset();
  const auto code = [&](StopReason reason, bool requires_target = false) {
    s.stop_reason = reason;
    return exit_code(s, requires_target);
  };
  for (const auto end : {StopReason::max_rounds, StopReason::max_hours, StopReason::max_epochs}) {
    EXPECT_EQ(code(end), 0) << "as its job says, also below its target";
    EXPECT_EQ(code(end, true), 1);
  }
  EXPECT_EQ(code(StopReason::target, true), 0);
  EXPECT_EQ(code(StopReason::diverged), 1);
  EXPECT_EQ(code(StopReason::participation), 1);
  EXPECT_EQ(code(StopReason::failed), 3);
  EXPECT_EQ(code(StopReason::interrupted), 130);
}

TEST(Summary, WhatIsNotScoredIsNull) {
  Summary s = sample();
  s.final_accuracy.reset();
  s.set_score({.loss = 0.5, .samples = 0});
  EXPECT_TRUE(to_json(s)["final_loss"].is_null()) << "no samples";
  s.set_score({.loss = 0.5, .samples = 3});
  s.best = BestScore{.round = 2, .loss = 0.5};
  s.site_scores = {{.site = "a", .loss = 0.5, .samples = 3}, {.site = "b"}};
  const auto json = to_json(s);
  EXPECT_EQ(json["final_loss"], 0.5);
  for (const char* key : {"final_accuracy", "best_accuracy"})
    EXPECT_TRUE(json.contains(key) && json[key].is_null()) << key;
  EXPECT_TRUE(json["site_scores"][1]["loss"].is_null());
  EXPECT_EQ(to_json(*good(parse_summary(json.dump()))).dump(), json.dump());
}

TEST(Summary, BestModelAndParticipationComeBack) {
  Summary s = sample();
  s.rounds = 10;
  s.best = BestScore{7, 0.25, 0.75};
  s.model_is_best = true;
  s.participation = {.members = 5, .live = 5};
  s.participation.change(6, 4);
  s.participation.leave_out(0.5);  // two of the four that are live
  const auto again = good(parse_summary(to_json(s).dump()));
  ASSERT_TRUE(again->best);
  EXPECT_EQ(again->best->round, 7u);
  EXPECT_EQ(again->best->accuracy, 0.75);
  EXPECT_TRUE(again->model_is_best);
  EXPECT_EQ(again->participation.live, 4u);
  EXPECT_DOUBLE_EQ(again->participation_of_live(), 1 - 0.5 / 10);
  EXPECT_DOUBLE_EQ(again->participation_share(), 1 - (4 * 1 + 2) / 50.0)
      << "four rounds without one of five, and two more missed one";
}

TEST(Progress, SaysBytesAndTimesBriefly) {
  EXPECT_EQ(bytes_text(0), "0 B");
  EXPECT_EQ(bytes_text(999), "999 B");
  EXPECT_EQ(bytes_text(85836), "85.8 kB");
  EXPECT_EQ(bytes_text(2.5e9), "2.5 GB");
  EXPECT_EQ(duration_text(0.0704), "70 ms");
  EXPECT_EQ(duration_text(42), "42.0 s");
  EXPECT_EQ(duration_text(185), "3 min 05 s");
  EXPECT_EQ(duration_text(11520), "3 h 12 min");
}

// --- run statistics

RunStatistics example() {
  const Member a{"a"}, b{"b"};
  RunStatistics statistics;
  for (const double wait : {0.5, 0.25}) statistics.add(a, {"wait_s", 3, wait});
  statistics.add(b, {"grant_wait_s", 3, 2});
  statistics.add(b, {"train_loss", 3, 9});
  for (const double staleness : {0., 1., 1., 5000.}) statistics.add(a, {"staleness", 0, staleness});
  for (const double steps : {150., 149.}) statistics.add(a, {"steps", 0, steps});
  statistics.add(b, {"steps", 0, 1});
  statistics.add(a, {"sent_share", 0, 0.5});
  statistics.add(b, {"sent_share", 0, 0.25});
  return statistics;
}

TEST(RunStatistics, SaysWhatTheRecordsComeTo) {
  nlohmann::ordered_json json;
  write(example(), json);
  EXPECT_EQ(json.dump(),
            R"({"waiting_s":{"exchange":0.75,"grant":2.0},)"
            R"("staleness":{"0":1,"1":2,"1000":1},)"
            R"("local_steps":{"a":{"updates":2,"steps":299},"b":{"updates":1,"steps":1}},)"
            R"("means":{"sent_share":{"count":2,"mean":0.375}}})");
  nlohmann::ordered_json none = nlohmann::ordered_json::object();
  write(RunStatistics{}, none);
  EXPECT_TRUE(none.empty());
}

TEST(RunStatistics, OfManyNodesAddUp) {
  RunStatistics sum = example();
  sum.add(example());
  EXPECT_EQ(sum.waiting_s["exchange"], 1.5);
  EXPECT_EQ(sum.staleness[1], 4u);
  EXPECT_EQ(sum.steps["a"].steps, 598u);
  EXPECT_EQ(sum.means["sent_share"].count, 4u);
}

TEST(RunStatistics, IsReadAsItWasWrittenAndAnythingElseIsLeftOut) {
  nlohmann::ordered_json json, again;
  write(example(), json);
  write(read_statistics(nlohmann::json::parse(json.dump())), again);
  EXPECT_EQ(json, again);
  for (const char* bad :
       {"[]",
        R"({"waiting_s":3,"staleness":{"x":1,"-1":2,"1":-1},"local_steps":{"a":{"steps":1}}})",
        R"({"staleness":{"123456789012345678901":1},"local_steps":{"a":[]}})",
        R"({"means":{"sent_share":{"count":0,"mean":1},"group_size":{"count":2}}})"})
    EXPECT_TRUE(read_statistics(nlohmann::json::parse(bad)).empty()) << bad;
}

}  // namespace
}  // namespace longhaul::run
