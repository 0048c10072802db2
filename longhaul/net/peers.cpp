#include "longhaul/net/peers.h"

#include <algorithm>
#include <array>
#include <ctime>

#include <fmt/format.h>
#include <xxhash.h>

#include "longhaul/base/rng.h"
#include "longhaul/net/tls.h"

namespace longhaul::net {

using namespace std::chrono_literals;

namespace {
constexpr Time kDialWithin = 5s;
constexpr Time kAtRelay = 3s;  // some round trips, and well within the silence that is allowed
constexpr auto kSoonExpired = std::chrono::days(7);
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
                .keys = std::move(config_.job_keys),
                .inputs = std::move(config_.inputs),
                .words = std::move(config_.words)},
      events_(events),
      datagrams_(loop, place_.self, static_cast<Datagrams::Events&>(*this),
                 config_.credentials != nullptr),
      relay_(identity_) {
  offers_[place_.self] = {};
  for (Rank rank = 0; rank < place_.size(); ++rank)
    if (rank != place_.self) links_.emplace(rank, make_link(rank));
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
  warn_of_expiry();
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
  if (config_.credentials) stream = secured(std::move(stream), dialled);
  const auto handshake = std::make_shared<Handshake>(dialled, static_cast<Handshake::Host&>(*this));
  handshakes_.insert(handshake);
  handshake->start(std::move(stream));
}

std::unique_ptr<Stream> Peers::secured(std::unique_ptr<Stream> stream,
                                       const std::optional<Handshake::Dialled>& dialled) {
  refresh_keys();
  TlsOptions options;
  Frame refusal = refusal_frame(
      "this site takes connections under TLS alone: start all sites alike, with --keys and without "
      "--insecure");
  const HeaderBytes header = seal(refusal);
  options.plain_refusal.assign(header.begin(), header.end());
  const auto reason = refusal.head.view();
  options.plain_refusal.insert(options.plain_refusal.end(), reason.begin(), reason.end());
  auto session = dialled ? config_.credentials->dial(place_.member(dialled->addressee()).site)
                         : config_.credentials->accept();
  return make_tls_stream(loop_, std::move(stream), std::move(session), std::move(options));
}

void Peers::warn_of_expiry() {
  if (!config_.credentials) return;
  const std::int64_t until = config_.credentials->valid_until();
  const std::chrono::seconds left(until - std::time(nullptr));
  if (left < kSoonExpired)
    events_.on_note("the certificate of this site expires on " + secure::time_text(until) +
                    "; renew it: longhaul keys issue " + place_.me().site);
}

void Peers::refresh_keys() {
  const auto read = config_.credentials->refresh();
  const std::string trouble = read ? "" : read.error().what;
  if (trouble != std::exchange(key_trouble_, trouble) && !trouble.empty())
    events_.on_note("the new keys cannot be used, the old ones stay in use: " + trouble);
  if (read && *read)
    events_.on_note("has read new keys, valid until " +
                    secure::time_text(config_.credentials->valid_until()));
}

void Peers::on_rejected(const Error& why) {
  const Time now = loop_.now();
  // Host and reason: whoever calls again has another port.
  const std::size_t end = std::min(why.what.find(": "), why.what.size());
  const std::string reason =
      why.what.substr(0, why.what.rfind(':', end - 1)) + why.what.substr(end);
  if (noted_.size() >= kMostNoted) noted_.clear();
  const auto [noted, is_new] = noted_.try_emplace(reason, now);
  if (!is_new && now - noted->second < kSameNote) return ++suppressed_notes_, void();
  noted->second = now;
  note_tokens_ = std::min(kNoteBurst, note_tokens_ + seconds(now - std::exchange(note_at_, now)));
  if (note_tokens_ < 1) return ++suppressed_notes_, void();
  note_tokens_ -= 1;
  const auto others = std::exchange(suppressed_notes_, 0);
  events_.on_note("refused a connection: " + why.what +
                  (others > 0 ? fmt::format(" ({} others before)", others) : ""));
}

// What is known already stands: nobody can change it for another.
void Peers::on_introduced(Words said) { identity_.words.merge(said); }

void Peers::on_handshake_done(Handshake& handshake, Rank peer, std::uint32_t stream) {
  last_errors_.erase(peer);
  refused_.erase(peer);
  retry_after_.erase({peer, stream});
  relay_turn_.erase({peer, stream});
  if (config_.dscp && stream + 1 == links_.at(peer)->streams())
    links_.at(peer)->set_dscp(stream, kControlDscp);
  if (not_admitted_.contains(peer) && links_.at(peer)->connected()) events_.on_rejoin_request(peer);
  handshakes_.erase(handshake.shared_from_this());
  meet_by_datagrams(peer, stream);
  // Membership must know that the peer is back before it hears what the peer wrote meanwhile.
  if (open_ && !shutting_down_) watch(peer, *links_.at(peer));
}

// --- datagrams ----------------------------------------------------------------------------------

// At the port that the peer listens at, of the address that its connection comes from.
void Peers::meet_by_datagrams(Rank peer, std::uint32_t stream) {
  const Link& link = *links_.at(peer);
  const auto at = parse_address(link.peer_address());
  if (!datagrams_.is_open() || !at || !link.process() || relayed(peer)) return;
  if (config_.credentials) {
    const secure::Session* const session = stream == 0 ? link.security(0) : nullptr;
    if (session == nullptr) return;
    using secure::DatagramKeys;
    const Buffer secret = session->export_secret(DatagramKeys::kLabel, DatagramKeys::kSecret);
    return datagrams_.meet(peer, at->host, config_.addresses.at(peer).port,
                           std::make_unique<DatagramKeys>(secret, session->has_dialled()),
                           *link.process());
  }
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

bool Peers::on_datagrams_blocked(Rank peer, std::vector<Frame> queued) {
  const Link& link = *links_.at(peer);
  const bool is_heard = link.connected() && loop_.now() - link.last_heard() < 2 * config_.heartbeat;
  for (const Frame& frame : queued) links_.at(peer)->send(frame.message(), frame.service());
  if (!is_heard) return false;
  events_.on_note("UDP does not reach " + name(peer) + " on port " +
                  std::to_string(config_.addresses.at(peer).port) +
                  "; best-effort messages go over the connection, where nothing is lost");
  return true;
}

void Peers::on_handshake_failed(Handshake& handshake, std::optional<RefusalKind> refused,
                                const Error& why) {
  const auto dialled = handshake.dialled();
  const bool for_now = handshake.refused_for_now(), differs = handshake.has_other_inputs();
  handshakes_.erase(handshake.shared_from_this());
  if (!dialled && refused == RefusalKind::rejoin && !open_) return events_.on_left_out(why);
  if (differs && !open_) {  // it is to hear this node's reason, too
    probe_ = loop_.at(loop_.now() + kProbeAfter, [this, why] { events_.on_refused(why); });
    return;
  }
  if (!dialled) return for_now ? void() : on_rejected(why);
  last_errors_[dialled->peer] = why.what;
  if (dialled->relay) {
    last_errors_[dialled->peer] = "through " + name(*dialled->relay) + " at " + why.what;
    ++relay_turn_[{dialled->peer, dialled->stream}];
    return dial_later({dialled->peer, dialled->stream});
  }
  // It is dialled again: keys can be renewed, and clocks set. But its user should know at once.
  if (!refused && why.kind == Error::Kind::malformed &&
      std::exchange(refused_[dialled->peer], why.what) != why.what)
    events_.on_note("cannot connect to " + name(dialled->peer) + ": " + why.what);
  const Error told = unavailable(name(dialled->peer) + " at " + why.what);
  if (refused == RefusalKind::final && (should_dial(dialled->peer) || open_))
    events_.on_refused(told);
  else if (refused == RefusalKind::final)  // the peer dials, too, and is to hear this node's reason
    probe_ = loop_.at(loop_.now() + kProbeAfter, [this, told] { events_.on_refused(told); });
  if (refused == RefusalKind::rejoin) events_.on_left_out(told);
  if (refused == RefusalKind::resume) events_.on_resumes(told);
  dial_later({dialled->peer, dialled->stream});
}

// --- connections --------------------------------------------------------------------------------

void Peers::dial(StreamKey key) {
  const auto [peer, stream] = key;
  const Link& link = *links_.at(peer);
  if (link.settled() || link.connected(stream) || config_.left_out.contains(peer)) return;
  Handshake::Dialled dialled{.peer = peer, .stream = stream, .relay = relay_of(key)};
  // The lower rank goes from relay to relay, the other one waits until it comes by.
  if (dialled.relay) dialled.patience = kAtRelay;
  if (dialled.relay && place_.self > peer)
    dialled.patience *= std::int64_t(config_.relays.at(peer).size() + 1);
  connect(loop_, config_.addresses.at(dialled.addressee()), kDialWithin,
          [here = std::weak_ptr(alive_), key, dialled](auto connected) {
            const auto self = here.lock();
            if (!self) return;
            Peers& peers = **self;
            if (connected) return peers.start_handshake(*std::move(connected), dialled);
            peers.last_errors_[key.first] = connected.error().what;
            if (dialled.relay) ++peers.relay_turn_[key];
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
  if (config_.left_out.contains(peer)) return !place_.comes_back();
  return links_.at(peer)->connected() || (asking_.contains(peer) && can_resume());
}

// Those who have met hold a state that they can go on from.
bool Peers::can_resume() const {
  if (offers_.at(place_.self).newest == 0) return false;
  const auto chosen = choose_checkpoint();
  return chosen && *chosen;
}

// All others are there or ask to rejoin, and those who are there cannot resume.
bool Peers::must_resume(Rank asking) const {
  return !can_resume() && std::ranges::all_of(links_, [&](const auto& entry) {
    const auto& [peer, link] = entry;
    return peer == asking || link->connected() || asking_.contains(peer) ||
           config_.left_out.contains(peer);
  });
}

Status Peers::connect_all(const std::function<bool()>& failed) {
  for (const auto& [peer, link] : links_)
    for (std::uint32_t stream = 0; should_dial(peer) && stream < link->streams(); ++stream)
      dial({peer, stream});
  if (!place_.comes_back())
    probe_ = loop_.at(loop_.now() + std::min(kProbeAfter, config_.connect_timeout / 2), [this] {
      for (const auto& [peer, link] : links_)
        if (can_dial(peer) && !should_dial(peer) && !link->connected()) dial({peer, 0});
    });
  const auto connected = [this](const auto& entry) { return here(entry.first); };
  const auto done = [&] {
    if (failed()) return true;
    return place_.comes_back() ? std::any_of(links_.begin(), links_.end(), connected)
                               : std::all_of(links_.begin(), links_.end(), connected);
  };
  if (loop_.run_until(loop_.now() + config_.connect_timeout, done)) return Ok{};
  if (place_.comes_back() || !can_resume()) return missing();
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

std::vector<Rank> Peers::awaited() const {
  std::vector<Rank> awaited;
  for (const auto& [peer, link] : links_)
    if (shutting_down_ ? !link->settled() : !open_ && !here(peer)) awaited.push_back(peer);
  return awaited;
}

std::vector<std::pair<Rank, Time>> Peers::quiet() const {
  std::vector<std::pair<Rank, Time>> quiet;
  for (const auto& [peer, link] : links_) {
    const Time since = loop_.now() - link->last_heard();
    if (open_ && !link->dropped() && !link->peer_is_done() && since > 3 * config_.heartbeat)
      quiet.emplace_back(peer, since);
  }
  return quiet;
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

void Peers::offer(std::uint64_t newest, std::uint32_t live, std::uint32_t members) {
  offers_[place_.self] = {newest, live, members};
  identity_.live = live;
  identity_.members_before = members;
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
    Rank members = place_.size();  // sites that were added since know nothing of that run
    for (const auto& [rank, offer] : offers_)
      if (offer.newest == newest && offer.members > 0) members = std::min(members, offer.members);
    for (const auto& [rank, offer] : offers_) {
      if (rank >= members) continue;
      if (offer.newest > newest || offer.newest + 1 < newest) continue;
      ++holders;
      oldest = std::min(oldest, offer.newest);
      const bool said = newest > 0 && offer.live > 0;
      if (offer.newest == newest)
        live = std::max<std::size_t>(live, said ? offer.live : place_.size());
    }
    if (holders < live / 2 + 1) continue;
    if (own + 1 < newest || place_.self >= members) return std::optional<std::uint64_t>{};
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

void Peers::state(Archive& ar, std::uint32_t members) {
  for (auto& [peer, link] : links_)
    if (peer < members) link->state(ar);
  ar(silent_);
  datagrams_.state(ar);
}

void Peers::tick() {
  retired_.clear();
  if (!shutting_down_) datagrams_.tick(open_);
  tick_relay();
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
  // The relay may be what is silent: another one is tried while there is time.
  if (relayed(peer) && link.connected() && quiet > patience / 2) {
    for (std::uint32_t stream = 0; stream < link.streams(); ++stream) ++relay_turn_[{peer, stream}];
    link.disconnect({Error::Kind::timed_out, "its relay is silent"});
  }
  if (restarted_.contains(peer)) last_errors_[peer] = "its process has ended and was started again";
  const bool left_out = config_.left_out.contains(peer);
  if (left_out) last_errors_[peer] = "[run] without leaves it out";
  const bool silent =
      !link.peer_is_done() && (quiet > patience || restarted_.contains(peer) || left_out);
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

std::optional<Time> Peers::run_began() const {
  std::vector<Time> all;
  for (const auto& [peer, began] : began_) all.push_back(began);
  if (all.empty()) return std::nullopt;
  std::ranges::nth_element(all, all.begin() + std::ptrdiff_t(all.size() / 2));
  return all[all.size() / 2];
}

std::uint64_t Peers::newest_taken_checkpoint() const {
  std::uint64_t newest = 0;
  for (const auto& [peer, link] : links_)
    newest = std::max(newest, link->peer_checkpointed().taken);
  return newest;
}

// --- the end ------------------------------------------------------------------------------------

void Peers::shut_down(Time within) {
  shutting_down_ = true;
  for (const Rank peer : std::exchange(not_admitted_, {})) drop(peer);
  for (auto& [peer, link] : links_) link->say_bye();
  (void)loop_.run_until(loop_.now() + within, [this] {
    const bool settled = std::all_of(links_.begin(), links_.end(),
                                     [](const auto& entry) { return entry.second->settled(); });
    if (settled) relay_.tick(loop_.now());
    return settled && relay_.idle();  // others may part through this node
  });
  tell_relayed();
}

}  // namespace longhaul::net
