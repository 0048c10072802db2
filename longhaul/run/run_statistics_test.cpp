#include "longhaul/run/summary.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace longhaul::run {
namespace {

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
