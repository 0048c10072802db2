// Peers that nobody can dial, and this node as the relay of others.
#include <fmt/format.h>

#include "longhaul/net/peers.h"

namespace longhaul::net {

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

// What follows is a handshake with the peer itself. Whoever is called may be called in vain, and
// goes to the relay again unless it is connected by then.
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
