// A job over sockets has the bits of the simulator, if bits is rank or plan. Each node is a thread
// with an event loop, and sends over TCP on the loopback interface.
#include <algorithm>
#include <array>

#include <gtest/gtest.h>

#include "tests/job_checks.h"
#include "tests/over_sockets.h"
#include "tests/side_by_side.h"

#include "longhaul/base/testing/result.h"

namespace longhaul::conformance {
namespace {

using namespace std::chrono_literals;

// Writes to a port of this machine and reads until the other side closes: what a stranger sees.
std::string say(std::uint16_t port, std::array<std::span<const std::byte>, 2> parts) {
  net::Loop loop;
  std::unique_ptr<net::Stream> stream;
  net::connect(loop, {"127.0.0.1", port}, 5s, [&](auto result) {
    LH_CHECK(result);
    stream = *std::move(result);
  });
  LH_CHECK(loop.run_until(loop.now() + 20s, [&] { return stream != nullptr; }));
  std::string answer;
  bool closed = false;
  std::byte next{};
  std::function<void(Status)> more = [&](const Status& status) {
    closed = !status;
    if (closed) return;
    answer += char(next);
    stream->read(std::span(&next, 1), more);
  };
  stream->read(std::span(&next, 1), more);
  stream->write({parts[0], parts[1], {}}, [](Status) {});
  EXPECT_TRUE(loop.run_until(loop.now() + 20s, [&] { return closed; }));
  return answer;
}

class Sockets : public ::testing::TestWithParam<Variant<OverlayEntry>> {};
// Suites that wait for silence, or take the time of their steps.
class SocketsNightly : public ::testing::TestWithParam<Variant<OverlayEntry>> {};

TEST_P(Sockets, GiveTheBitsOfTheSimulator) {
  std::size_t number = 0;
  for (const Combination& parts :
       kGate ? combinations_with(GetParam()) : all_combinations_with(GetParam())) {
    ++number;
    for (const std::uint32_t workers : {2u, 3u, 5u}) {
      // Under a sanitizer every other combination with one of the counts, by turns.
      const std::size_t share = kGate ? 1 : 2;
      if (kStride > 1 &&
          (number % share != 0 || workers != std::array{2u, 3u, 5u}[number / share % 3]))
        continue;
      SCOPED_TRACE(parts.name() + ", " + std::to_string(workers) + " workers");
      JobSpec spec{.parts = parts, .workers = workers, .equal_samples = false, .rounds = 3};
      expect_equal_bits(spec, over_sockets(spec, {.tls = workers == 3}));
    }
  }
}

// Connections are cut again and again, in the middle of frames; no node is lost.
TEST_P(Sockets, BrokenConnectionsChangeNoBit) {
  JobSpec spec;
  spec.parts = combinations_with(GetParam()).front();
  spec.workers = 3;
  spec.rounds = kGate ? 16 : 60;
  std::vector<std::uint32_t> counts = {1, 3};
  if (kGate) counts = {GetParam().name().size() % 2 == 0 ? 1u : 3u};
  side_by_side(counts, [&](std::uint32_t streams) {
    SCOPED_TRACE(std::to_string(streams) + " streams");
    std::size_t breaks = 0;
    const auto disturb = [&](auto loops) { loops[breaks++ % loops.size()]->break_connections(); };
    const Ended ended = over_sockets(
        spec,
        {.disturb = disturb, .disturb_in_step = {2, 2}, .streams = streams, .tls = streams == 3});
    expect_equal_bits(spec, ended);
    EXPECT_GE(breaks, kGate ? 4u : kStride > 1 ? 10u : 25u);
  });
}

// A run is stopped several times and resumes from the checkpoints that all nodes took together.
// Connections break while the nodes meet, and while they choose a checkpoint. A strategy whose
// workers do not wait would end before.
TEST_P(Sockets, AStoppedRunGoesOnToTheSameBits) {
  auto all = combinations_with(GetParam());
  if (kGate) all.erase(all.begin() + 1, all.end());
  for (const Combination& parts : all) {
    SCOPED_TRACE(parts.name());
    JobSpec spec{.parts = parts, .workers = 3, .equal_samples = false, .rounds = kGate ? 12 : 24};
    Disks disks;
    const bool waits = traits_of(parts.sync).bits != Bits::schedule;
    for (const auto& [stop, breaks] : {std::pair{Round{kGate ? 3 : 5}, 0},
                                       {Round{kGate ? 6 : 11}, 1},
                                       {Round{kGate ? 9 : 17}, 2}}) {
      const Ended ended =
          over_sockets(spec, {.disturb = [](auto loops) { loops[1]->break_connections(); },
                              .disturb_in_step = {waits ? breaks : 0},
                              .streams = 2,
                              .disks = &disks,
                              .every = 2,
                              .stop_after = stop});
      for (const std::string& error : ended.errors)
        EXPECT_TRUE(error.empty() || error == "stopped by its user")
            << error << ::testing::PrintToString(ended.notes);
    }
    std::uint64_t taken = 0;
    for (const auto& mine : disks.of)
      if (!mine.empty()) taken = std::max(taken, mine.rbegin()->first);
    EXPECT_GE(taken, waits ? 3u : 1u);
    expect_equal_bits(spec, over_sockets(spec, {.disks = &disks}));
  }
}

// Steps take the time that is set, with the same bits. Longer steps are counted. A run that stops
// while a node waits for the end of a step resumes there.
TEST_P(SocketsNightly, PacedStepsTakeTheirTime) {
  JobSpec spec{.parts = combinations_with(GetParam()).front(), .workers = 2, .rounds = 6};
  const Ended ended = over_sockets(spec, {.pace = 20ms});
  expect_equal_bits(spec, ended);
  for (const net::EventLoop::Counters& counters : ended.counters) {
    EXPECT_GE(counters.pace.steps, 6u);
    EXPECT_GE(counters.computing, counters.pace.steps * 20ms);
    // Pace::begin makes up for less than 0.1 ms a step here, which other load on the machine hides.
    if (counters.pace.overruns == 0)
      EXPECT_LT(counters.computing, counters.pace.steps * 20ms + 6 * 10ms);
    EXPECT_GE(counters.time, counters.computing);
  }
  const Ended late = over_sockets(spec, {.step = 6ms, .pace = 2ms});
  expect_equal_bits(spec, late);
  EXPECT_EQ(late.counters[0].pace.overruns, late.counters[0].pace.steps);
}

TEST_P(SocketsNightly, APacedRunIsStoppedAtOnceAndGoesOn) {
  JobSpec spec{.parts = combinations_with(GetParam()).front(), .workers = 2, .rounds = 8};
  Disks disks;
  const Ended stopped =
      over_sockets(spec, {.pace = 100ms, .disks = &disks, .every = 2, .stop_after = 3});
  for (const std::string& error : stopped.errors) EXPECT_EQ(error, "stopped by its user");
  const Ended ended = over_sockets(spec, {.pace = 5ms, .disks = &disks});
  expect_equal_bits(spec, ended);
  EXPECT_GT(ended.counters[0].pace.steps, stopped.counters[0].pace.steps);
}

// Silence after which a node is lost: longer than the pauses of a loaded machine.
constexpr Time kSilence = kStride > 1 ? 2s : 1s;

// The workers do not wait for a lost one: all must be slow, so that the run lasts until it is lost.
bool goes_by_itself(const Combination& parts) {
  return parts.sync.entry->traits.served || traits_of(parts.sync).bits == Bits::schedule;
}

// After a node is killed or stopped, the others end in time: with all rounds done and equal models,
// or with an error that names the site.
TEST_P(SocketsNightly, ALostNodeEndsNobodyElseInAHang) {
  side_by_side(plains_with(GetParam()), [](const Combination& parts) {
    for (const bool closes : {true, false}) {
      JobSpec spec;
      spec.parts = parts;
      SCOPED_TRACE(spec.parts.name() + (closes ? ", killed" : ", stopped"));
      spec.size = 8 * 128;
      const bool slow = goes_by_itself(parts);
      spec.rounds = slow ? 60 : 14;  // more than nine steps of each
      const Ended ended = over_sockets(spec, {.lost = Rank{1},
                                              .closes = closes,
                                              .pace = slow ? kSilence / 25 : 0ms,
                                              .silence = kSilence});
      EXPECT_TRUE(says(ended.errors[1], "killed"));
      EXPECT_EQ(ended.errors[0].empty(), ended.errors[2].empty());
      for (const Rank rank : {0u, 2u}) {
        const std::string& error = ended.errors[rank];
        EXPECT_TRUE(error.empty() || error.find("site1") != std::string::npos) << error;
      }
      EXPECT_TRUE(!ended.errors[0].empty() || ended.params[0] == ended.params[2]);
      EXPECT_TRUE(std::any_of(ended.notes.begin(), ended.notes.end(), [](const auto& note) {
        return note.find("lost contact with rank 1 (site1)") != std::string::npos;
      }));
    }
  });
}

// A node that is killed and started again is let in, and ends with the bits of the others. If the
// strategy does not let it return, it ends with that reason.
TEST_P(SocketsNightly, ANodeThatBeginsAnewIsLetIn) {
  side_by_side(plains_with(GetParam()), [](const Combination& parts) {
    JobSpec spec;
    spec.parts = parts;
    SCOPED_TRACE(spec.parts.name());
    spec.workers = 4;
    spec.one_site_each = true;
    spec.size = 8 * 128;
    const bool slow = goes_by_itself(parts);
    spec.rounds = slow ? 160 : 40;
    Disks disks;
    const Ended ended = over_sockets(spec, {.lost = Rank{2},
                                            .returns = true,
                                            .step = slow ? 0ms : kSilence / 25,
                                            .pace = slow ? kSilence / 20 : 0ms,
                                            .silence = kSilence,
                                            .disks = &disks,
                                            .every = 2});
    for (const Rank rank : {0u, 1u, 3u}) EXPECT_EQ(ended.errors[rank], "");
    EXPECT_EQ(ended.params[0], ended.params[1]);
    EXPECT_EQ(ended.params[0], ended.params[3]);
    if (traits_of(parts.sync).lets_return) {
      EXPECT_EQ(ended.errors[2], "");
      EXPECT_EQ(ended.params[0], ended.params[2]);
      // From the last checkpoint, which was taken after its return, to the same end.
      const Ended again = over_sockets(spec, {.disks = &disks});
      for (const std::string& error : again.errors) EXPECT_EQ(error, "");
      if (traits_of(parts.sync).bits != Bits::schedule && !by_schedule(parts.overlay))
        EXPECT_EQ(again.params, ended.params);
    } else {
      EXPECT_TRUE(says(ended.errors[2], "declared it lost"));
    }
  });
}

// A stopped run resumes with one more site, which receives the run's state from the others.
TEST_P(SocketsNightly, AStoppedRunGetsASite) {
  side_by_side(plains_with(GetParam()), [](const Combination& parts) {
    if (!traits_of(parts.sync).lets_return) return;
    JobSpec spec;
    spec.parts = parts;
    SCOPED_TRACE(spec.parts.name());
    spec.one_site_each = true;
    spec.rounds = 400;
    spec.workers = 3;
    Disks disks;
    const Ended stopped =
        over_sockets(spec, {.pace = 2ms, .disks = &disks, .every = 4, .stop_after = 12});
    for (const std::string& error : stopped.errors) EXPECT_EQ(error, "stopped by its user");
    ASSERT_GE(disks.of[0].rbegin()->first, 2u);
    spec.workers = 4;
    const std::string back = "rank 3 (site3) is back";
    const Ended ended =
        over_sockets(spec, {.pace = 2ms, .slow_until = back, .silence = kSilence, .disks = &disks});
    for (const std::string& error : ended.errors) EXPECT_EQ(error, "");
    for (const auto& params : ended.params) EXPECT_EQ(params, ended.params[0]);
    EXPECT_TRUE(std::any_of(ended.notes.begin(), ended.notes.end(), [&](const auto& note) {
      return note.find(back) != std::string::npos;
    })) << ::testing::PrintToString(ended.notes);
  });
}

// A process that is no node of the job gets that answer, or is cut off. The nodes continue.
TEST(SocketsAbuse, StrangersAreTurnedAwayAndTrainingGoesOn) {
  JobSpec spec{.parts = plain(sync_variants().front(), overlay_variants().front()), .rounds = 6};
  std::vector<std::string> answers;
  const auto disturb = [&](auto loops) {
    const std::uint16_t port = loops[0]->peers().port();
    const Members members = members_of(spec);
    net::Identity other{8, 1, 0, 5, &members}, twin{7, 0, 0, 5, &members},
        second{7, 1, 0, 5, &members};
    for (const net::Identity& one : {other, twin, second}) {
      net::Frame frame = net::hello_frame(one, 0, {}, {});
      const net::HeaderBytes header = net::seal(frame);
      answers.push_back(say(port, {header, frame.head.view()}));
    }
    net::HeaderBytes huge{};
    std::fill_n(huge.begin(), 8, std::byte{0xff});
    huge[14] = std::byte{4};
    answers.push_back(say(port, {huge, {}}));
    const std::string noise(1000, '\x5a');
    answers.push_back(say(port, {std::as_bytes(std::span(noise)), {}}));
  };
  const Ended ended = over_sockets(spec, {.disturb = disturb, .disturb_in_step = {3}});
  expect_equal_bits(spec, ended);
  const char* expected[] = {"runs another job", "start each site once", "another process of site",
                            "", ""};
  // The third may ask again: the former process could have died a moment ago.
  const char* noted[] = {"runs another job", "start each site once", "", "4294967295",
                         "unknown type"};
  ASSERT_EQ(answers.size(), std::size(expected));
  for (std::size_t i = 0; i < answers.size(); ++i) {
    EXPECT_TRUE(says(answers[i], expected[i])) << i << ": " << answers[i];
    EXPECT_TRUE(std::any_of(ended.notes.begin(), ended.notes.end(), [&](const auto& note) {
      return note.find(noted[i]) != std::string::npos;
    })) << noted[i];
  }
}

INSTANTIATE_TEST_SUITE_P(Overlay, Sockets, ::testing::ValuesIn(tried_overlays(1)), kByName);
INSTANTIATE_TEST_SUITE_P(Overlay, SocketsNightly, ::testing::ValuesIn(tried_overlays(1)), kByName);

}  // namespace
}  // namespace longhaul::conformance
