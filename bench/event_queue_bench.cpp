// Events a second of the simulator's queue at several depths, in the "hold" model: each event
// popped is followed by one pushed a random time later, as timers and deliveries do. The target is
// 1 million events a second.
#include <benchmark/benchmark.h>

#include "longhaul/base/rng.h"
#include "longhaul/sim/event_queue.h"
#include "longhaul/sim/fifo_network.h"

namespace {

using namespace longhaul;

struct Event {  // of the size of the World's
  std::uint8_t kind = 0;
  Rank rank = 0;
  std::uint32_t a = 0;
  std::uint64_t b = 0;
};

void hold(benchmark::State& state) {
  const auto depth = std::uint64_t(state.range(0));
  std::vector<Time> later(1 << 16);
  Random random(1, {});
  for (Time& time : later) time = Time{std::int64_t(random.below(1'000'000'000))};
  sim::EventQueue<Event> queue;
  for (std::uint64_t i = 0; i < depth; ++i) queue.push(later[i % later.size()], {.b = i});
  std::uint64_t i = 0;
  for (auto _ : state) {
    const auto entry = queue.pop();
    queue.push(entry.at + later[i++ % later.size()], entry.event);
    benchmark::DoNotOptimize(entry.event.b);
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(hold)->Arg(100)->Arg(10'000)->Arg(1'000'000);

// A message through the FIFO network: reserved on three servers, departed, arrived, delivered.
void message(benchmark::State& state) {
  const auto sites = std::uint32_t(state.range(0));
  sim::FifoConfig config;
  config.sites.resize(
      sites, {.up = flow::bytes_per_second(100), .down = flow::bytes_per_second(100), .lan = {}});
  for (std::uint32_t site = 0; site < sites; ++site) config.site_of.push_back(site);
  config.link.delay = std::chrono::milliseconds(20);
  sim::FifoNetwork network(config);
  Message bulk;
  bulk.body = Payload::phantom(256 * 1024);
  Time now{0};
  Rank from = 0;
  const auto submit = [&] {
    from = (from + 1) % sites;
    const Rank to = from == 0 ? 1 : 0;  // a hub and its workers
    network.submit({from, to, 262'208, {}, bulk}, now);
  };
  for (std::uint32_t i = 0; i < sites; ++i) submit();
  for (auto _ : state) {
    for (bool delivered = false; !delivered;) {
      now = *network.next_event();
      const auto notice = network.advance();
      delivered = notice && notice->kind == sim::NetworkEvent::Kind::delivered;
    }
    submit();
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(message)->Arg(8)->Arg(1'000);

}  // namespace

BENCHMARK_MAIN();
