// The same job over sockets, to the same bits: every node in a thread of its own with an event loop
// of its own, over TCP on the loopback, against the simulator. What bits = rank and plan promise.
#include <gtest/gtest.h>

#include <algorithm>
#include <mutex>
#include <optional>
#include <thread>

#include "longhaul/net/event_loop.h"
#include "tests/job_builder.h"

namespace longhaul::conformance {
namespace {

using namespace std::chrono_literals;

struct Ended {
  std::vector<std::vector<float>> params;  // of workers, by rank
  std::vector<std::string> errors;         // by rank; "" where all went well
  std::vector<std::string> notes;
};

// What befalls a run.
struct Fate {
  // Runs in the test's thread while the nodes run in theirs.
  std::function<void(std::span<net::EventLoop* const>)> disturb = {};
  std::optional<Rank> lost = {};  // its learner fails after a few steps; then it says nothing more,
  bool closes = true;             // and its sockets are closed, as a kill does, or stay, as a stop
  Time silence = 10s;
};

// Another learner, until it fails.
class Mortal final : public Learner {
 public:
  explicit Mortal(std::unique_ptr<Learner> inner) : inner_(std::move(inner)) {}
  std::shared_ptr<const Layout> layout() const override { return inner_->layout(); }
  std::span<float> params() override { return inner_->params(); }
  std::span<float> grads() override { return inner_->grads(); }
  Result<StepResult> step(const Work& work) override {
    if (++steps_ > 9) return unavailable("killed");
    return inner_->step(work);
  }
  void state(Archive& ar) override { inner_->state(ar); }

