// The agreed mean of every overlay, with the membership that decides who lives: nodes die before
// any event, two of them before any pair of events, and whoever is left agrees. Whole nodes in
// virtual time; vectors are as short as pieces allow, so that all moments can be tried.
//
// Links between two nodes, or one node and all others, are cut at any moment, one way or both, for
// less time than it takes to notice, for more, and for ever.
//
// A share of the moments here, all of them with LONGHAUL_ALL=1: the parts deaths of `make nightly`.
#include <cmath>
#include <cstdlib>

#include <gtest/gtest.h>

#include "longhaul/core/testing/quadratic.h"
#include "longhaul/flow/wan.h"
#include "tests/job_builder.h"

namespace longhaul::conformance {
namespace {

using namespace std::chrono_literals;
using sim::Fault;

constexpr std::uint64_t kValues = 5;
constexpr Round kMeans = 2;
constexpr Time kDetect = 1s;

bool tries_all() {
  static const bool all = std::getenv("LONGHAUL_ALL") != nullptr;
  return all;
}

std::unique_ptr<Overlay> overlay_by(const Variant<OverlayEntry>& variant, const Place& place) {
  auto wan = std::make_shared<flow::Wan>();
  for (const Member& member : *place.members)
    wan->sites.push_back({.name = member.site, .up = 1e6, .down = 1e6, .lan = {}});
  wan->usual = {.rate = 1e6, .delay_s = 0.01};
  return plain_overlay(variant.entry->name, variant.settings, place, wan);
}

// Gives 2^rank to a few means, one after the other, and ends. No steps, no model.
class Giver final : public Strategy {
 public:
  Giver(const Variant<OverlayEntry>& overlay, const Place& place)
      : overlay_(overlay_by(overlay, place)), values_(kValues, std::ldexp(1.f, int(place.self))) {
    own(*overlay_);
  }
  void on_progress(Turn& turn) override {
    while (outcomes.size() < kMeans && advance(turn)) {
    }
  }
  Round rounds_done() const override { return outcomes.size(); }
  std::string waiting_for() const override { return overlay_->waiting_for(); }
  void state(Archive& ar) override { ar(outcomes, begun_); }

  std::vector<Outcome> outcomes;

 private:
  bool advance(Turn& turn) {
    Turn below = within(*overlay_, turn);
    const VectorId id{.round = outcomes.size()};
    if (!begun_) {
      begun_ = true;
      const Status status = overlay_->begin(id, {}, {values_, kValues, 1}, below);
      if (!status) turn.fail(status.error());
      return bool(status);
    }
    auto outcome = overlay_->poll(id);
    if (!outcome) return false;
    begun_ = false;
    outcomes.push_back(*std::move(outcome));
    if (outcomes.size() < kMeans) return true;
    turn.finish();
    return false;
  }

  const std::unique_ptr<Overlay> overlay_;
  const std::vector<float> values_;
  bool begun_ = false;
};

struct DeathCase {
  const Variant<OverlayEntry>* overlay = nullptr;
  std::uint32_t workers = 3;
  std::vector<Fault> faults;
};

struct RunWithDeaths {
  // `moments`: of all its events.
  explicit RunWithDeaths(const DeathCase& like, std::vector<Time>* moments = nullptr) {
    sim::FifoConfig network;
    Members members;
    std::vector<sim::JitteredSteps::Speed> speeds(like.workers);
    for (Rank rank = 0; rank < like.workers; ++rank) {
      members.push_back({"site" + std::to_string(rank), 0, 0, std::uint8_t(Role::worker)});
      network.site_of.push_back(rank);
      // Unlike each other, so that not all that could happen at once does.
      network.sites.push_back({1e4 * (1 + rank), 2e4 * (1 + (rank * 3) % 5), 1e6, 0s});
    }
    network.link = {.rate = 1e6, .delay = 20ms};
    network.links[{0, 1}] = {.rate = 1e6, .delay = 50ms};
    sim::WorldConfig config = without_threads();
    config.detect = kDetect;
    world = std::make_unique<sim::World>(config, std::make_unique<sim::FifoNetwork>(network),
                                         std::make_unique<sim::JitteredSteps>(1, speeds));
    sim::Observer observer;
    observer.on_bad_message = [this](Time, Rank at, Rank from, const Error& error) {
      bad = "rank " + std::to_string(at) + " of " + std::to_string(from) + ": " + error.what;
    };
    world->observe(std::move(observer));
    Place place;
    place.members = std::make_shared<const Members>(std::move(members));
    place.seed = 1;
    place.chunk_bytes = 2 * sizeof(float);
    for (place.self = 0; place.self < like.workers; ++place.self) {
      learners.push_back(
          std::make_unique<testing::Quadratic>(kValues, testing::Quadratic::Config{}));
      place.layout = learners.back()->layout();
      auto giver = std::make_unique<Giver>(*like.overlay, place);
      givers.push_back(giver.get());
      world->add(place, std::move(giver), learners.back().get());
    }
    for (const Fault& fault : like.faults) world->inject(fault);
    while (moments) {
      const auto more = world->step();
      LH_CHECK(more);
      moments->push_back(world->now());
      if (!*more) break;
    }
    const auto ended = world->run();
    status = ended ? Status(Ok{}) : Status(ended.error());
  }

