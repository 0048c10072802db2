#pragma once
// A network around another, which does what the test does not change.
#include <memory>
#include <utility>

#include "longhaul/sim/network.h"

namespace longhaul::conformance {

class WrappedNetwork : public sim::Network {
 public:
  explicit WrappedNetwork(std::unique_ptr<sim::Network> inner) : network_(std::move(inner)) {}

  void submit(sim::Packet packet, Time now) override { network_->submit(std::move(packet), now); }
  std::optional<Time> next_event() const override { return network_->next_event(); }
  std::optional<sim::NetworkEvent> advance() override { return network_->advance(); }
  void cut(Rank from, Rank to, Time now) override { network_->cut(from, to, now); }
  void heal(Rank from, Rank to, Time now) override { network_->heal(from, to, now); }
  void crash(Rank rank, Time now) override { network_->crash(rank, now); }
  void revive(Rank rank) override { network_->revive(rank); }
  bool has_bulk() const override { return network_->has_bulk(); }
  void state(Archive& ar) override { network_->state(ar); }

 protected:
  const std::unique_ptr<sim::Network> network_;
};

}  // namespace longhaul::conformance
