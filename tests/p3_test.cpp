// What p3 promises where messages and steps take any time.
#include "longhaul/sync/p3.h"

#include <gtest/gtest.h>

#include "longhaul/transfer/reliable.h"
#include "tests/job_checks.h"

namespace longhaul::conformance {
namespace {

constexpr std::uint64_t kTop = 8 * 17;  // values of the part at the output, as job_builder has it

JobSpec p3_spec(const std::string& overlay, const std::string& order) {
  Variant<SyncEntry> sync = variant_named(sync_variants(), "p3");
  sync.settings = {{"order", {order}}};
  // Many chunks of each part, so that one waits for the link when the next begins.
  return {.parts = plain(sync, variant_named(overlay_variants(), overlay)),
          .workers = 4,
          .chunk_bytes = 64,
          .rounds = 6};
}

// What leaves a worker for each peer, and in which order.
struct Queues final : sim::Watcher {
  void acted(Time, Rank rank, const Action& action) override {
    const auto* send = std::get_if<Send>(&action);
    if (!send || send->message.body.size() == 0 || send->to == rank) return;
    const auto piece = from_wire<transfer::Reliable::Piece>(send->message.head.view());
    if (!piece || piece->key.vector.origin != rank || piece->key.vector.range > 1) return;
    std::array<std::uint64_t, 2>& sent = left[{rank, send->to, piece->key.vector.round}];
    const std::uint32_t range = piece->key.vector.range;
    sent[range] += piece->range.length;
    if (range == 0 && sent[1] > 0) ++overtakes;
    if (range == 1 && sent[0] > 0 && sent[0] < lower_length) ++interrupts;
  }
  std::uint64_t lower_length = 0;  // values of range 0
  std::map<std::tuple<Rank, Rank, Round>, std::array<std::uint64_t, 2>> left;
  int overtakes = 0, interrupts = 0;
};

// sync/p3_test.cpp, invariant 3. The lower range is that of the part nearest to the input, with
// fifo that of the output.
TEST(P3InTime, NoChunkLeavesWhileOneOfALowerPartWaits) {
  for (const char* order : {"shallow_first", "fifo"}) {
    const JobSpec spec = p3_spec("hub", order);
    Job job(spec);
    Queues queues;
    const bool is_fifo = order == std::string("fifo");
    queues.lower_length = is_fifo ? kTop : spec.size - spec.buffers - kTop;
    job.world().watch(queues);
    ASSERT_TRUE(runs(job));
    EXPECT_TRUE(job.all_equal());
    EXPECT_EQ(queues.interrupts, 0) << order;
    if (is_fifo)
      EXPECT_EQ(queues.overtakes, 0);
    else
      EXPECT_GT(queues.overtakes, 0) << "the shallow part never waited: nothing was tried";
  }
}

}  // namespace
}  // namespace longhaul::conformance
