// Completion times of random flow sets on random platforms, here and by SimGrid (CM02: fluid flows
// with max-min fair shares, no cross-traffic, no TCP-gamma). docs/results/fidelity.md.
//
//   simgrid_compare [SETS] [spread]
//
// All routes have one delay, since CM02 gives a flow a share in inverse proportion to its delay,
// which is another rule; `spread` gives them delays of 5 to 100 ms to show what that rule does.
#include <simgrid/s4u.hpp>

#include <cmath>
#include <cstdio>
#include <map>
#include <string>

#include "bench/bench.h"
#include "longhaul/base/rng.h"
#include "longhaul/sim/fair_network.h"

namespace {

using namespace longhaul;
namespace sg = simgrid::s4u;

struct Flow {
  std::uint32_t from = 0, to = 0;
  std::uint64_t bytes = 0;
  double start_s = 0;
  double ours = 0, theirs = 0;  // when it is complete
};

struct Set {
  flow::Wan wan;
  std::vector<Flow> flows;
};

// 4 to 20 sites with up- and downlinks, half of the pairs with links of their own, up to 3 shared
// links; 2 to 60 flows of 10 to 500 MB that begin within 10 s.
Set random_set(std::uint64_t number, bool spread) {
  Random random(number, {});
  const auto rate = [&] { return 1.25e6 * std::exp(random.uniform() * std::log(100)); };
  Set set;
  const auto sites = std::uint32_t(4 + random.below(17));
  for (std::uint32_t i = 0; i < sites; ++i)
    set.wan.sites.push_back(
        {.name = "s" + std::to_string(i), .up = rate(), .down = rate(), .lan = {}});
  std::vector<flow::SitePair> pairs;
  for (std::uint32_t a = 0; a < sites; ++a)
    for (std::uint32_t b = 0; b < sites; ++b) {
      if (a == b) continue;
      pairs.emplace_back(a, b);
      flow::Wan::Pair& pair = set.wan.pairs[{a, b}];
      if (random.below(2) == 0) pair.rate = rate();
      pair.delay_s = spread ? 0.005 + 0.095 * random.uniform() : 0.02;
    }
  for (std::uint64_t i = random.below(4); i > 0; --i) {
    flow::Wan::Shared& shared = set.wan.shared.emplace_back();
    shared.rate = rate();
    for (const flow::SitePair& pair : pairs)
      if (random.below(4) == 0) shared.pairs.push_back(pair);
  }
  random.shuffle(std::span(pairs));
  pairs.resize(std::min<std::size_t>(pairs.size(), 2 + random.below(59)));
  for (const auto& [from, to] : pairs)
    set.flows.push_back({from, to, 10'000'000 + random.below(490'000'000), 10 * random.uniform()});
  return set;
}

void run_ours(Set& set) {
  sim::FairConfig config;
  config.wan = set.wan;
  config.tcp.first_window = 0;
  config.tcp.mtu = 0;
  std::map<Time, std::size_t> starts;
  std::map<std::pair<Rank, Rank>, std::size_t> which;
  for (std::uint32_t i = 0; i < set.wan.sites.size(); ++i) config.site_of.push_back(i);
  for (std::size_t i = 0; i < set.flows.size(); ++i) {
    starts[from_seconds(set.flows[i].start_s)] = i;
    which[{set.flows[i].from, set.flows[i].to}] = i;
  }
  sim::FairNetwork net(config);
  while (!starts.empty() || net.next_event()) {
    if (const auto at = net.next_event(); at && (starts.empty() || *at <= starts.begin()->first)) {
      const auto notice = net.advance();
      if (notice && notice->kind == sim::NetworkEvent::Kind::delivered)
        set.flows[which.at({notice->packet.from, notice->packet.to})].ours = seconds(*at);
      continue;
    }
    const auto [at, i] = *starts.begin();
    starts.erase(starts.begin());
    const Flow& flow = set.flows[i];
    sim::Packet packet{
        .from = flow.from, .to = flow.to, .bytes = flow.bytes, .service = {}, .message = {}};
    packet.message.body = Payload::phantom(flow.bytes);
    net.submit(std::move(packet), at);
  }
}

// All sets are parts of one platform that share nothing, side by side.
void build_theirs(sg::NetZone& zone, Set& set, const std::string& prefix) {
  const flow::Wan& wan = set.wan;
  std::vector<sg::Link*> up, down;
  std::vector<sg::Host*> hosts;
  const auto link = [&](const std::string& name, double rate, double delay_s) {
    return zone.create_link(prefix + name, rate)->set_latency(delay_s)->seal();
  };
  for (const auto& site : wan.sites) {
    hosts.push_back(zone.create_host(prefix + site.name, 1e9));
    up.push_back(link(site.name + "-up", *site.up, 0));
    down.push_back(link(site.name + "-down", *site.down, 0));
  }
  std::map<flow::SitePair, std::vector<sg::Link*>> crossed;
  for (std::size_t i = 0; i < wan.shared.size(); ++i) {
    sg::Link* shared = link("shared" + std::to_string(i), wan.shared[i].rate, 0);
    for (const flow::SitePair& pair : wan.shared[i].pairs) crossed[pair].push_back(shared);
  }
  for (Flow& flow : set.flows) {
    const flow::Wan::Pair& pair = wan.pair(flow.from, flow.to);
    const std::string name = std::to_string(flow.from) + "-" + std::to_string(flow.to);
    std::vector<sg::LinkInRoute> route = {
        sg::LinkInRoute(up[flow.from]),
        sg::LinkInRoute(link(name, pair.rate.value_or(1e12), pair.delay_s)),
        sg::LinkInRoute(down[flow.to])};
    for (sg::Link* shared : crossed[{flow.from, flow.to}]) route.push_back(sg::LinkInRoute(shared));
    zone.add_route(hosts[flow.from]->get_netpoint(), hosts[flow.to]->get_netpoint(), nullptr,
                   nullptr, route, false);
    sg::Mailbox* box = sg::Mailbox::by_name(prefix + name);
    sg::Actor::create("send", hosts[flow.from], [box, &flow] {
      sg::this_actor::sleep_until(flow.start_s);
      box->put(&flow, flow.bytes);
    });
    sg::Actor::create("receive", hosts[flow.to], [box, &flow] {
      box->get<Flow>();
      flow.theirs = sg::Engine::get_clock();
    });
  }
}

}  // namespace

