#include "longhaul/net/peers.h"

#include <algorithm>
#include <array>
#include <ctime>
#include <limits>

#include <fmt/format.h>
#include <xxhash.h>

#include "longhaul/base/rng.h"
#include "longhaul/net/tls.h"
#include "longhaul/secure/session.h"

namespace longhaul::net {

using namespace std::chrono_literals;

namespace {

constexpr Time kDialWithin = 5s;
constexpr Time kAtRelay = 3s;  // some round trips, and well below the silence timeout
// Peers of lower ranks dial this node. If their run continues without it, this node dials them.
constexpr Time kProbeAfter = 3s;
constexpr Time kProbeAgain = 10s;
constexpr Time kFresh = 1s;
constexpr Time kDialledWithin = 1500ms;  // time for the peer that should dial, after a break
constexpr Time kGoneAfter = 2s;          // duration of refused connections

constexpr auto kSoonExpired = std::chrono::days(7);

Buffer bytes_of(Frame frame) {
  const HeaderBytes header = seal(frame);
  Buffer bytes(header.begin(), header.end());
  const auto head = frame.head.view();
  bytes.insert(bytes.end(), head.begin(), head.end());
  return bytes;
}

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
      meeting_(place_,
               {.process = config_.process,
                .left_out = config_.left_out,
                .nothing_to_rejoin = config_.nothing_to_rejoin,
                .told_so = config_.nothing_to_rejoin / 3,
                .fresh = kFresh,
                .heard_within = 3 * config_.heartbeat,
                .connect_within = kProbeAgain + 2s,
                .lets_return = config_.lets_return,
                .servers = config_.servers},
               [this](Rank peer) { return contact(peer); }),
      relay_(identity_) {
  for (Rank rank = 0; rank < place_.size(); ++rank)
    if (rank != place_.self) links_.emplace(rank, make_link(rank));
}

Peers::~Peers() = default;

std::string Peers::name(Rank rank) const {
  return fmt::format("rank {} ({})", rank, place_.member(rank).site);
}

// Keeps known introductions: no hello can replace them.
void Peers::on_introduced(Words said) { identity_.words.merge(said); }

void Peers::on_handshake_done(Handshake& handshake, Rank peer, std::uint32_t stream) {
  last_errors_.erase(peer);
  refused_.erase(peer);
  refused_since_.erase(peer);
  retry_after_.erase({peer, stream});
  relay_turn_.erase({peer, stream});
  if (config_.dscp && stream + 1 == links_.at(peer)->streams())
    links_.at(peer)->set_dscp(stream, kControlDscp);
  if (const auto paced = config_.pacing.find(peer); paced != config_.pacing.end())
    links_.at(peer)->set_pacing(paced->second);
  if (meeting_.is_stranger(peer) && links_.at(peer)->connected()) events_.on_rejoin_request(peer);
  handshakes_.erase(handshake.shared_from_this());
  called_from_[peer] = host_of(links_.at(peer)->peer_address());
  meet_by_datagrams(peer, stream);
  // Membership must learn of the peer's return before it receives the peer's later messages.
  if (open_ && !shutting_down_) watch(peer, *links_.at(peer));
}

// The pacing belonged to the plan before the loss.
void Peers::end_pacing() {
  for (const auto& [peer, most] : std::exchange(config_.pacing, {}))
    links_.at(peer)->set_pacing(std::numeric_limits<double>::infinity());
}

// --- datagrams ----------------------------------------------------------------------------------

// Uses the port that the peer listens on, at the address of its connection.
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
  if (open_ && !links_.at(from)->dropped() && !meeting_.is_stranger(from))
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
  const bool for_now = handshake.refused_for_now();
  const auto differs = handshake.differs();
  const std::string last_word = handshake.last_word();
  handshakes_.erase(handshake.shared_from_this());
  if (dialled && leaving_) {
    // A peer that takes this node for one of another job trusts only the hello at this node's own
    // address. It dials this node: accepts().
    if (refused && is_of_all(*refused)) return dial_later({dialled->peer, dialled->stream});
    return void(heard_why_.insert(dialled->peer));
  }
  if (refused && is_of_all(*refused))
    hear_last_word(
        {*refused == RefusalKind::unfit ? Error::Kind::invalid_argument : Error::Kind::unavailable,
         last_word});
  if (differs) on_differs(*differs, dialled.has_value(), why);
  if (!dialled && (refused == RefusalKind::rejoin || refused == RefusalKind::lost))
    return on_told_to_rejoin(*refused, why);
  if (!dialled) return for_now || leaving_ ? void() : on_rejected(why);
  last_errors_[dialled->peer] = why.what;
  if (dialled->relay) {
    last_errors_[dialled->peer] = "through " + name(*dialled->relay) + " at " + why.what;
    ++relay_turn_[{dialled->peer, dialled->stream}];
    return dial_later({dialled->peer, dialled->stream});
  }
  // The peer is dialled again, because keys and clocks can change. The user should know now.
  if (!refused && !for_now && why.kind == Error::Kind::malformed &&
      std::exchange(refused_[dialled->peer], why.what) != why.what)
    events_.on_note("cannot connect to " + name(dialled->peer) + ": " + why.what);
  const Error told = unavailable(name(dialled->peer) + " at " + why.what);
  if (refused == RefusalKind::final && (should_dial(dialled->peer) || open_))
    events_.on_refused(told);
  else if (refused == RefusalKind::final)  // the peer also dials, and must get the reason
    probe_ = loop_.at(loop_.now() + kProbeAfter, [this, told] { events_.on_refused(told); });
  if (refused) on_told_to_rejoin(*refused, told);
  dial_later({dialled->peer, dialled->stream});
}

// --- a reason that ends all ---------------------------------------------------------------------

// Ends this node for another node's reason. A node that knows a run asks that run instead.
void Peers::hear_last_word(Error why) {
  if (open_ || leaving_ || last_word_ || meeting_.knows_member()) return;
  last_word_ = std::move(why);
  events_.on_refused(*last_word_);
}

// The caller can be a stranger, so this node asks the peer's address for the peer's value. If it
// cannot dial the peer, it accepts the caller's reason after kProbeAfter.
void Peers::on_differs(Rank peer, bool dialled, const Error& why) {
  if (!dialled) heard_why_.insert(peer);
  if (open_ || leaving_) return;
  if (!dialled && can_dial(peer) && !relayed(peer)) return ask_again(peer);
  probe_ = loop_.at(loop_.now() + kProbeAfter, [this, why] { hear_last_word(invalid(why.what)); });
}

bool Peers::all_have_heard() const {
  return handshakes_.empty() && std::ranges::all_of(links_, [this](const auto& entry) {
           return heard_why_.contains(entry.first) || config_.left_out.contains(entry.first);
         });
}

void Peers::leave(const Error& why, Time within) {
  leaving_ = true;
  probe_ = {};
  identity_.leaves = why.what.substr(0, Hello::kMaxReason);
  identity_.unfit = why.kind == Error::Kind::invalid_argument;
  dials_.clear();
  for (const auto& [peer, link] : links_)
    if (can_dial(peer)) dial({peer, 0}, true);
  (void)loop_.run_until(loop_.now() + within, [this] { return all_have_heard(); });
}

// --- connections --------------------------------------------------------------------------------

// `anew`: dials also if the stream is connected.
void Peers::dial(StreamKey key, bool anew) {
  const auto [peer, stream] = key;
  const Link& link = *links_.at(peer);
  if (link.settled() || config_.left_out.contains(peer)) return;
  if (link.connected(stream) && !anew) return;
  Handshake::Dialled dialled{.peer = peer, .stream = stream, .relay = relay_of(key)};
  // The lower rank tries one relay after another. The higher rank waits at one until the lower
  // arrives.
  if (dialled.relay) dialled.patience = kAtRelay;
  if (dialled.relay && place_.self > peer)
    dialled.patience *= std::int64_t(config_.relays.at(peer).size() + 1);
  connect(loop_, config_.addresses.at(dialled.addressee()), kDialWithin,
          [here = std::weak_ptr(alive_), key, dialled](auto connected) {
            const auto self = here.lock();
            if (!self) return;
            Peers& peers = **self;
            if (connected) return peers.start_handshake(*std::move(connected), dialled);
            if (peers.leaving_ && peers.links_.at(key.first)->process())  // the peer has ended
              return void(peers.heard_why_.insert(key.first));
            peers.last_errors_[key.first] = connected.error().what;
            if (!was_refused(connected.error()))
              peers.refused_since_.erase(key.first);
            else
              peers.refused_since_.try_emplace(key.first, peers.loop_.now());
            if (dialled.relay) ++peers.relay_turn_[key];
            peers.dial_later(key);
          });
}

// Dials after a random pause between half of a limit and the limit, which doubles. Many nodes that
// lost each other at the same moment must not reconnect at the same moment.
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

Status Peers::connect_all(const std::function<bool()>& failed) {
  learn_hosts(0);
  for (const auto& [peer, link] : links_)
    for (std::uint32_t stream = 0; should_dial(peer) && stream < link->streams(); ++stream)
      dial({peer, stream});
  if (!place_.comes_back())
    probe_ = loop_.at(loop_.now() + std::min(kProbeAfter, config_.connect_timeout / 2),
                      [this] { probe(); });
  const Time began = loop_.now();
  const auto done = [&] {
    if (failed() || meeting_.complete(loop_.now())) return true;
    for (const Rank peer : meeting_.to_ask()) ask_again(peer);
    return false;
  };
  if (loop_.run_until(began + config_.connect_timeout, done) || meeting_.is_counted_on())
    return Ok{};
  const bool waits = !place_.comes_back() && meeting_.holds_state();
  const auto gone = [&] { return !place_.comes_back() && meeting_.state_is_gone(); };
  if (gone()) return Ok{};  // choose_checkpoint() returns the reason
  const auto resumes = [&] { return done() || meeting_.can_resume() || gone(); };
  const Time end = began + std::max(config_.connect_timeout, place_.majority_wait);
  if (waits && end > loop_.now() && !meeting_.can_resume())
    events_.on_note(missing().what + "\nWaits for " + waits_for());
  if (!waits || !loop_.run_until(end, resumes)) return missing();
  if (!gone() && !done()) events_.on_note(missing().what + "\nThe run resumes without them");
  return Ok{};
}

std::string Peers::waits_for() const {
  for (const Rank server : config_.servers)
    if (!meeting_.here(server)) return "the server, " + name(server);
  return "a majority";
}

// Dials peers of lower ranks, which may run without this node. Connected peers may have begun
// since: their next hello has the answer.
void Peers::probe() {
  for (const auto& [peer, link] : links_)
    if (can_dial(peer) && (link->connected() || !should_dial(peer))) dial({peer, 0}, true);
  probe_ = loop_.at(loop_.now() + kProbeAgain, [this] { probe(); });
}

Error Peers::missing() const {
  std::string text;
  for (const auto& [peer, link] : links_) {
    if (meeting_.here(peer)) continue;
    const auto why = last_errors_.find(peer);
    text += fmt::format("\n  {}: {}", name(peer),
                        meeting_.asks(peer)
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
    if (shutting_down_ ? !link->settled() : !open_ && !meeting_.here(peer)) awaited.push_back(peer);
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
  meeting_.open();
  identity_.running = meeting_.is_member();
  identity_.life = meeting_.life();
  ticked_ = loop_.now();
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

void Peers::offer(Meeting::Offer offer) {
  identity_.view = offer.view;
  identity_.members_before = offer.members;
  identity_.has_before = offer.has_before;
  announce({0, offer.newest});
  meeting_.offer(std::move(offer));
}

bool Peers::saved_by_all(std::uint64_t number) const {
  return std::all_of(links_.begin(), links_.end(), [&](const auto& entry) {
    const Link& link = *entry.second;
    return link.dropped() || meeting_.is_stranger(entry.first) ||
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
  // A process that was paused has received nothing in that time.
  const Time now = loop_.now(), late = now - std::exchange(ticked_, now);
  if (late > config_.silence_timeout / 4)
    for (auto& [peer, link] : links_) link->excuse(late, now);
  if (late > Datagrams::kAsk) datagrams_.excuse();
  if (!shutting_down_) datagrams_.tick(open_);
  tick_relay();
  for (auto& [peer, link] : links_) {
    link->tick(now, config_.heartbeat);
    if (open_ && !shutting_down_ && !link->dropped()) watch(peer, *link);
  }
  if (!shutting_down_ && meeting_.nothing_to_rejoin(now))
    events_.on_resumes(unavailable("no member of the run is in reach any more"));
}

void Peers::watch(Rank peer, Link& link) {
  const Time quiet = loop_.now() - link.last_heard();
  // A peer that has not announced its checkpoint yet may still be reading it.
  const bool at_once = link.announced() || rejoined_.contains(peer) || !link.process();
  const Time patience = at_once ? config_.silence_timeout
                                : std::max(config_.silence_timeout, config_.connect_timeout);
  // The relay itself may be silent: try another one while there is time.
  if (relayed(peer) && link.connected() && quiet > patience / 2) {
    for (std::uint32_t stream = 0; stream < link.streams(); ++stream) ++relay_turn_[{peer, stream}];
    link.disconnect({Error::Kind::timed_out, "its relay is silent"});
  }
  if (quiet > config_.silence_timeout / 3 || (!link.connected() && quiet > kDialledWithin))
    dial_beside(peer, link);
  // The peer's machine answers that no process listens.
  const auto refused = refused_since_.find(peer);
  const bool gone = refused != refused_since_.end() && !link.connected() && link.process() &&
                    loop_.now() - refused->second > kGoneAfter;
  const bool restarted = meeting_.has_restarted(peer), left_out = config_.left_out.contains(peer);
  if (restarted) last_errors_[peer] = "its process has ended and was started again";
  if (left_out) last_errors_[peer] = "[run] without leaves it out";
  const bool silent = !link.peer_is_done() && (quiet > patience || restarted || left_out || gone);
  if (silent)
    link.disconnect(
        {Error::Kind::timed_out, fmt::format("not a byte for {:g} s", seconds(patience))});
  if (silent == silent_.contains(peer)) return;
  if (std::string& why = last_errors_[peer]; silent && why.empty())
    why = fmt::format("not a byte for {:g} s", seconds(patience));
  if (silent)
    silent_.insert(peer);
  else
    silent_.erase(peer);
  // A node that asked to rejoin has gone again.
  if (silent && meeting_.forget_stranger(peer)) drop(peer);
  events_.on_silent(peer, silent, last_errors_[peer]);
}

void Peers::ask_again(Rank peer) {
  Time& last = dialled_anew_[peer];
  if (last > Time{0} && loop_.now() - last < config_.max_retry) return;
  last = loop_.now();
  dial({peer, 0}, true);
}

// Dials a connected but silent peer: TCP retries at growing intervals, long after the network is
// back. Dials also a disconnected peer that should dial this node. If that peer has declared this
// node lost, its answer contains that.
void Peers::dial_beside(Rank peer, const Link& link) {
  if (relayed(peer) || !can_dial(peer) || link.connected() != should_dial(peer)) return;
  Time& last = dialled_anew_[peer];
  const Time pause = link.connected() ? config_.heartbeat / 2 : config_.max_retry;
  if (loop_.now() - last < pause) return;
  last = loop_.now();
  for (std::uint32_t stream = 0; stream < link.streams(); ++stream) dial({peer, stream}, true);
}

void Peers::drop(Rank peer) {
  Link& link = *links_.at(peer);
  if (link.dropped() || meeting_.is_stranger(peer)) return;
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
  meeting_.end();
  for (const auto& [peer, link] : links_)
    if (meeting_.forget_stranger(peer)) drop(peer);
  for (auto& [peer, link] : links_) link->say_bye();
  (void)loop_.run_until(loop_.now() + within, [this] {
    const bool settled = std::all_of(links_.begin(), links_.end(),
                                     [](const auto& entry) { return entry.second->settled(); });
    if (settled) relay_.tick(loop_.now());
    return settled && relay_.idle();  // other nodes may finish through this relay
  });
  tell_relayed();
}

// --- who dials, and which nodes are admitted: new processes and incarnations --------------------

// See the file comment of peers.h. Two nodes that meet at a relay both dial it.
bool Peers::can_dial(Rank peer) const {
  return relayed(peer) || !dials_out(peer) || place_.member(peer).site == place_.me().site;
}

bool Peers::is_first_to_dial(Rank peer) const {
  const bool is_here = place_.member(peer).site == place_.me().site;
  if (is_here || dials_out(peer) == dials_out(place_.self)) return peer > place_.self;
  return dials_out(place_.self);
}

bool Peers::should_dial(Rank peer) const {
  return relayed(peer) || (can_dial(peer) && (is_first_to_dial(peer) || place_.comes_back()));
}

Meeting::Contact Peers::contact(Rank peer) const {
  const Link& link = *links_.at(peer);
  return {.process = link.process(),
          .connected = link.connected(),
          .heard = link.connected() && loop_.now() - link.last_heard() < 3 * config_.heartbeat,
          .dropped = link.dropped(),
          .can_be_asked = can_dial(peer) && !relayed(peer)};
}

std::optional<Refusal> Peers::accepts(const Hello& hello, bool incoming) {
  if (leaving_) {
    heard_why_.insert(hello.rank);
    return Refusal{identity_.leaves, identity_.unfit ? RefusalKind::unfit : RefusalKind::failed};
  }
  if (!hello.leaves.empty()) {
    hear_last_word(
        {hello.unfit ? Error::Kind::invalid_argument : Error::Kind::unavailable, hello.leaves});
    return Refusal{"this node has heard why it leaves", RefusalKind::later};
  }
  auto answer = meeting_.hear(hello, loop_.now());
  if (hello.running) began_[hello.rank] = loop_.now() - Time(std::int64_t(hello.elapsed_ns));
  if (answer.refusal) return std::move(answer.refusal);
  if (!open_ && incoming && should_dial(hello.rank) && !relayed(hello.rank) && !hello.running &&
      !links_.at(hello.rank)->connected())
    return Refusal{"this node dials by itself", RefusalKind::later};
  if (answer.replaces) replace_link(hello.rank);
  return std::nullopt;
}

// Acts on the answer of a single peer.
void Peers::on_told_to_rejoin(RefusalKind kind, const Error& why) {
  if (kind == RefusalKind::rejoin) events_.on_left_out(why, /*lost=*/false);
  if (kind == RefusalKind::lost) events_.on_left_out(why, /*lost=*/true);
  if (kind == RefusalKind::resume) meeting_.told_to_resume();
}

void Peers::admit(Rank peer) {
  if (!meeting_.forget_stranger(peer)) replace_link(peer);
}

void Peers::admitted() {
  meeting_.admit();
  identity_.running = true;
}

std::unique_ptr<Link> Peers::make_link(Rank peer) {
  return std::make_unique<Link>(peer, config_.streams, static_cast<Link::Events&>(*this),
                                place_.comes_back());
}

void Peers::replace_link(Rank peer) {
  std::unique_ptr<Link>& link = links_.at(peer);
  link->drop();
  datagrams_.forget(peer);
  const CheckpointProgress mine = link->checkpointed();
  retired_.push_back(std::exchange(link, make_link(peer)));
  link->announce(mine);
  if (open_) link->open(loop_.now());
  silent_.erase(peer);
  meeting_.replaced(peer);
  rejoined_.insert(peer);
  last_errors_.erase(peer);
  std::erase_if(dials_, [&](const auto& entry) { return entry.first.first == peer; });
  // The new process will call. If that call is lost, this node dials as usual.
  for (std::uint32_t stream = 0;
       (is_first_to_dial(peer) || relayed(peer)) && stream < link->streams(); ++stream) {
    retry_after_[{peer, stream}] = config_.max_retry;
    dial_later({peer, stream});
  }
}

// --- the listening port: which callers may begin a handshake, and under which keys --------------

Result<std::uint16_t> Peers::listen(const std::function<bool()>& failed) {
  const auto accepted = [this](std::unique_ptr<Stream> s) {
    start_handshake(std::move(s), std::nullopt);
  };
  const Address at = config_.bind.value_or(listening_address(config_.addresses.at(place_.self)));
  const auto open = [&] {
    return config_.listening >= 0 ? net::listen_on(loop_, config_.listening, accepted)
                                  : net::listen(loop_, at, accepted);
  };
  const Time end = loop_.now() + config_.connect_timeout;
  auto listener = open();
  if (!listener && listener.error().kind == Error::Kind::unavailable)
    events_.on_note(
        fmt::format("{}; tries again for {:g} s: the network of this machine may not "
                    "be up yet",
                    listener.error().what, seconds(config_.connect_timeout)));
  // A machine that has just started may get its addresses and names later.
  while (!listener && listener.error().kind == Error::Kind::unavailable &&
         !loop_.run_until(std::min(end, loop_.now() + config_.max_retry), failed) &&
         loop_.now() < end)
    listener = open();
  if (!listener) return listener.error();
  listener_ = *std::move(listener);
  warn_of_expiry();
  if (config_.datagrams)
    if (const Status opened = datagrams_.open(listener_->addresses(), config_.dscp); !opened)
      events_.on_note(opened.error().what + "; best-effort messages go over the connections");
  return listener_->port();
}

void Peers::start_handshake(std::unique_ptr<Stream> stream,
                            std::optional<Handshake::Dialled> dialled) {
  Caller caller{host_of(stream->peer()), false, true, loop_.now()};
  caller.is_member = is_host_of_member(caller.host);
  if (!dialled && !make_room_for(caller)) return turn_away(std::move(stream));
  if (!config_.congestion.empty())
    if (const Status set = stream->set_congestion(config_.congestion); !set)
      if (!std::exchange(warned_congestion_, true)) events_.on_note(set.error().what);
  if (config_.credentials) stream = secured(std::move(stream), dialled);
  const auto handshake =
      std::make_shared<Handshake>(dialled, static_cast<Handshake::Host&>(*this), std::move(caller));
  handshakes_.insert(handshake);
  handshake->start(std::move(stream));
}

bool Peers::make_room_for(const Caller& next) {
  std::vector<std::shared_ptr<Handshake>> waiting;
  for (const auto& one : handshakes_)
    if (!one->dialled()) waiting.push_back(one);
  std::ranges::sort(waiting, {}, [](const auto& one) { return one->caller().since; });
  std::vector<Caller> callers;
  for (const auto& one : waiting) callers.push_back(one->caller());
  const auto place = Callers::place_of(next, callers, loop_.now());
  if (place && *place < waiting.size()) waiting[*place]->make_room();
  return place.has_value();
}

// Sends the reason as a refusal, or under TLS as an alert.
void Peers::turn_away(std::unique_ptr<Stream> stream) {
  const std::string why = "too many others have not said hello yet";
  on_rejected(unavailable(stream->peer() + ": " + why));
  struct Last {
    std::unique_ptr<Stream> stream;
    Buffer word;
  };
  const auto last = std::make_shared<Last>(Last{
      std::move(stream),
      config_.credentials ? secure::no_room_alert()
                          : bytes_of(refusal_frame({.reason = why, .kind = RefusalKind::later}))});
  last->stream->write({last->word, {}, {}}, [last](const Status&) { last->stream->finish(); });
}

bool Peers::is_host_of_member(const std::string& host) const {
  const auto has = [&](const auto& entry) { return entry.second == host; };
  return std::ranges::any_of(called_from_, has) ||
         std::ranges::any_of(hosts_, [&](const auto& all) { return all.second.contains(host); });
}

// Resolves the addresses in order, from that rank on. Names that do not resolve delay each other
// call by at most one of them.
void Peers::learn_hosts(Rank from) {
  if (from >= config_.addresses.size()) return;
  resolve(loop_, config_.addresses[from].host,
          [here = std::weak_ptr(alive_), from](const std::vector<std::string>& found) {
            const auto self = here.lock();
            if (!self) return;
            for (const std::string& one : found)
              (**self).hosts_[from].insert(host_of(to_string(Address{one, 0})));
            (**self).learn_hosts(from + 1);
          });
}

std::unique_ptr<Stream> Peers::secured(std::unique_ptr<Stream> stream,
                                       const std::optional<Handshake::Dialled>& dialled) {
  refresh_keys();
  TlsOptions options;
  options.plain_refusal = bytes_of(refusal_frame(
      "this site takes connections under TLS alone: start all sites alike, with --keys and without "
      "--insecure"));
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
  // The key is host and reason: the port changes with each call.
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

// --- peers that no node can dial, and this node as a relay --------------------------------------

std::optional<Rank> Peers::relay_of(StreamKey key) const {
  const auto relays = config_.relays.find(key.first);
  if (relays == config_.relays.end()) return std::nullopt;
  const auto turn = relay_turn_.find(key);
  return relays->second[(turn == relay_turn_.end() ? 0 : turn->second) % relays->second.size()];
}

std::optional<Refusal> Peers::refuses_relay(const Hello& hello) {
  if (dials_out(place_.self)) return Refusal{"this node cannot relay, as nobody can dial it"};
  return relay_.refuses(hello);
}

void Peers::on_relay_wanted(Handshake& handshake, const Hello& hello,
                            std::shared_ptr<Connection> connection) {
  handshakes_.erase(handshake.shared_from_this());
  relay_.add(hello, std::move(connection), loop_.now());
}

// Starts the handshake with the peer itself. The node that is called waits, possibly in vain, and
// dials the relay again unless it is connected by then.
void Peers::on_relayed(Handshake& handshake, std::unique_ptr<Stream> stream, bool dials) {
  const Handshake::Dialled met = *handshake.dialled();
  handshakes_.erase(handshake.shared_from_this());
  const auto said = said_relayed_.find(met.peer);
  if (said == said_relayed_.end() || said->second != *met.relay)
    events_.on_note(fmt::format("reaches {} through {}, as nobody can dial either", name(met.peer),
                                name(*met.relay)));
  said_relayed_[met.peer] = *met.relay;
  if (dials) return start_handshake(std::move(stream), Handshake::Dialled{met.peer, met.stream});
  const StreamKey key{met.peer, met.stream};
  dials_[key] = loop_.at(loop_.now() + 2 * Handshake::kTimeout, [this, key] { dial(key); });
  start_handshake(std::move(stream), std::nullopt);
}

void Peers::tick_relay() {
  relay_.tick(loop_.now());
  for (const auto& pair : relay_.joined())
    if (said_relays_.insert(pair).second)
      events_.on_note(fmt::format("relays between {} and {}: their traffic takes this site's link",
                                  name(pair.first), name(pair.second)));
}

void Peers::tell_relayed() {
  for (const auto& [pair, bytes] : relay_.copied())
    events_.on_note(fmt::format("has relayed {:.1f} MB between {} and {}", double(bytes) / 1e6,
                                name(pair.first), name(pair.second)));
}

}  // namespace longhaul::net
