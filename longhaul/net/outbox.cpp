#include "longhaul/net/outbox.h"

#include <fmt/format.h>

namespace longhaul::net {

void Outbox::push(const Message& message, const Service& service) {
  LH_CHECK(message.head.size() <= FrameLimits{}.head_bytes &&
           message.body.size() <= FrameLimits{}.body_bytes);  // nobody would take it
  classes_[service.service_class()].queued.emplace(Spot{service.order, pushed_++},
                                                   message_frame(message, service));
}

std::optional<Frame> Outbox::next(Priorities of) {
  for (unsigned priority = of.highest + 1; priority-- > of.lowest;)
    for (const unsigned delivery : {0u, 8u})
      if (auto frame = next_of(classes_[delivery + priority])) return frame;
  return std::nullopt;
}

std::optional<Frame> Outbox::next_of(Class& c) {
  if (c.again < c.sent.size()) return c.sent[c.again++];
  if (c.queued.empty()) return std::nullopt;
  const auto it = c.queued.begin();
  // One frame may always be out, however small the limit.
  if (c.sent_bytes > 0 && c.sent_bytes + it->second.size() > limits_.unacknowledged)
    return std::nullopt;
  Frame frame = std::move(it->second);
  c.queued.erase(it);
  frame.header.number = c.first + c.sent.size();
  c.sent_bytes += frame.size();
  c.sent.push_back(frame);
  c.again = c.sent.size();
  return frame;
}

Result<std::vector<Frame>> Outbox::acknowledged(const Acknowledged& ack) {
  Class& c = classes_.at(ack.service_class);
  std::vector<Frame> done;
  if (ack.before < c.first) return done;  // older than one that came before it
  if (ack.before > c.first + c.sent.size())
    return malformed(fmt::format("acknowledges message {} of class {}; {} were written", ack.before,
                                 ack.service_class, c.first + c.sent.size()));
  for (; c.first < ack.before; ++c.first) {
    c.sent_bytes -= c.sent.front().size();
    done.push_back(std::move(c.sent.front()));
    c.sent.pop_front();
    if (c.again > 0) --c.again;
  }
  return done;
}

void Outbox::rewind() {
  for (Class& c : classes_) c.again = 0;
}

void Outbox::state(Archive& ar) {
  ar(pushed_);
  for (Class& c : classes_) {
    ar(c.queued, c.sent, c.first);
    if (!ar.loading()) continue;
    c.again = c.sent_bytes = 0;
    for (const Frame& frame : c.sent) c.sent_bytes += frame.size();
  }
}

bool Outbox::idle() const {
  for (const Class& c : classes_)
    if (!c.queued.empty() || !c.sent.empty()) return false;
  return true;
}

std::size_t Outbox::kept_bytes() const {
  std::size_t bytes = 0;
  for (const Class& c : classes_) {
    bytes += c.sent_bytes;
    for (const auto& [spot, frame] : c.queued) bytes += frame.size();
  }
  return bytes;
}

}  // namespace longhaul::net
