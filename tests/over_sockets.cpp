#include "tests/over_sockets.h"

#include <atomic>
#include <thread>

#include "longhaul/secure/testing/keys.h"
#include "tests/job_checks.h"

namespace longhaul::conformance {
namespace {

using namespace std::chrono_literals;

// Another learner, with something before each of its steps, which are counted from 1.
class Watched final : public WrappedLearner {
 public:
  using Before = std::function<Status(int step)>;
  Watched(std::unique_ptr<Learner> inner, Before before)
      : WrappedLearner(std::move(inner)), before_(std::move(before)) {}
  Result<StepResult> step(const Work& work) override {
    LH_TRY(before_(++steps_));
    return inner_->step(work);
  }

 private:
  const Before before_;
  int steps_ = 0;
};

Status killed_after_nine(int step) {
  return step > 9 ? Status(unavailable("killed")) : Status(Ok{});
}

net::CheckpointConfig checkpoints_of(const Fate& fate, Rank rank, std::uint32_t members) {
  net::CheckpointConfig config;
  Disks* const disks = fate.disks;
  if (!disks) return config;
  config.every = fate.every;
  const auto& mine = disks->of.at(rank);
  config.newest = mine.empty() ? 0 : mine.rbegin()->first;
  config.members = mine.empty() ? 0 : disks->members;
  config.view.live = RankList::below(config.members);
  config.has_before = true;
  config.save = [disks, rank, members](std::uint64_t number, Buffer state) {
    return [disks, rank, members, number, state = std::move(state)]() -> Status {
      const std::lock_guard lock(disks->mutex);
      disks->members = members;
      auto& mine = disks->of[rank];
      mine[number] = state;
      while (mine.size() > 2) mine.erase(mine.begin());
      return Ok{};
    };
  };
  config.load = [disks, rank](std::uint64_t number) -> Result<Buffer> {
    const std::lock_guard lock(disks->mutex);
    auto& mine = disks->of[rank];
    mine.erase(mine.upper_bound(number), mine.end());
    if (number == 0) return Buffer{};
    if (!mine.contains(number)) return unavailable("no such checkpoint");
    return mine[number];
  };
  return config;
}

std::shared_ptr<secure::Credentials> credentials_of(const Members& members, Rank rank) {
  static const secure::KeyPair authority = secure::test_authority();
  std::vector<std::string> sites;
  for (const Member& member : members) sites.push_back(member.site);
  return secure::test_credentials(authority, members[rank].site, std::move(sites));
}

net::EventLoopConfig config_of(const Members& members, Rank rank, const Fate& fate) {
  net::EventLoopConfig config;
  config.peers.job_hash = 7;
  config.peers.process = 100 + rank;
  config.peers.addresses.assign(members.size(), {"127.0.0.1", 0});
  if (fate.tls) config.peers.credentials = credentials_of(members, rank);
  config.peers.streams = fate.streams;
  config.peers.heartbeat = 50ms;
  config.peers.silence_timeout = fate.silence;
  config.checkpoints = checkpoints_of(fate, rank, std::uint32_t(members.size()));
  return config;
}

// The nodes of a run, each with what it lives on.
struct Run {
  Run(const JobSpec& job, const Fate& what) : spec(job), fate(what), members(members_of(job)) {
    ended.errors.resize(members.size());
    rounds = std::vector<std::function<Round()>>(members.size());
    place.seed = spec.seed;
    place.chunk_bytes = spec.chunk_bytes;
    for (Rank rank = 0; rank < members.size(); ++rank) add(rank);
  }

  void add(Rank rank) {
    place.self = rank;
    place.members = std::make_shared<const Members>(members);  // of its thread alone
    const bool worker = place.me().is(Role::worker);
    if (worker) learners.push_back(make_learner(spec, rank));
    if (fate.lost == rank) watch(killed_after_nine);
    if (fate.step > Time{0} && rank == 0)
      watch([this](int) {
        std::this_thread::sleep_for(fate.step);
        return Ok{};
      });
    if (fate.disturb_in_step.first > 0 && rank == 0)
      watch([this](int step) {
        if (fate.disturb_in_step.has(step)) disturb();
        return Ok{};
      });
    place.layout = learners.front()->layout();
    loops.push_back(std::make_unique<net::EventLoop>(paced(config_of(members, rank, fate)), place,
                                                     worker ? learners.back().get() : nullptr,
                                                     score_of, observer(rank)));
    places.push_back(place);
    const auto port = loops.back()->peers().listen();
    LH_CHECK(port);
    addresses.push_back({"127.0.0.1", *port});
  }

  net::EventLoopConfig paced(net::EventLoopConfig config) {
    if (fate.pace > Time{0})
      config.step_time = [this](std::uint64_t, Time, const Work& work) {
        if (std::holds_alternative<ApplyGradient>(work)) return Time{0};
        return slow ? Time(100ms) : fate.pace;
      };
    return config;
  }

