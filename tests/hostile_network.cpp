#include "tests/hostile_network.h"

namespace longhaul::conformance {
namespace {

constexpr std::size_t kPast = 400;

Payload shortened(const Payload& payload, std::size_t size) {
  if (payload.is_phantom()) return Payload::phantom(size);
  const auto view = payload.view();
  return Payload(share(Buffer(view.begin(), view.begin() + std::ptrdiff_t(size))));
}

}  // namespace

std::optional<sim::NetworkEvent> HostileNetwork::advance() {
  if (!forged_.empty()) {
    sim::NetworkEvent notice{sim::NetworkEvent::Kind::delivered, std::move(forged_.front())};
    forged_.pop_front();
    return notice;
  }
  now_ = *network_->next_event();
  std::optional<sim::NetworkEvent> notice = network_->advance();
  if (notice && notice->kind == sim::NetworkEvent::Kind::delivered) abuse(notice->packet);
  return notice;
}

void HostileNetwork::abuse(const sim::Packet& packet) {
  past_.push_back(packet);
  if (past_.size() > kPast) past_.pop_front();
  for (Abuse kind : kinds_) {
    if (random_.uniform() >= share_) continue;
    sim::Packet forged = kind == Abuse::late ? past_[random_.below(past_.size())] : packet;
    if (!spoil(kind, forged)) continue;
    forged_.push_back(std::move(forged));
    ++abused_;
  }
}

bool HostileNetwork::spoil(Abuse kind, sim::Packet& packet) {
  Message& m = packet.message;
  switch (kind) {
    case Abuse::twice:
    case Abuse::late:
      return true;
    case Abuse::cut_head:
      m.head = shortened(m.head, random_.below(m.head.size()));
      return true;
    case Abuse::cut_body:
      if (!m.is_bulk()) return false;
      m.body = shortened(m.body, random_.below(m.body.size()));
      return true;
    case Abuse::unknown:
      if (random_.below(2) == 0)
        m.kind = std::uint16_t(100 + random_.below(60000));
      else
        m.machine = m.machine.child(14);
      return true;
    case Abuse::lie: {
      if (random_.below(4) == 0) {
        packet.from = packet.from == 0 ? 1 : packet.from - 1;
        return packet.from != packet.to;
      }
      Buffer head(m.head.view().begin(), m.head.view().end());
      head[random_.below(head.size())] ^= std::byte(1 << random_.below(8));
      m.head = Payload(share(std::move(head)));
      return true;
    }
  }
  return false;
}

}  // namespace longhaul::conformance
