#include "longhaul/net/inbox.h"

#include <fmt/format.h>

namespace longhaul::net {

Result<std::vector<Frame>> Inbox::accept(Frame frame) {
  LH_CHECK(frame.header.type == FrameHeader::Type::message);
  Class& c = classes_.at(frame.header.service_class);
  const std::uint64_t number = frame.header.number;
  std::vector<Frame> ready;
  if (number < c.next || c.early.contains(number)) return ready;
  if (number > c.next) {
    if (c.early_bytes + frame.size() > limits_.early_bytes)
      return malformed(
          fmt::format("message {} of class {} before {} came: {} bytes came early, at "
                      "most {} are kept",
                      number, frame.header.service_class, c.next, c.early_bytes + frame.size(),
                      limits_.early_bytes));
    c.early_bytes += frame.size();
    c.early.emplace(number, std::move(frame));
    return ready;
  }
  ready.push_back(std::move(frame));
  ++c.next;
  for (auto it = c.early.begin(); it != c.early.end() && it->first == c.next; ++c.next) {
    c.early_bytes -= it->second.size();
    ready.push_back(std::move(it->second));
    it = c.early.erase(it);
  }
  return ready;
}

std::vector<Acknowledged> Inbox::take_unsent() {
  std::vector<Acknowledged> unsent;
  for (std::uint8_t i = 0; i < Service::kClasses; ++i) {
    Class& c = classes_[i];
    if (c.next > c.sent) unsent.push_back({i, c.next});
    c.sent = c.next;
  }
  return unsent;
}

std::vector<Acknowledged> Inbox::all() const {
  std::vector<Acknowledged> all;
  for (std::uint8_t i = 0; i < Service::kClasses; ++i)
    if (classes_[i].next > 0) all.push_back({i, classes_[i].next});
  return all;
}

void Inbox::resend_acknowledgements() {
  for (Class& c : classes_) c.sent = 0;
}

void Inbox::state(Archive& ar) {
  for (Class& c : classes_) {
    ar(c.next, c.early);
    if (!ar.loading()) continue;
    c.sent = c.early_bytes = 0;
    for (const auto& [number, frame] : c.early) c.early_bytes += frame.size();
  }
}

}  // namespace longhaul::net
