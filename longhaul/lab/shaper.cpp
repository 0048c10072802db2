#include "longhaul/lab/shaper.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace longhaul::lab {
namespace {

Time to_time(double s) { return Time(std::llround(s * 1e9)); }

void check_pair(const flow::Wan::Pair& pair) {
  LH_CHECK(!pair.rate || *pair.rate > 0);
  LH_CHECK(pair.delay_s >= 0 && pair.jitter_s >= 0 && pair.loss >= 0 && pair.loss <= 1);
}

}  // namespace

Shaper::Shaper(flow::Wan wan, std::uint64_t seed, std::vector<Change> changes)
    : wan_(std::move(wan)), seed_(seed), changes_(std::move(changes)), walk_(wan_.traces, seed) {
  const std::size_t sites = wan_.sites.size();
  for (const flow::Wan::Site& site : wan_.sites) {
    up_.push_back(add_link(site.up));
    down_.push_back(add_link(site.down));
  }
  check_pair(wan_.usual);
  for (const auto& [ends, pair] : wan_.pairs) {
    LH_CHECK(ends.first < sites && ends.second < sites);
    check_pair(pair);
  }
  for (const flow::Wan::Shared& shared : wan_.shared) shared_.push_back(add_link(shared.rate));
  ways_.resize(sites * sites);
  while (walk_.next() == Time{0}) follow(walk_.take());
  await_trace();
  for (std::uint32_t i = 0; i < changes_.size(); ++i)
    events_.push(changes_[i].at, {Event::Kind::changes, i, 0});
}

std::uint32_t Shaper::add_link(const flow::Rate& rate) {
  links_.push_back({Server(rate)});
  return std::uint32_t(links_.size() - 1);
}

Shaper::Way& Shaper::way(std::uint32_t from, std::uint32_t to) {
  LH_CHECK(from != to && from < wan_.sites.size() && to < wan_.sites.size());
  std::unique_ptr<Way>& way = ways_[from * wan_.sites.size() + to];
  if (way) return *way;
  const flow::Wan::Pair& pair = wan_.pair(from, to);
  way.reset(new Way{{},
                    pair,
                    pair.delay_s + wan_.pair(to, from).delay_s,
                    Drift(pair.jitter_s, seed_, from, to),
                    Random(seed_, {Purpose::fault, 0, from, to})});
  way->links = {up_[from], add_link(wan_.capacity(from, to))};
  for (std::size_t i = 0; i < shared_.size(); ++i) {
    const auto& pairs = wan_.shared[i].pairs;
    if (std::find(pairs.begin(), pairs.end(), flow::SitePair(from, to)) != pairs.end())
      way->links.push_back(shared_[i]);
  }
  way->links.push_back(down_[to]);
  return *way;
}

std::optional<Verdict> Shaper::offer(const Packet& packet, Time now) {
  std::uint32_t slot = std::uint32_t(flights_.size());
  if (free_.empty()) {
    flights_.emplace_back();
  } else {
    slot = free_.back();
    free_.pop_back();
  }
  flights_[slot] = {packet};
  return forward(slot, now);
}

// On from where it is, through all links that are free and unlimited, to the next that takes time.
std::optional<Verdict> Shaper::forward(std::uint32_t slot, Time now) {
  Flight& flight = flights_[slot];
  Way& way = this->way(flight.packet.from, flight.packet.to);
  while (flight.stage < way.links.size()) {
    if (flight.stage + 1 == way.links.size() && !flight.flown) return fly(slot, way, now);
    const std::uint32_t link = way.links[flight.stage++];
    const Server& server = links_[link].server;
    if (!server.rate() && server.empty()) continue;
    if (!queue(link, slot, way, now)) return end(slot, Fate::queue_full, now);
    return std::nullopt;
  }
  events_.push(now, {Event::Kind::delivered, slot, 0});
  return std::nullopt;
}

std::optional<Verdict> Shaper::fly(std::uint32_t slot, Way& way, Time now) {
  if (way.cut) return end(slot, Fate::cut, now);
  if (way.pair.loss > 0 && way.luck.uniform() < way.pair.loss) return end(slot, Fate::lost, now);
  flights_[slot].flown = true;
  const Time delay = to_time(std::max(0.0, way.pair.delay_s + way.drift.at(now)));
  way.last_arrival = std::max(way.last_arrival, now + delay);  // nobody overtakes
  events_.push(way.last_arrival, {Event::Kind::arrives, slot, 0});
  return std::nullopt;
}

