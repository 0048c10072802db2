#include "longhaul/net/peers.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <xxhash.h>

#include "longhaul/base/rng.h"

namespace longhaul::net {

using namespace std::chrono_literals;

namespace {
constexpr Time kDialWithin = 5s;
// Peers of lower ranks dial this node, unless their run goes on without it: then it dials them.
constexpr Time kProbeAfter = 3s;
}  // namespace

Peers::Peers(Loop& loop, PeersConfig config, const Place& place, Events& events)
    : loop_(loop),
      config_(std::move(config)),
      place_(place),
      identity_{.job_hash = config_.job_hash,
                .self = place_.self,
                .incarnation = place_.me().incarnation,
                .process = config_.process,
                .members = place_.members.get(),
                .keys = std::move(config_.job_keys)},
      events_(events),
      datagrams_(loop, place_.self, static_cast<Datagrams::Events&>(*this)) {
  offers_[place_.self] = {};
  for (Rank rank = 0; rank < place_.size(); ++rank)
    if (rank != place_.self)
      links_.emplace(
          rank, std::make_unique<Link>(rank, config_.streams, static_cast<Link::Events&>(*this)));
}

Peers::~Peers() = default;

std::string Peers::name(Rank rank) const {
  return fmt::format("rank {} ({})", rank, place_.member(rank).site);
}

// --- greetings ----------------------------------------------------------------------------------

Result<std::uint16_t> Peers::listen() {
  const auto accepted = [this](std::unique_ptr<Stream> s) {
    start_handshake(std::move(s), std::nullopt);
  };
  auto listener =
      config_.listening >= 0
          ? net::listen_on(loop_, config_.listening, accepted)
          : net::listen(loop_, config_.bind.value_or(config_.addresses.at(place_.self)), accepted);
  if (!listener) return listener.error();
  listener_ = *std::move(listener);
  if (config_.datagrams)
    if (const Status opened = datagrams_.open(is_loopback(config_.addresses.at(place_.self)),
                                              listener_->port(), config_.dscp);
        !opened)
      events_.on_note(opened.error().what + "; best-effort messages go over the connections");
  return listener_->port();
}

void Peers::start_handshake(std::unique_ptr<Stream> stream,
                            std::optional<Handshake::Dialled> dialled) {
  if (handshakes_.size() >= kMaxHandshakes && !dialled)
    return on_rejected(unavailable(
        fmt::format("{}: {} others have not said hello yet", stream->peer(), handshakes_.size())));
  if (!config_.congestion.empty())
    if (const Status set = stream->set_congestion(config_.congestion); !set)
      if (!std::exchange(warned_congestion_, true)) events_.on_note(set.error().what);
  const auto handshake = std::make_shared<Handshake>(dialled, static_cast<Handshake::Host&>(*this));
  handshakes_.insert(handshake);
  handshake->start(std::move(stream));
}

void Peers::on_rejected(const Error& why) {
  const Time now = loop_.now();
  note_tokens_ = std::min(kNoteBurst, note_tokens_ + seconds(now - std::exchange(note_at_, now)));
  if (note_tokens_ < 1) return ++suppressed_notes_, void();
  note_tokens_ -= 1;
  const auto others = std::exchange(suppressed_notes_, 0);
  events_.on_note("refused a connection: " + why.what +
                  (others > 0 ? fmt::format(" ({} others before)", others) : ""));
}

void Peers::on_handshake_done(Handshake& handshake, Rank peer, std::uint32_t stream) {
  last_errors_.erase(peer);
  retry_after_.erase({peer, stream});
  if (config_.dscp && stream + 1 == links_.at(peer)->streams())
    links_.at(peer)->set_dscp(stream, kControlDscp);
  if (not_admitted_.contains(peer) && links_.at(peer)->connected()) events_.on_rejoin_request(peer);
  handshakes_.erase(handshake.shared_from_this());
  meet_by_datagrams(peer);
  // Membership must know that the peer is back before it hears what the peer wrote meanwhile.
  if (open_ && !shutting_down_) watch(peer, *links_.at(peer));
}

// --- datagrams ----------------------------------------------------------------------------------

// At the port that the peer listens at, of the address that its connection comes from.
void Peers::meet_by_datagrams(Rank peer) {
  const Link& link = *links_.at(peer);
  const auto at = parse_address(link.peer_address());
  if (!datagrams_.is_open() || !at || !link.process()) return;
  const std::array<std::uint64_t, 3> known{config_.job_hash,
                                           std::min(config_.process, *link.process()),
                                           std::max(config_.process, *link.process())};
  datagrams_.meet(peer, at->host, config_.addresses.at(peer).port,
                  XXH3_64bits(known.data(), sizeof known));
}

void Peers::on_datagram(Rank from, const Message& message) {
  if (open_ && !links_.at(from)->dropped() && !not_admitted_.contains(from))
    events_.on_message(from, message);
}

void Peers::on_datagrams_blocked(Rank peer, std::vector<Frame> queued) {
  events_.on_note("UDP does not reach " + name(peer) + " on port " +
                  std::to_string(config_.addresses.at(peer).port) +
                  "; best-effort messages go over the connection, where nothing is lost");
  for (const Frame& frame : queued) links_.at(peer)->send(frame.message(), frame.service());
}

void Peers::on_handshake_failed(Handshake& handshake, std::optional<RefusalKind> refused,
                                const Error& why) {
  const auto dialled = handshake.dialled();
  const bool for_now = handshake.refused_for_now();
  handshakes_.erase(handshake.shared_from_this());
  if (!dialled && refused == RefusalKind::rejoin && !open_) return events_.on_left_out(why);
  if (!dialled) return for_now ? void() : on_rejected(why);
  last_errors_[dialled->peer] = why.what;
  const Error told = unavailable(name(dialled->peer) + " at " + why.what);
  if (refused == RefusalKind::final && (should_dial(dialled->peer) || open_))
    events_.on_refused(told);
  else if (refused == RefusalKind::final)  // the peer dials, too, and is to hear this node's reason
    probe_ = loop_.at(loop_.now() + kProbeAfter, [this, told] { events_.on_refused(told); });
  if (refused == RefusalKind::rejoin) events_.on_left_out(told);
  dial_later({dialled->peer, dialled->stream});
}

// --- connections --------------------------------------------------------------------------------

void Peers::dial(StreamKey key) {
  const auto [peer, stream] = key;
  const Link& link = *links_.at(peer);
  if (link.settled() || link.connected(stream)) return;
  connect(loop_, config_.addresses.at(peer), kDialWithin,
          [here = std::weak_ptr(alive_), key](auto connected) {
            const auto self = here.lock();
            if (!self) return;
            Peers& peers = **self;
            if (connected)
              return peers.start_handshake(*std::move(connected),
                                           Handshake::Dialled{key.first, key.second});
            peers.last_errors_[key.first] = connected.error().what;
            peers.dial_later(key);
          });
}

// The pause doubles, and is drawn anew from half of it to all of it: many nodes that lost one
// another at the same moment must not come back at the same moment.
void Peers::dial_later(StreamKey key) {
  Time& pause = retry_after_.emplace(key, config_.first_retry).first->second;
  Random random(place_.seed, {Purpose::jitter, dialled_++, place_.self, key.first});
  const Time wait = pause / 2 + Time(random.below(std::uint64_t(pause.count() / 2 + 1)));
  pause = std::min(2 * pause, config_.max_retry);
  dials_[key] = loop_.at(loop_.now() + wait, [this, key] { dial(key); });
}

void Peers::on_disconnected(Rank peer, std::uint32_t stream, const Error& why) {
  last_errors_[peer] = why.what;
  if (should_dial(peer)) dial_later({peer, stream});
}

void Peers::break_connections() {
  for (auto& [peer, link] : links_) link->disconnect(unavailable("broken on purpose"));
}

// --- meeting, watching, parting -----------------------------------------------------------------

// Connected, or asks to rejoin the run that this node is about to resume.
bool Peers::here(Rank peer) const {
  return links_.at(peer)->connected() || (asking_.contains(peer) && offers_.at(place_.self).newest);
}

Status Peers::connect_all(const std::function<bool()>& failed) {
  for (const auto& [peer, link] : links_)
    for (std::uint32_t stream = 0; should_dial(peer) && stream < link->streams(); ++stream)
      dial({peer, stream});
  if (!place_.comes_back())
    probe_ = loop_.at(loop_.now() + std::min(kProbeAfter, config_.connect_timeout / 2), [this] {
      for (const auto& [peer, link] : links_)
        if (!should_dial(peer) && !link->connected()) dial({peer, 0});
    });
  const auto connected = [this](const auto& entry) { return here(entry.first); };
  const auto done = [&] {
    if (failed()) return true;
    return place_.comes_back() ? std::any_of(links_.begin(), links_.end(), connected)
                               : std::all_of(links_.begin(), links_.end(), connected);
  };
  if (loop_.run_until(loop_.now() + config_.connect_timeout, done)) return Ok{};
  const bool resumes = !place_.comes_back() && offers_.at(place_.self).newest > 0;
  if (const auto chosen = choose_checkpoint(); !resumes || !chosen || !*chosen) return missing();
  events_.on_note(missing().what + "\nThe run resumes without them");
  return Ok{};
}

Error Peers::missing() const {
  std::string text;
  for (const auto& [peer, link] : links_) {
    if (here(peer)) continue;
    const auto why = last_errors_.find(peer);
    text += fmt::format("\n  {}: {}", name(peer),
                        asking_.contains(peer)
                            ? "asks to rejoin a run that has not begun; start it without --rejoin"
                        : why != last_errors_.end()
                            ? why->second
                            : "did not connect; start it, and check its route to this node");
  }
  return unavailable(fmt::format("{} nodes connected within {:g} s:{}",
                                 place_.comes_back() ? "none of the other" : "not all",
                                 seconds(config_.connect_timeout), text));
}

void Peers::open() {
  open_ = true;
  identity_.running = true;
  probe_ = {};
  for (auto& [peer, link] : links_) link->open(loop_.now());
}

void Peers::announce(CheckpointProgress mine) {
  datagrams_.set_checkpoint(mine.taken);
  for (auto& [peer, link] : links_) link->announce(mine);
}

void Peers::restore_checkpoint(std::uint64_t number) {
  datagrams_.set_checkpoint(number);
  for (auto& [peer, link] : links_) link->restore_checkpoint(number);
}

void Peers::offer(std::uint64_t newest, std::uint32_t live) {
  offers_[place_.self] = {newest, live};
  identity_.live = live;
  announce({0, newest});
}

// Nodes of one run are at most one checkpoint apart. So whoever is further behind than that was
// lost before, and whoever is further ahead is of another run.
Result<std::optional<std::uint64_t>> Peers::choose_checkpoint() const {
  const std::uint64_t own = offers_.at(place_.self).newest;
  std::set<std::uint64_t, std::greater<>> candidates;
  for (const auto& [rank, offer] : offers_) candidates.insert(offer.newest);
  for (const std::uint64_t newest : candidates) {
    std::uint64_t oldest = newest;
    std::size_t holders = 0, live = 0;
    for (const auto& [rank, offer] : offers_) {
      if (offer.newest > newest || offer.newest + 1 < newest) continue;
      ++holders;
      oldest = std::min(oldest, offer.newest);
      const bool said = newest > 0 && offer.live > 0;
      if (offer.newest == newest)
        live = std::max<std::size_t>(live, said ? offer.live : place_.size());
    }
    if (holders < live / 2 + 1) continue;
    if (own + 1 < newest) return std::optional<std::uint64_t>{};
    if (own <= newest) return std::optional(oldest);
    break;
  }
  std::string text = "the sites hold different states of the run:";
  for (const auto& [rank, offer] : offers_)
    text += fmt::format(" {} {},", place_.member(rank).site,
                        offer.newest > 0 ? fmt::format("checkpoint {}", offer.newest) : "none");
  text.back() = '.';
  return unavailable(text +
                     " Was a site started in another folder? Bring its folder back, or start all "
                     "sites with --force to begin anew");
}

bool Peers::saved_by_all(std::uint64_t number) const {
  return std::all_of(links_.begin(), links_.end(), [&](const auto& entry) {
    const Link& link = *entry.second;
    return link.dropped() || not_admitted_.contains(entry.first) ||
           (link.announced() && link.peer_checkpointed().saved >= number);
  });
}

void Peers::state(Archive& ar) {
  for (auto& [peer, link] : links_) link->state(ar);
  ar(silent_);
  datagrams_.state(ar);
}

void Peers::tick() {
  retired_.clear();
  if (open_ && !shutting_down_) datagrams_.tick();
  for (auto& [peer, link] : links_) {
    link->tick(loop_.now(), config_.heartbeat);
    if (open_ && !shutting_down_ && !link->dropped()) watch(peer, *link);
  }
}

void Peers::watch(Rank peer, Link& link) {
  const Time quiet = loop_.now() - link.last_heard();
  // A peer that has not said so much as what it goes on from may be reading its checkpoint.
  const bool at_once = link.announced() || rejoined_.contains(peer);
  const Time patience = at_once ? config_.silence_timeout
                                : std::max(config_.silence_timeout, config_.connect_timeout);
  if (restarted_.contains(peer)) last_errors_[peer] = "its process has ended and was started again";
  const bool silent = !link.peer_is_done() && (quiet > patience || restarted_.contains(peer));
  if (silent)
    link.disconnect(
        {Error::Kind::timed_out, fmt::format("not a byte for {:g} s", seconds(patience))});
  if (silent == silent_.contains(peer)) return;
  if (silent && not_admitted_.erase(peer) > 0) return drop(peer);  // gone again
  if (silent)
    silent_.insert(peer);
  else
    silent_.erase(peer);
  events_.on_silent(peer, silent, last_errors_[peer]);
}

void Peers::drop(Rank peer) {
  Link& link = *links_.at(peer);
  if (link.dropped() || not_admitted_.contains(peer)) return;
  link.drop();
  datagrams_.forget(peer);
  std::erase_if(dials_, [&](const auto& entry) { return entry.first.first == peer; });
}

std::uint64_t Peers::newest_taken_checkpoint() const {
  std::uint64_t newest = 0;
  for (const auto& [peer, link] : links_)
    newest = std::max(newest, link->peer_checkpointed().taken);
  return newest;
}

// --- new incarnations ---------------------------------------------------------------------------

// Who calls whom: see the head of peers.h.
bool Peers::should_dial(Rank peer) const { return peer > place_.self || place_.comes_back(); }

std::optional<Refusal> Peers::accepts(const Hello& hello, bool incoming) {
  if (!open_) {
    auto refusal = accepts_unopened(hello, incoming);
    if (!refusal && !hello.running) offers_[hello.rank] = {hello.checkpointed.saved, hello.live};
    return refusal;
  }
  const Link& link = *links_.at(hello.rank);
  // Two that have come to the run at different times may meet for the first time.
  const bool known = link.process() ? *link.process() == hello.process : hello.running;
  if (shutting_down_ && !known)
    return Refusal{"the run has ended; its model and summary are in the folders of the others"};
  if (hello.incarnation > 0) return accepts_rejoining(hello);
  if (known) return std::nullopt;
  const bool alive = link.connected() && loop_.now() - link.last_heard() < 3 * config_.heartbeat;
  if (alive) return std::nullopt;  // which the link refuses
  if (!link.connected()) restarted_.insert(hello.rank);
  return Refusal{fmt::format("the run goes on, and site {} may ask to rejoin it", hello.site),
                 RefusalKind::rejoin};
}

bool Peers::must_ask(const Hello& hello) {
  const auto known = known_.find(hello.rank);
  return !open_ && !place_.comes_back() && hello.running &&
         links_.at(hello.rank)->process() != hello.process &&
         !(known != known_.end() && known->second == hello.process);
}

std::optional<Refusal> Peers::accepts_unopened(const Hello& hello, bool incoming) {
  if (place_.comes_back()) {
    if (hello.running) return std::nullopt;
    return Refusal{"this node waits for a run to rejoin", RefusalKind::later};
  }
  if (hello.incarnation > 0) {
    asking_.insert(hello.rank);
    return Refusal{"the run has not begun yet", RefusalKind::later};
  }
  asking_.erase(hello.rank);
  if (incoming && should_dial(hello.rank))
    return Refusal{"this node dials by itself", RefusalKind::later};
  return std::nullopt;
}

std::optional<Refusal> Peers::accepts_rejoining(const Hello& hello) {
  const Link& link = *links_.at(hello.rank);
  const bool known = !link.process() || *link.process() == hello.process;
  if (known && !link.dropped()) return std::nullopt;
  const bool gone_again = not_admitted_.contains(hello.rank) && !link.connected();
  if (!link.dropped() && !gone_again) {
    if (!link.connected()) restarted_.insert(hello.rank);
    return Refusal{fmt::format("site {} still talks to your previous process; it will let you in "
                               "after [net] silence_s = {:g}",
                               place_.me().site, seconds(config_.silence_timeout)),
                   RefusalKind::later};
  }
  if (link.dropped() && !events_.may_rejoin(hello.rank)) return std::nullopt;  // which it refuses
  replace_link(hello.rank);
  not_admitted_.insert(hello.rank);
  return std::nullopt;
}

void Peers::admit(Rank peer) {
  if (not_admitted_.erase(peer) == 0) replace_link(peer);
}

void Peers::replace_link(Rank peer) {
  std::unique_ptr<Link>& link = links_.at(peer);
  link->drop();
  datagrams_.forget(peer);
  const CheckpointProgress mine = link->checkpointed();
  retired_.push_back(std::exchange(
      link, std::make_unique<Link>(peer, config_.streams, static_cast<Link::Events&>(*this))));
  link->announce(mine);
  link->open(loop_.now());
  silent_.erase(peer);
  restarted_.erase(peer);
  rejoined_.insert(peer);
  last_errors_.erase(peer);
  std::erase_if(dials_, [&](const auto& entry) { return entry.first.first == peer; });
  // It is sure to call; if that call is lost, this node does as ever.
  for (std::uint32_t stream = 0; peer > place_.self && stream < link->streams(); ++stream) {
    retry_after_[{peer, stream}] = config_.max_retry;
    dial_later({peer, stream});
  }
}

// --- the end ------------------------------------------------------------------------------------

void Peers::shut_down(Time within) {
  shutting_down_ = true;
  for (const Rank peer : std::exchange(not_admitted_, {})) drop(peer);
  for (auto& [peer, link] : links_) link->say_bye();
  (void)loop_.run_until(loop_.now() + within, [this] {
    return std::all_of(links_.begin(), links_.end(),
                       [](const auto& entry) { return entry.second->settled(); });
  });
}

}  // namespace longhaul::net