int main(int argc, char** argv) {
  sg::Engine engine(&argc, argv);
  for (const char* setting :
       {"network/model:CM02", "network/crosstraffic:0", "network/TCP-gamma:0", "network/weight-S:0",
        "network/latency-factor:1", "network/bandwidth-factor:1", "network/loopback-lat:0",
        "contexts/stack-size:64", "surf/precision:1e-9", "maxmin/precision:1e-9"})
    sg::Engine::set_config(std::string(setting));
  const std::size_t count = argc > 1 ? std::stoul(argv[1]) : 200;
  const bool spread = argc > 2 && std::string(argv[2]) == "spread";
  std::vector<Set> sets;
  for (std::size_t i = 0; i < count; ++i) sets.push_back(random_set(i, spread));
  sg::NetZone* zone = sg::create_full_zone("all");
  for (std::size_t i = 0; i < count; ++i) build_theirs(*zone, sets[i], std::to_string(i) + ":");
  zone->seal();
  engine.run();
  const double real_s = bench::seconds_of([&] {
    for (Set& set : sets) run_ours(set);
  });
  std::vector<double> differences, worst_of_set;
  for (std::size_t i = 0; i < count; ++i) {
    double worst = 0;
    for (const Flow& flow : sets[i].flows) {
      const double theirs = flow.theirs - flow.start_s;
      differences.push_back(std::abs(flow.ours - flow.start_s - theirs) / theirs);
      worst = std::max(worst, differences.back());
    }
    worst_of_set.push_back(worst);
  }
  std::printf(
      "%zu sets, %zu flows (%.2f s here); difference of completion times to SimGrid's:\n"
      "  of flows: median %.2e, 99th percentile %.2e, worst %.2e\n"
      "  worst of each set: median %.2e\n",
      count, differences.size(), real_s, bench::median(differences),
      bench::quantile(differences, 0.99), bench::quantile(differences, 1),
      bench::median(worst_of_set));
}