 private:
  std::unique_ptr<Learner> inner_;
  int steps_ = 0;
};

net::PeersConfig peers_config(std::size_t size, Rank rank, Time silence) {
  net::PeersConfig config;
  config.job_hash = 7;
  config.process = 100 + rank;
  config.addresses.assign(size, {"127.0.0.1", 0});
  config.heartbeat = 50ms;
  config.silence = silence;
  return config;
}

Ended over_sockets(const JobSpec& spec, const Fate& fate = {}) {
  const Members members = members_of(spec);
  Ended ended;
  ended.errors.resize(members.size());
  std::mutex notes;
  std::vector<std::unique_ptr<Learner>> learners;
  std::vector<std::unique_ptr<net::EventLoop>> loops;
  std::vector<net::Address> addresses;
  Place place;
  place.members = std::make_shared<const Members>(members);
  place.seed = spec.seed;
  place.chunk_bytes = spec.chunk_bytes;
  for (place.self = 0; place.self < members.size(); ++place.self) {
    const bool worker = place.me().is(Role::worker);
    if (worker) learners.push_back(make_learner(spec, place.self));
    if (fate.lost == place.self)
      learners.back() = std::make_unique<Mortal>(std::move(learners.back()));
    place.layout = learners.front()->layout();
    loops.push_back(std::make_unique<net::EventLoop>(
        net::EventLoopConfig{peers_config(members.size(), place.self, fate.silence)}, place,
        worker ? learners.back().get() : nullptr, score_of,
        net::EventLoop::Observer{.on_note = [&](const std::string& note) {
          const std::lock_guard lock(notes);
          ended.notes.push_back(note);
        }}));
    const auto port = loops.back()->peers().listen();
    LH_CHECK(port);
    addresses.push_back({"127.0.0.1", *port});
  }
  std::vector<std::thread> threads;
  for (place.self = 0; place.self < members.size(); ++place.self) {
    loops[place.self]->peers().set_addresses(addresses);
    threads.emplace_back([&, place] {
      net::EventLoop& loop = *loops[place.self];
      Learner* learner = place.me().is(Role::worker) ? learners[place.self].get() : nullptr;
      Node node(place, make_strategy(spec, place), learner, loop);
      if (const Status done = loop.run(node); !done) ended.errors[place.self] = done.error().what;
      if (fate.lost == place.self && fate.closes) loops[place.self].reset();
    });
  }
  if (fate.disturb) {
    std::vector<net::EventLoop*> all;
    for (const auto& loop : loops) all.push_back(loop.get());
    fate.disturb(all);
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& learner : learners)
    ended.params.emplace_back(learner->params().begin(), learner->params().end());
  return ended;
}

void expect_equal_bits(const JobSpec& spec, const Ended& ended) {
  Job job(spec);
  ASSERT_TRUE(job.run());
  for (const std::string& error : ended.errors) EXPECT_EQ(error, "");
  for (Rank rank = 0; rank < ended.params.size(); ++rank)
    EXPECT_TRUE(ended.params[rank] == job.params(rank)) << "rank " << rank;
}

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

// mutant: longhaul/overlay/reduction.cpp
//   - add_scaled(sum_, weights[next_], part->second);
//   + add_scaled(sum_, weights[next_] * (1 + 1e-7 * double(waiting_.size())), part->second);
TEST_P(Sockets, GiveTheBitsOfTheSimulator) {
  for (const Combination& parts : combinations_with(GetParam())) {
    for (const std::uint32_t workers : {2u, 3u, 5u}) {
      SCOPED_TRACE(parts.name() + ", " + std::to_string(workers) + " workers");
      JobSpec spec;
      spec.parts = parts;
      spec.workers = workers;
      spec.rounds = 3;
      spec.equal_samples = false;
      expect_equal_bits(spec, over_sockets(spec));
    }
  }
}

// Connections are cut again and again, in the middle of frames; nobody is lost.
// mutant: longhaul/net/link.cpp
//   - outbox_.rewind();
//   + seen_ = 0;
TEST_P(Sockets, BrokenConnectionsChangeNoBit) {
  JobSpec spec;
  spec.parts = combinations_with(GetParam()).front();
  spec.workers = 3;
  spec.rounds = 60;
  const Ended ended = over_sockets(spec, {.disturb = [](auto loops) {
                                     for (int i = 0; i < 25; ++i) {
                                       std::this_thread::sleep_for(20ms);
                                       loops[std::size_t(i) % loops.size()]->break_connections();
                                     }
                                   }});
  expect_equal_bits(spec, ended);
}

// A node that is killed, or stopped, in the middle of a run: the others end in time, either with
// all rounds done and equal models, or with an error that names the site.
// mutant: longhaul/net/event_loop.cpp
//   - node_->unreachable(now(), peer, silent);
//   + node_->unreachable(now(), peer, false);
TEST_P(Sockets, ALostNodeEndsNobodyElseInAHang) {
  for (const Variant<SyncEntry>& sync : sync_variants()) {
    for (const bool closes : {true, false}) {
      JobSpec spec;
      spec.parts = plain(sync, GetParam());
      SCOPED_TRACE(spec.parts.name() + (closes ? ", killed" : ", stopped"));
      spec.size = 8 * 1024;
      spec.rounds = 8;
      const Ended ended = over_sockets(spec, {.lost = Rank{1}, .closes = closes, .silence = 500ms});
      EXPECT_NE(ended.errors[1].find("killed"), std::string::npos) << ended.errors[1];
      EXPECT_EQ(ended.errors[0].empty(), ended.errors[2].empty());
      for (const Rank rank : {0u, 2u}) {
        const std::string& error = ended.errors[rank];
        EXPECT_TRUE(error.empty() || error.find("site1") != std::string::npos) << error;
      }
      EXPECT_TRUE(!ended.errors[0].empty() || ended.params[0] == ended.params[2]);
      EXPECT_TRUE(std::any_of(ended.notes.begin(), ended.notes.end(), [](const auto& note) {
        return note.find("lost touch with rank 1 (site1)") != std::string::npos;
      }));
    }
  }
}

// Who is no node of the job is told so, or cut off; nobody else notices.
// mutant: longhaul/net/greeting.cpp
//   - if (!hello) return refuse(hello.error());
//   + if (!hello) return;
TEST(SocketsAbuse, StrangersAreTurnedAwayAndTrainingGoesOn) {
  JobSpec spec;
  spec.parts = plain(sync_variants().front(), overlay_variants().front());
  spec.rounds = 60;
  std::vector<std::string> answers;
  const Ended ended = over_sockets(
      spec, {.disturb = [&](auto loops) {
        const Members members = members_of(spec);
        net::Identity other{8, 1, 0, 5, &members}, twin{7, 0, 0, 5, &members},
            second{7, 1, 0, 5, &members};
        for (const net::Identity& one : {other, twin, second}) {
          net::Frame frame = net::hello_frame(one, 0, {}, {});
          const net::HeaderBytes header = net::seal(frame);
          answers.push_back(say(loops[0]->peers().port(), {header, frame.head.view()}));
        }
        net::HeaderBytes huge{};
        std::fill_n(huge.begin(), 8, std::byte{0xff});
        huge[14] = std::byte{4};
        answers.push_back(say(loops[0]->peers().port(), {huge, {}}));
        const std::string noise(1000, '\x5a');
        answers.push_back(say(loops[0]->peers().port(), {std::as_bytes(std::span(noise)), {}}));
      }});
  expect_equal_bits(spec, ended);
  const char* expected[] = {"runs another job", "start each site once", "another process of site",
                            "", ""};
  const char* noted[] = {"runs another job", "start each site once", "another process of site",
                         "4294967295", "unknown type"};
  ASSERT_EQ(answers.size(), std::size(expected));
  for (std::size_t i = 0; i < answers.size(); ++i) {
    EXPECT_NE(answers[i].find(expected[i]), std::string::npos) << i << ": " << answers[i];
    EXPECT_TRUE(std::any_of(ended.notes.begin(), ended.notes.end(), [&](const auto& note) {
      return note.find(noted[i]) != std::string::npos;
    })) << noted[i];
  }
}

INSTANTIATE_TEST_SUITE_P(Overlay, Sockets, ::testing::ValuesIn(overlay_variants()),
                         [](const auto& one) { return one.param.name(); });

}  // namespace
}  // namespace longhaul::conformance
