// A job whose small vector stands for a large one ([wan] wire_scale) takes as long as the job of
// the large one: within 3 %, whatever cuts the vector.
#include <gmock/gmock.h>

#include <fmt/format.h>

#include "longhaul/base/testing/result.h"
#include "longhaul/overlay/registry.h"
#include "longhaul/run/job/testing/job_text.h"
#include "longhaul/run/simulation.h"
#include "longhaul/sync/registry.h"
#include "longhaul/transfer/registry.h"

namespace longhaul::run {
namespace {

// Five sites, pairs of 150 and 15 Mbit/s; a million values, or so many times fewer.
std::string job_text(const std::string& model, const std::string& parts, double scale) {
  std::string text = fmt::format(
      "[model]\nkind = \"phantom\"\nmbytes = {}\n[stop]\nmax_rounds = 3\n{}"
      "[wan]\nmodel = \"{}\"\nwire_scale = {}\n",
      4 / scale, parts, model, scale);
  for (int i = 0; i < 5; ++i) text += fmt::format("[[site]]\nname = \"s{}\"\nstep_ms = 20\n", i);
  for (int i = 0; i < 5; ++i)
    for (int j = 0; j < 5; ++j)
      if (i != j)
        text +=
            fmt::format("[[wan.link]]\nfrom = \"s{}\"\nto = \"s{}\"\nmbps = {}\ndelay_ms = {}\n", i,
                        j, (i < 2) == (j < 2) ? 150 : 15, 10 + 5 * std::abs(i - j));
  return text;
}

double seconds_of(const std::string& text) {
  auto job = testing::read_job(text);
  EXPECT_TRUE(job) << job.error().what;
  auto workload = Workload::load(*job, /*numbers=*/false, {});
  EXPECT_TRUE(workload);
  auto simulation = Simulation::make(*job, *std::move(workload), 1);
  EXPECT_TRUE(simulation) << simulation.error().what;
  for (;;) {
    const Result<bool> more = (*simulation)->step();
    EXPECT_TRUE(more) << more.error().what;
    if (!more || !*more) return seconds((*simulation)->world().now());
  }
}

void expect_alike(const std::string& model, const std::string& parts) {
  SCOPED_TRACE(model + ", " + parts);
  const double whole = seconds_of(job_text(model, parts, 1));
  EXPECT_NEAR(seconds_of(job_text(model, parts, 100)) / whole, 1, 0.03);
  EXPECT_NEAR(seconds_of(job_text(model, parts, 300)) / whole, 1, 0.03);
}

std::string table(std::string_view name, std::string_view kind) {
  return fmt::format("[{}]\nkind = \"{}\"\n", name, kind);
}

TEST(WireScale, EveryOverlayCutsTheVectorItStandsFor) {
  for (const OverlayEntry& overlay : overlay::registry())
    for (const std::string model : {"fair", "fifo"})
      expect_alike(model, table("sync", "fedavg") + table("overlay", overlay.name));
}

// With the first overlay that it can be combined with.
std::string parts_of(const SyncEntry& sync) {
  for (const OverlayEntry& overlay : overlay::registry()) {
    const std::string parts = table("sync", sync.name) + table("overlay", overlay.name);
    if (testing::job_error(job_text("fair", parts, 1)) == "no error") return parts;
  }
  return "";
}

TEST(WireScale, EveryStrategyCutsTheVectorItStandsFor) {
  std::vector<std::string_view> without;
  for (const SyncEntry& sync : sync::registry()) {
    const std::string parts = parts_of(sync);
    if (parts.empty())
      without.push_back(sync.name);
    else
      expect_alike("fair", parts);
  }
  EXPECT_THAT(without, ::testing::ElementsAre());
}

TEST(WireScale, EveryTransferCutsTheVectorItStandsFor) {
  for (const TransferEntry& transfer : transfer::registry())
    for (const std::string overlay : {"hub", "direct"})
      expect_alike("fair", table("sync", "bsp") + table("overlay", overlay) +
                               table("transfer", transfer.name));
}

}  // namespace
}  // namespace longhaul::run
