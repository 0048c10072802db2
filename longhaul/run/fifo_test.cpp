// A network as FIFO queues.
#include "longhaul/run/network.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "longhaul/run/job/testing/job_text.h"
#include "longhaul/run/job/wan.h"

namespace longhaul::run {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

Result<Job> job(const std::string& wan, const std::string& sites = "") {
  return testing::read_job("[model]\nkind = \"phantom\"\n[sync]\nkind = \"bsp\"\n[wan]\n" + wan +
                           "\n" + sites);
}

Time arrival(const sim::FifoConfig& config, Rank from, Rank to, std::uint64_t bytes) {
  sim::FifoNetwork network(config);
  sim::Packet packet;
  packet.from = from;
  packet.to = to;
  packet.bytes = bytes;
  network.submit(std::move(packet), Time{0});
  Time at{0};
  while (network.next_event()) {
    at = *network.next_event();
    (void)network.advance();
  }
  return at;
}

// Alone on the network, 100 MB take what the slowest link on their way needs, and its delay.
TEST(Fifo, I8_ASingleFlowReachesItsBound) {
  for (const WanPreset& preset : wan_presets()) {
    auto read = job(fmt::format("preset = \"{}\"", preset.name));
    ASSERT_TRUE(read) << read.error().what;
    const Members members = read->members();
    auto config = fifo_config(*read, members);
    if (!config) continue;  // RefusesWhatQueuesCannotDo has them
    const flow::Wan& wan = read->network;
    for (Rank from = 0; from < members.size(); from += 3)
      for (Rank to = 0; to < members.size(); to += 7) {
        if (from == to) continue;
        double rate = *wan.sites[from].up;
        rate = std::min(rate, *wan.sites[to].down);
        if (const flow::Rate pair = wan.capacity(from, to)) rate = std::min(rate, *pair);
        const double bound = 1e8 / rate + wan.pair(from, to).delay_s;
        EXPECT_NEAR(seconds(arrival(*config, from, to, 100'000'000)), bound, bound * 1e-6)
            << preset.name << " " << from << " " << to;
      }
  }
}

TEST(Fifo, ConnectionsOfAPairAreAsFastAsTheyAreTogether) {
  const std::string sites = "[[site]]\nname = \"a\"\nnodes = 2\n[[site]]\nname = \"b\"\n";
  auto one = job("delay_ms = 50\nwindow_mb = 1", "[[site]]\nname = \"a\"\n[[site]]\nname = \"b\"");
  auto two = job("delay_ms = 50\nwindow_mb = 1", sites);
  ASSERT_TRUE(one && two);
  EXPECT_EQ(*fifo_config(*one, one->members())->link.rate, 1e7);
  EXPECT_EQ(*fifo_config(*two, two->members())->links.at({0, 1}).rate, 2e7);
}

TEST(Fifo, RefusesWhatQueuesCannotDo) {
  for (const char* name : {"two-continents", "dynamic"}) {
    auto read = job(fmt::format("preset = \"{}\"", name));
    ASSERT_TRUE(read) << read.error().what;
    auto config = fifo_config(*read, read->members());
    ASSERT_FALSE(config);
    EXPECT_THAT(config.error().what, AllOf(HasSubstr(name), HasSubstr("FIFO")));
  }
}

}  // namespace
}  // namespace longhaul::run
