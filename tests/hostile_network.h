#pragma once
// A network on which messages also arrive twice, again after long, cut short, spoilt, or in the
// name of another: what a broken peer could do that the hosts themselves never do.
#include <deque>
#include <set>

#include "longhaul/base/rng.h"
#include "tests/wrapped_network.h"

namespace longhaul::conformance {

enum class Abuse : std::uint8_t {
  twice,     // the same message once more
  late,      // one of the last few hundred once more, later
  cut_head,  // without the end of its fields
  cut_body,  // without the end of its body, or without any
  unknown,   // of a kind or for a machine that is not there
  lie        // a byte of the fields another, or the sender
};

class HostileNetwork final : public WrappedNetwork {
 public:
  // Each kind of abuse befalls about `share` of all messages, drawn by the seed.
  HostileNetwork(std::unique_ptr<sim::Network> network, std::set<Abuse> kinds, double share,
                 std::uint64_t seed)
      : WrappedNetwork(std::move(network)),
        kinds_(std::move(kinds)),
        share_(share),
        random_(seed, Stream{Purpose::fault}) {}

  std::uint64_t abused() const { return abused_; }

  void submit(sim::Packet packet, Time now) override {
    now_ = now;
    network_->submit(std::move(packet), now);
  }
  std::optional<Time> next_event() const override {
    return forged_.empty() ? network_->next_event() : now_;
  }
  std::optional<sim::NetworkEvent> advance() override;

 private:
  void abuse(const sim::Packet&);
  bool spoil(Abuse, sim::Packet&);

  const std::set<Abuse> kinds_;
  const double share_;
  Random random_;
  Time now_{0};
  std::deque<sim::Packet> forged_;  // delivered before anything else, at the same time
  std::deque<sim::Packet> past_;    // for late ones
  std::uint64_t abused_ = 0;
};

}  // namespace longhaul::conformance