  net::EventLoop::Observer observer(Rank rank) {
    net::EventLoop::Observer observer;
    observer.on_note = [this](const std::string& note) {
      const std::lock_guard lock(notes);
      ended.notes.push_back(note);
      if (note.find(fate.slow_until) != std::string::npos) slow = false;
    };
    if (fate.stop_after > 0) observer.stop = [this, rank] { return stops(rank); };
    return observer;
  }

  // With a server rounds are the server's: where it is stopped, all are.
  bool stops(Rank rank) {
    const bool here = rounds[rank] && rounds[rank]() >= fate.stop_after;
    if (here && spec.parts.sync.entry->traits.served) stopped = true;
    return here || stopped;
  }

  void watch(Watched::Before before) {
    learners.back() = std::make_unique<Watched>(std::move(learners.back()), std::move(before));
  }

  void disturb() {
    std::vector<net::EventLoop*> all;
    for (const auto& loop : loops) all.push_back(loop.get());
    fate.disturb(all);
  }

  void live(Place own) {
    const Rank rank = own.self;
    net::EventLoop& loop = *loops[rank];
    Learner* learner = own.me().is(Role::worker) ? learners[rank].get() : nullptr;
    Node node(own, make_strategy(spec, own), learner, loop);
    rounds[rank] = [&node] { return node.strategy().rounds_done(); };
    if (const Status done = loop.run(node); !done) ended.errors[rank] = done.error().what;
    rounds[rank] = nullptr;
    const bool returns = (fate.lost == rank && fate.returns) || loop.left_out();
    if (fate.lost == rank && fate.closes) loops[rank].reset();
    if (returns && !own.comes_back()) live_again(std::move(own));
  }

  // Another process of the site, with nothing of what the one before had.
  void live_again(Place own) {
    const Rank rank = own.self;
    Members mine = members;
    mine[rank].incarnation = 1;
    own.members = std::make_shared<const Members>(std::move(mine));
    learners[rank] = make_learner(spec, rank);
    net::EventLoopConfig config = paced(config_of(members, rank, fate));
    config.peers.process += 1000;
    config.peers.max_retry = 100ms;  // before the run is over
    config.peers.addresses = addresses;
    loops[rank] = std::make_unique<net::EventLoop>(std::move(config), own, learners[rank].get(),
                                                   score_of, observer(rank));
    ended.errors[rank].clear();
    live(std::move(own));
  }

  Ended end() {
    std::vector<std::thread> threads;
    for (Rank rank = 0; rank < members.size(); ++rank) {
      loops[rank]->peers().set_addresses(addresses);
      threads.emplace_back([this, own = std::move(places[rank])] { live(own); });
    }
    if (fate.disturb && fate.disturb_in_step.first == 0) disturb();
    for (std::thread& thread : threads) thread.join();
    for (const auto& loop : loops)
      ended.counters.push_back(loop ? loop->counters() : net::EventLoop::Counters{});
    for (const auto& learner : learners)
      ended.params.emplace_back(learner->params().begin(), learner->params().end());
    return std::move(ended);
  }

  const JobSpec& spec;
  const Fate& fate;
  const Members members;
  Place place;                // of the node that is being added
  std::vector<Place> places;  // of those that have not begun to live
  Ended ended;
  std::atomic<bool> stopped = false;
  std::atomic<bool> slow = !fate.slow_until.empty();
  std::mutex notes;
  std::vector<std::function<Round()>> rounds;  // of each node, on its own thread
  std::vector<std::unique_ptr<Learner>> learners;
  std::vector<std::unique_ptr<net::EventLoop>> loops;
  std::vector<net::Address> addresses;
};

}  // namespace

Ended over_sockets(const JobSpec& spec, const Fate& fate) {
  if (fate.disks) fate.disks->of.resize(members_of(spec).size());
  return Run(spec, fate).end();
}

void expect_equal_bits(const JobSpec& spec, const Ended& ended) {
  Job job(spec);
  ASSERT_TRUE(job.run());
  for (const std::string& error : ended.errors) EXPECT_EQ(error, "");
  const Combination& parts = spec.parts;
  // Who did how much depends on time, too, or what of it counted.
  const bool by_time = traits_of(parts.sync).bits == Bits::schedule ||
                       parts.transfer.entry->traits.bits == Bits::schedule;
  const bool by_schedule = by_time || conformance::by_schedule(parts.overlay);
  const bool plain = parts.codec.entry->traits.lossless && parts.outer.entry->name == "none";
  for (Rank rank = 0; rank < ended.params.size(); ++rank) {
    // A schedule depends on the time: all follow one, which is another one in each run.
    const std::vector<float> simulated = job.params(rank);
    const std::vector<float>& right = by_schedule ? ended.params[0] : simulated;
    EXPECT_TRUE(ended.params[rank] == right) << "rank " << rank;
    for (std::size_t i = 0; by_schedule && !by_time && plain && i < right.size(); ++i)
      ASSERT_NEAR(right[i], simulated[i], 1e-3) << i;
  }
}

}  // namespace longhaul::conformance
