#include "longhaul/run/tally.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace longhaul::run {
namespace {

Tally example() {
  const Member a{"a"}, b{"b"};
  Tally tally;
  for (const double wait : {0.5, 0.25}) tally.add(a, {"wait_s", 3, wait});
  tally.add(b, {"grant_wait_s", 3, 2});
  tally.add(b, {"train_loss", 3, 9});
  for (const double staleness : {0., 1., 1., 5000.}) tally.add(a, {"staleness", 0, staleness});
  for (const double steps : {150., 149.}) tally.add(a, {"steps", 0, steps});
  tally.add(b, {"steps", 0, 1});
  return tally;
}

TEST(Tally, SaysWhatTheRecordsComeTo) {
  nlohmann::ordered_json json;
  write(example(), json);
  EXPECT_EQ(json.dump(),
            R"({"waiting_s":{"exchange":0.75,"grant":2.0},)"
            R"("staleness":{"0":1,"1":2,"1000":1},)"
            R"("local_steps":{"a":{"updates":2,"steps":299},"b":{"updates":1,"steps":1}}})");
  nlohmann::ordered_json none = nlohmann::ordered_json::object();
  write(Tally{}, none);
  EXPECT_TRUE(none.empty());
}

TEST(Tally, OfManyNodesAddUp) {
  Tally sum = example();
  sum.add(example());
  EXPECT_EQ(sum.waiting_s["exchange"], 1.5);
  EXPECT_EQ(sum.staleness[1], 4u);
  EXPECT_EQ(sum.steps["a"].steps, 598u);
}

TEST(Tally, IsReadAsItWasWrittenAndAnythingElseIsLeftOut) {
  nlohmann::ordered_json json, again;
  write(example(), json);
  write(read_tally(nlohmann::json::parse(json.dump())), again);
  EXPECT_EQ(json, again);
  for (const char* bad :
       {"[]",
        R"({"waiting_s":3,"staleness":{"x":1,"-1":2,"1":-1},"local_steps":{"a":{"steps":1}}})",
        R"({"staleness":{"123456789012345678901":1},"local_steps":{"a":[]}})"})
    EXPECT_TRUE(read_tally(nlohmann::json::parse(bad)).empty()) << bad;
}

}  // namespace
}  // namespace longhaul::run
