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

std::optional<Refusal> Peers::accepts(const Hello& hello, bool incoming) {
  if (config_.left_out.contains(hello.rank))
    return Refusal{"[run] without leaves this site out of the run"};
  if (hello.running) began_[hello.rank] = loop_.now() - Time(std::int64_t(hello.elapsed_ns));
  if (!open_) {
    auto refusal = accepts_unopened(hello, incoming);
    if (!refusal && !hello.running)
      offers_[hello.rank] = {hello.checkpointed.saved, hello.live, hello.members};
    return refusal;
  }
  const Link& link = *links_.at(hello.rank);
  // Two that have come to the run at different times may meet for the first time.
  const bool was_met = link.process() ? *link.process() == hello.process : hello.running;
  // This node met it and began without it, and it has not heard so.
  const bool has_not_begun = link.dropped() && !hello.running;
  const bool known = was_met && !has_not_begun;
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
    if (must_resume(hello.rank))
      return Refusal{"the run has stopped, and needs this site to resume", RefusalKind::resume};
    return Refusal{"the run has not begun yet", RefusalKind::later};
  }
  asking_.erase(hello.rank);
  if (incoming && should_dial(hello.rank) && !relayed(hello.rank))
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
  link->open(loop_.now());
  silent_.erase(peer);
  restarted_.erase(peer);
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