  std::unique_ptr<sim::World> world;
  std::vector<std::unique_ptr<testing::Quadratic>> learners;
  std::vector<Giver*> givers;
  std::string bad;
  Status status = Ok{};
};

// What is wrong with the run; empty: nothing. `dead`: who was killed, in this order.
std::string wrong_with(const RunWithDeaths& run, std::uint32_t workers, std::size_t dead) {
  if (!run.bad.empty()) return "a message was refused: " + run.bad;
  if (!run.status) {
    // Those that are left may be too few to agree on who lives; a majority of what was agreed last.
    const bool may_end = 2 * (workers - std::uint32_t(dead)) <= workers;
    if (run.status.error().kind == Error::Kind::unavailable && may_end) return "";
    return run.status.error().what;
  }
  std::optional<Rank> first;
  for (Rank rank = 0; rank < workers; ++rank) {
    if (run.world->figures(rank).crashed) continue;
    const std::vector<Outcome>& mine = run.givers[rank]->outcomes;
    if (mine.size() != kMeans) return "rank " + std::to_string(rank) + " has not all means";
    if (!first) first = rank;
    for (Round round = 0; round < kMeans; ++round) {
      const Outcome& one = mine[round];
      const Outcome& other = run.givers[*first]->outcomes[round];
      const std::string where =
          "round " + std::to_string(round) + ", rank " + std::to_string(rank) + ": ";
      if (one.values != other.values || one.counted != other.counted || one.weight != other.weight)
        return where + "another mean than rank " + std::to_string(*first) + " has";
      if (!std::binary_search(one.counted.begin(), one.counted.end(), rank))
        return where + "its own share is missing";
      double sum = 0;
      for (Rank counted : one.counted) sum += std::ldexp(1., int(counted));
      if (one.weight != double(one.counted.size())) return where + "a weight that is not the sum";
      for (float v : one.values)
        if (std::abs(double(v) * one.weight - sum) > 1e-4)
          return where + std::to_string(v) + " is not the mean of those counted";
    }
  }
  return first ? "" : "nobody is left, and nobody says so";
}

struct DeathCount {
  std::uint64_t runs = 0, wrong = 0;
};

void tell(const DeathCase& one, const RunWithDeaths& run, std::size_t dead, DeathCount& count) {
  ++count.runs;
  const std::string wrong = wrong_with(run, one.workers, dead);
  if (wrong.empty() || ++count.wrong > 3) return;
  std::string deaths;
  for (const Fault& f : one.faults)
    deaths +=
        " rank " + std::to_string(f.rank) +
        (f.at_event ? " dies at event " + std::to_string(*f.at_event)
                    : " cut off from " + std::to_string(f.peer) + (f.one_way ? " one way" : "") +
                          " at " + std::to_string(f.at.count()) + " ns until " +
                          std::to_string(f.until.count()) + " ns") +
        ";";
  ADD_FAILURE() << one.overlay->name() << ", " << one.workers << " workers," << deaths << " "
                << wrong;
}

Fault death(Rank rank, std::uint64_t event) { return crash(rank, event); }

// Every death of one, and of two with it; of each kind one in `stride`. What is tried at another
// stride is a part of what is tried at 1.
DeathCount enumerate(const Variant<OverlayEntry>& overlay, std::uint32_t workers,
                     std::uint64_t stride) {
  DeathCount count;
  std::uint64_t number = 0;
  const auto turn_of = [&] { return number++ % stride == 0; };
  DeathCase whole{.overlay = &overlay, .workers = workers, .faults = {}};
  const RunWithDeaths plain(whole);
  tell(whole, plain, 0, count);
  const std::uint64_t events = plain.world->counters().events;
  for (Rank a = 0; a < workers; ++a) {
    for (std::uint64_t i = 0; i < events; ++i) {
      // Its later deaths are skipped over by number, without a run.
      DeathCase one{.overlay = &overlay, .workers = workers, .faults = {death(a, i)}};
      std::optional<RunWithDeaths> run;
      if (turn_of()) tell(one, run.emplace(one), 1, count);
      const std::uint64_t about = run ? run->world->counters().events : events;
      for (Rank b = 0; b < workers && workers > 2; ++b) {
        for (std::uint64_t j = a < b ? i : i + 1; b != a && j < about; ++j) {
          if (!turn_of()) continue;
          DeathCase two{
              .overlay = &overlay, .workers = workers, .faults = {death(a, i), death(b, j)}};
          tell(two, RunWithDeaths(two), 2, count);
        }
      }
    }
  }
  return count;
}

// When something happens in the undisturbed run: a nanosecond before each event.
std::vector<Time> moments_of(const Variant<OverlayEntry>& overlay, std::uint32_t workers) {
  std::vector<Time> moments;
  const RunWithDeaths run({.overlay = &overlay, .workers = workers, .faults = {}}, &moments);
  moments.erase(std::unique(moments.begin(), moments.end()), moments.end());
  return moments;
}

// One that is cut off from all others for long has to end; of two that are cut off from each other
// the others go on with one. For less time than it takes to notice nothing is lost.
void try_cut(const DeathCase& like, Time at, Time until, Rank rank, std::optional<Rank> peer,
             bool one_way, DeathCount& count) {
  DeathCase one = like;
  for (Rank other = 0; other < like.workers; ++other) {
    if (other == rank || (peer && other != *peer)) continue;
    one.faults.push_back({.kind = Fault::Kind::cut,
                          .rank = rank,
                          .peer = other,
                          .one_way = one_way,
                          .at = at,
                          .until = until});
  }
  const bool noticed = until - at > kDetect;
  tell(one, RunWithDeaths(one), noticed ? 1 : 0, count);
}

DeathCount enumerate_cuts(const Variant<OverlayEntry>& overlay, std::uint32_t workers,
                          std::uint64_t stride) {
  DeathCount count;
  std::uint64_t number = 0;
  const DeathCase like{.overlay = &overlay, .workers = workers, .faults = {}};
  for (const Time moment : moments_of(overlay, workers)) {
    for (Rank rank = 0; rank < workers; ++rank) {
      for (Rank peer = 0; peer <= workers; ++peer) {  // `workers`: all others
        for (const Time lasts : {kDetect / 2, 3 * kDetect, sim::kForever}) {
          for (const bool one_way : {false, true}) {
            const bool twice =
                peer == rank || (!one_way && peer < rank) || (workers == 2 && peer == workers);
            if (twice || number++ % stride != 0) continue;
            try_cut(like, moment, lasts == sim::kForever ? lasts : moment + lasts, rank,
                    peer == workers ? std::nullopt : std::optional(peer), one_way, count);
          }
        }
      }
    }
  }
  return count;
}

void expect_no_wrong(const char* what, const Variant<OverlayEntry>& overlay, std::uint32_t workers,
                     const DeathCount& count) {
  EXPECT_EQ(count.wrong, 0u) << "of " << count.runs << " runs with " << workers << " workers";
  EXPECT_GE(count.runs, 3u);
  if (!tries_all()) return;
  std::printf("%s: %s, %u workers: %llu runs, %llu wrong\n", what, overlay.name().c_str(), workers,
              static_cast<unsigned long long>(count.runs),
              static_cast<unsigned long long>(count.wrong));
  std::fflush(stdout);
}

struct Deaths : ::testing::TestWithParam<std::tuple<Variant<OverlayEntry>, std::uint32_t>> {
  const Variant<OverlayEntry>& overlay() const { return std::get<0>(GetParam()); }
  std::uint32_t workers() const { return std::get<1>(GetParam()); }
};
// In the gate each overlay with one of the counts, by turns.
std::vector<std::tuple<Variant<OverlayEntry>, std::uint32_t>> tried() {
  std::vector<std::tuple<Variant<OverlayEntry>, std::uint32_t>> all;
  std::uint32_t turn = 0;
  for (const auto& overlay : tries_all() ? overlay_variants() : tried_overlays()) {
    ++turn;
    for (const std::uint32_t workers : {2u, 3u, 4u, 5u})
      if (!kGate || tries_all() || workers == 2 + turn % 4) all.emplace_back(overlay, workers);
  }
  return all;
}
INSTANTIATE_TEST_SUITE_P(Overlay, Deaths, ::testing::ValuesIn(tried()), [](const auto& info) {
  return std::get<0>(info.param).name() + "_" + std::to_string(std::get<1>(info.param));
});

// Strides that are primes, so that no moment is left out for its number.
TEST_P(Deaths, OfOneAndOfTwoLeaveOneMean) {
  const std::uint64_t usual[] = {7, 401, kGate ? 12007 : 4001, kGate ? 72019 : 24007};
  expect_no_wrong("deaths", overlay(), workers(),
                  enumerate(overlay(), workers(), tries_all() ? 1 : usual[workers() - 2]));
}

TEST_P(Deaths, OfLinksLeaveOneMean) {
  const std::uint64_t usual[] = {23, 211, 827, 2003};
  expect_no_wrong("cuts", overlay(), workers(),
                  enumerate_cuts(overlay(), workers(), tries_all() ? 1 : usual[workers() - 2]));
}

}  // namespace
}  // namespace longhaul::conformance
