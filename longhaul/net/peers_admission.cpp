// Peers, of who dials whom and whom it admits: new processes and incarnations.
#include <fmt/format.h>

#include "longhaul/net/peers.h"

namespace longhaul::net {

// Who calls whom: see the head of peers.h. Of two that meet at a relay both call there.
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

// Its own word counts: whoever has a run without this process lets it wait for nothing.
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
  // It is sure to call; if that call is lost, this node does as ever.
  for (std::uint32_t stream = 0;
       (is_first_to_dial(peer) || relayed(peer)) && stream < link->streams(); ++stream) {
    retry_after_[{peer, stream}] = config_.max_retry;
    dial_later({peer, stream});
  }
}

}  // namespace longhaul::net
