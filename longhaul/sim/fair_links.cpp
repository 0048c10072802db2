// Which links there are, who passes them, and what traces make of them.
#include "longhaul/sim/fair_network.h"

namespace longhaul::sim {

using What = flow::Traced::What;

void FairNetwork::check_config() const {
  const flow::Wan& wan = config_.wan;
  const auto check_rate = [](const flow::Rate& rate) { LH_CHECK(!rate || *rate > 0); };
  const auto check_pair = [&](const flow::Wan::Pair& pair) {
    check_rate(pair.rate);
    LH_CHECK(pair.delay_s >= 0 && pair.jitter_s >= 0 && pair.loss >= 0 && pair.loss < 1);
    LH_CHECK(pair.loss_burst == 0 || pair.loss_burst >= 1);
  };
  const auto known = [&](std::uint32_t site) { return site < wan.sites.size(); };
  for (const auto& site : wan.sites)
    for (const flow::Rate& rate : {site.up, site.down, site.lan}) check_rate(rate);
  check_pair(wan.usual);
  for (const auto& [sites, pair] : wan.pairs) {
    LH_CHECK(known(sites.first) && known(sites.second));
    check_pair(pair);
  }
  for (const auto& shared : wan.shared) {
    LH_CHECK(shared.rate > 0);
    for (const auto& [from, to] : shared.pairs) LH_CHECK(known(from) && known(to));
  }
  for (const flow::Traced& traced : wan.traces) {
    LH_CHECK(bool(traced.trace.check()));
    LH_CHECK(traced.what == What::shared ? traced.a < wan.shared.size()
                                         : known(traced.a) && known(traced.b));
  }
  for (const std::uint32_t site : config_.site_of) LH_CHECK(known(site));
}

std::uint32_t FairNetwork::add_link(const flow::Rate& rate, bool traced) {
  return rate || traced ? rates_.add_link(rate.value_or(0)) : kNone;
}

void FairNetwork::add_links() {
  const flow::Wan& wan = config_.wan;
  for (const flow::Traced& t : wan.traces) traced_.insert({t.what, {t.a, t.b}});
  for (std::uint32_t i = 0; i < wan.sites.size(); ++i) {
    sites_.push_back({.out = add_link(wan.sites[i].up, traced(What::up, i)),
                      .in = add_link(wan.sites[i].down, traced(What::down, i))});
  }
  for (const std::uint32_t site : config_.site_of) {
    const flow::Rate& rate = wan.sites[site].lan;
    nodes_.push_back({.out = add_link(rate, false), .in = add_link(rate, false)});
  }
  for (const auto& shared : wan.shared) {
    shared_.push_back(add_link(shared.rate, false));
    for (const flow::SitePair& pair : shared.pairs) crossed_[pair].push_back(shared_.back());
  }
  for (const flow::Traced& t : wan.traces)  // so that a change of one finds its way
    if (t.what == What::rate || t.what == What::delay || t.what == What::loss) pair(t.a, t.b);
}

std::uint32_t FairNetwork::pair(std::uint32_t from, std::uint32_t to) {
  const auto [index, is_new] = pair_index_.try_emplace({from, to}, std::uint32_t(pairs_.size()));
  if (is_new) {
    const flow::Wan::Pair& pair = config_.wan.pair(from, to);
    pairs_.push_back({.from = from,
                      .to = to,
                      .link = add_link(pair.rate, traced(What::rate, from, to)),
                      .delay_s = pair.delay_s,
                      .back_s = back_s(from, to),
                      .jitter_s = pair.jitter_s,
                      .loss = pair.loss,
                      .loss_burst = pair.loss_burst});
  }
  return index->second;
}

std::vector<std::uint32_t> FairNetwork::path(const Connection& c) const {
  std::vector<std::uint32_t> links;
  const auto pass = [&](std::uint32_t link) {
    if (link != kNone) links.push_back(link);
  };
  if (c.pair == kNone) {
    pass(nodes_[c.from].out);
    pass(nodes_[c.to].in);
    return links;
  }
  const DirectedPair& pair = pairs_[c.pair];
  pass(sites_[pair.from].out);
  pass(pair.link);
  if (const auto crossed = crossed_.find({pair.from, pair.to}); crossed != crossed_.end())
    for (const std::uint32_t link : crossed->second) pass(link);
  pass(sites_[pair.to].in);
  return links;
}

std::uint32_t FairNetwork::connection(Rank from, Rank to, const Service& service, Time now) {
  const auto [index, is_new] =
      connection_index_.try_emplace(key_of(from, to, service), std::uint32_t(connections_.size()));
  if (!is_new) return index->second;
  Connection c{.from = from, .to = to, .service = service};
  const std::uint32_t there = config_.site_of[from], here = config_.site_of[to];
  if (there != here) {
    c.pair = pair(there, here);
    pairs_[c.pair].connections.push_back(index->second);
  }
  c.is_multicast = c.reliable() && config_.multicast_priority == service.priority;
  if (c.is_multicast) multicast_[from].push_back(index->second);
  reset_connection(c, now);
  rates_.add_flow(path(c), service.priority, weight(c));
  connections_.push_back(std::move(c));
  add_to_ports(connections_.back(), index->second);
  if (drop_tail()) estimates_.back().grows_since = now;
  wake_ups_.add(WakeUpQueue::kNever);
  limit(index->second);
  return index->second;
}

double FairNetwork::back_s(std::uint32_t from, std::uint32_t to) const {
  const auto back = pair_index_.find({to, from});
  return back == pair_index_.end() ? config_.wan.pair(to, from).delay_s
                                   : pairs_[back->second].delay_s;
}

double FairNetwork::rtt_s(const Connection& c) const {
  if (c.pair == kNone) return 2 * config_.wan.sites[config_.site_of[c.from]].lan_delay_s;
  return pairs_[c.pair].delay_s + pairs_[c.pair].back_s;
}

flow::Loss FairNetwork::loss(const Connection& c) const {
  if (c.pair == kNone) return {};
  return {pairs_[c.pair].loss, pairs_[c.pair].loss_burst};
}

void FairNetwork::follow(std::uint32_t trace, Time now) {
  const flow::Traced& traced = config_.wan.traces[trace];
  segments_[trace] = next_segment(traced.trace, config_.seed, trace, segments_[trace]);
  trace_wake_ups_.set(trace, segments_[trace].until);
  set(traced, segments_[trace].value);
  forget_waits(now);
  if (traced.what == What::delay || traced.what == What::loss) {
    tell_connections(traced.a, traced.b, now);
    tell_connections(traced.b, traced.a, now);
  }
  mark(now);
}

void FairNetwork::set(const flow::Traced& t, double value) {
  constexpr double kMaxLoss = 0.999;
  switch (t.what) {
    case What::up:
      rates_.set_capacity(sites_[t.a].out, value);
      break;
    case What::down:
      rates_.set_capacity(sites_[t.a].in, value);
      break;
    case What::shared:
      rates_.set_capacity(shared_[t.a], value);
      break;
    case What::rate:
      rates_.set_capacity(pairs_[pair(t.a, t.b)].link, value);
      break;
    case What::delay:
      pairs_[pair(t.a, t.b)].delay_s = value;
      if (const auto back = pair_index_.find({t.b, t.a}); back != pair_index_.end())
        pairs_[back->second].back_s = value;
      break;
    case What::loss:
      pairs_[pair(t.a, t.b)].loss = std::min(value, kMaxLoss);
      break;
  }
}

// Their delay or loss has changed.
void FairNetwork::tell_connections(std::uint32_t from, std::uint32_t to, Time now) {
  const auto pair = pair_index_.find({from, to});
  if (pair == pair_index_.end()) return;
  for (const std::uint32_t index : pairs_[pair->second].connections) {
    Connection& c = connections_[index];
    form_windows(c, now);
    if (c.probe_rtt_at == WakeUpQueue::kNever) schedule_probe_rtt(c, now);
    if (estimates(c) && estimates_[index].next <= now) estimate(c, index, now);
    limit(index);
    wake_ups_.set(index, wake_of(c));
  }
}

void FairNetwork::note_busy(const Connection& c, int flow, Time now) {
  if (c.pair == kNone || !c.has_tcp()) return;
  DirectedPair& pair = pairs_[c.pair];
  pair.busy.add(flow, now);
  sites_[pair.from].sends.add(flow, now);
  sites_[pair.to].gets.add(flow, now);
}

// What acknowledgements of the other way's packets take of the link that is the narrowest on this
// way, if both are busy; as if the other way were full, too.
double FairNetwork::acks(const Connection& c, Time now) const {
  if (c.pair == kNone || c.is_multicast) return 0;
  const DirectedPair& pair = pairs_[c.pair];
  const auto rate = [&](std::uint32_t link) {
    return link == kNone ? flow::kUnlimited : rates_.capacity(link);
  };
  const double up = rate(sites_[pair.from].out), down = rate(sites_[pair.to].in);
  const double between = rate(pair.link);
  const auto back_busy = [&] {
    const auto back = pair_index_.find({pair.to, pair.from});
    return back != pair_index_.end() && pairs_[back->second].busy.until(now);
  };
  const bool both = between < std::min(up, down) ? back_busy()
                    : up <= down                 ? sites_[pair.from].gets.until(now)
                                                 : sites_[pair.to].sends.until(now);
  return both ? flow::ack_share(config_.tcp) : 0;
}

double FairNetwork::rate(Rank from, Rank to, Service service) const {
  const auto index = connection_index_.find(key_of(from, to, service));
  return index == connection_index_.end() ? 0 : rates_.rate(flow_of(index->second));
}

}  // namespace longhaul::sim