bool Shaper::queue(std::uint32_t link, std::uint32_t slot, const Way& way, Time now) {
  const Packet& packet = flights_[slot].packet;
  Server& server = links_[link].server;
  const double trips = server.rate() ? kTrips * *server.rate() * way.round_trip : 0;
  const std::uint64_t limit = std::max(kFloor, std::uint64_t(trips));
  if (!server.push(packet.service_class, flow_of(packet), {slot, packet.bytes}, limit))
    return false;
  if (!server.busy()) serve(link, now);
  return true;
}

void Shaper::serve(std::uint32_t link, Time now) {
  if (const auto through = links_[link].server.start(now))
    events_.push(*through, {Event::Kind::through, link, ++links_[link].turn});
}

Verdict Shaper::end(std::uint32_t slot, Fate fate, Time now) {
  free_.push_back(slot);
  return {fate, now, flights_[slot].packet};
}

std::optional<Time> Shaper::next_event() const {
  if (events_.empty()) return std::nullopt;
  return events_.top().at;
}

std::optional<Verdict> Shaper::advance(Time now) {
  while (!events_.empty() && events_.top().at <= now) {
    const auto [at, sequence, event] = events_.pop();
    std::optional<Verdict> verdict;
    switch (event.kind) {
      case Event::Kind::through: {
        if (links_[event.what].turn != event.turn) break;  // the rate has changed meanwhile
        const std::uint32_t slot = links_[event.what].server.finish().slot;
        serve(event.what, at);
        verdict = forward(slot, at);
        break;
      }
      case Event::Kind::arrives:
        verdict = forward(event.what, at);
        break;
      case Event::Kind::delivered:
        verdict = end(event.what, Fate::delivered, at);
        break;
      case Event::Kind::changes:
        change(changes_[event.what], at);
        break;
      case Event::Kind::traced:
        follow(walk_.take());
        await_trace();
        break;
    }
    if (verdict) return verdict;
  }
  return std::nullopt;
}

void Shaper::set_rate(std::uint32_t link, const flow::Rate& rate, Time now) {
  if (const auto through = links_[link].server.set_rate(rate, now))
    events_.push(*through, {Event::Kind::through, link, ++links_[link].turn});
}

void Shaper::await_trace() {
  if (const auto at = walk_.next()) events_.push(*at, {Event::Kind::traced, 0, 0});
}

void Shaper::follow(const flow::TraceWalk::Step& step) {
  using Traced = flow::Traced::What;
  using What = Change::What;
  const flow::Traced& traced = wan_.traces[step.trace];
  Change change{
      .from = traced.a, .to = traced.b, .rate = std::max(step.value, kStands), .value = step.value};
  switch (traced.what) {
    case Traced::up:
      change.what = What::up;
      break;
    case Traced::down:
      change.what = What::down;
      change.to = traced.a;
      break;
    case Traced::rate:
      change.what = What::pair;
      break;
    case Traced::shared:
      change.what = What::shared;
      break;
    case Traced::delay:
      change.what = What::delay;
      break;
    case Traced::loss:
      change.what = What::loss;
      break;
  }
  this->change(change, step.at);
}

void Shaper::change(const Change& change, Time now) {
  using What = Change::What;
  switch (change.what) {
    case What::up:
      return set_rate(up_.at(change.from), change.rate, now);
    case What::down:
      return set_rate(down_.at(change.to), change.rate, now);
    case What::shared:
      return set_rate(shared_.at(change.from), change.rate, now);
    case What::pair: {
      Way& there = way(change.from, change.to);
      const flow::SitePair ends{change.from, change.to};
      wan_.pairs.try_emplace(ends, there.pair).first->second.rate = change.rate;
      // Connections stay within their windows, whatever the pair has room for.
      return set_rate(there.links[1], wan_.capacity(change.from, change.to), now);
    }
    case What::delay: {
      LH_CHECK(change.value >= 0);
      Way &there = way(change.from, change.to), &back = way(change.to, change.from);
      there.pair.delay_s = change.value;
      there.round_trip = back.round_trip = there.pair.delay_s + back.pair.delay_s;
      return;
    }
    case What::loss:
      LH_CHECK(change.value >= 0 && change.value <= 1);
      way(change.from, change.to).pair.loss = change.value;
      return;
    case What::cut:
    case What::healed:
      way(change.from, change.to).cut = change.what == What::cut;
      return;
  }
}

}  // namespace longhaul::lab
