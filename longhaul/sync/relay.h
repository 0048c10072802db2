#pragma once
// Relay is the strategy of a node without a learner: a hub's server on a site of its own, or a
// witness. Its overlay serves the other nodes. It computes and decides nothing, so it arrives at
// the finish barrier at once and is released when all workers have arrived.
#include "longhaul/core/registry.h"

namespace longhaul::sync {

// Children of nodes with and without a learner, which exchange messages.
inline constexpr ChildName kOverlayChild{0, "overlay"}, kServiceChild{3, "service"};

class Relay final : public Strategy {
 public:
  // Without an overlay the node serves no other node. `service`: the second machine of the workers'
  // strategy that is also served here; may be null.
  Relay(SyncParts parts, bool lets_return, std::unique_ptr<Machine> service = nullptr)
      : overlay_(std::move(parts.overlay)),
        service_(std::move(service)),
        lets_return_(lets_return) {
    if (overlay_) own(*overlay_, kOverlayChild);
    if (service_) own(*service_, kServiceChild);
  }

  void on_start(Turn& turn) override { turn.finish(); }
  void on_view(const View&, Turn& turn) override {
    if (live_workers(turn).empty())
      turn.fail(
          state_lost("all workers are lost: nobody is left to train; restart them and resume"));
  }
  Round rounds_done() const override { return 0; }  // holds no model
  bool lets_return() const override { return lets_return_; }
  std::string waiting_for() const override { return ""; }

 private:
  std::unique_ptr<Overlay> overlay_;
  std::unique_ptr<Machine> service_;
  const bool lets_return_;
};

}  // namespace longhaul::sync
