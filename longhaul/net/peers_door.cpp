// Peers, of the port where others call: who may begin a handshake, and under which keys.
#include <algorithm>
#include <ctime>

#include <fmt/format.h>

#include "longhaul/net/peers.h"
#include "longhaul/net/tls.h"
#include "longhaul/secure/session.h"

namespace longhaul::net {

namespace {
constexpr auto kSoonExpired = std::chrono::days(7);

Buffer bytes_of(Frame frame) {
  const HeaderBytes header = seal(frame);
  Buffer bytes(header.begin(), header.end());
  const auto head = frame.head.view();
  bytes.insert(bytes.end(), head.begin(), head.end());
  return bytes;
}
}  // namespace

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

// Says why by a refusal, or under TLS by an alert.
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

// One after the other, from that rank on: names that do not resolve hold up each call by one of
// them at most.
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

}  // namespace longhaul::net
