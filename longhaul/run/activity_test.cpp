#include "longhaul/run/activity.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "longhaul/base/archive.h"

namespace longhaul::run {
namespace {

using namespace std::chrono_literals;

Action bytes_to(Rank to, std::size_t bytes) {
  Send send{.to = to, .message = {}, .service = {}};
  send.message.body = Payload(share(Buffer(bytes)));
  return send;
}

// A job gets sites when it is resumed: what was counted stays with its link.
TEST(ActivityLog, GrowsWithTheJob) {
  const Members two{{"tokyo"}, {"lima"}}, three{{"tokyo"}, {"lima"}, {"oslo"}};
  ActivityLog before(two, 1);
  before.acted(1s, 0, bytes_to(1, 100));
  before.acted(1s, 1, bytes_to(0, 10));
  Archive saved;
  before.state(saved);
  const Buffer bytes = saved.take();
  ActivityLog log(three, 1);
  Archive loaded(bytes);
  log.state(loaded);
  ASSERT_TRUE(loaded.finish());
  log.acted(2s, 2, bytes_to(1, 7));
  log.acted(2s, 0, bytes_to(2, 5));
  log.computed(2, 1, 2);
  std::map<std::pair<int, int>, double> links;
  const nlohmann::ordered_json json = log.to_json(3s);
  for (const auto& link : json["links"]) links[{link[0], link[1]}] = link[2];
  EXPECT_EQ(links, (std::map<std::pair<int, int>, double>{
                       {{0, 1}, 100}, {{1, 0}, 10}, {{2, 1}, 7}, {{0, 2}, 5}}));
}

}  // namespace
}  // namespace longhaul::run
