#include "longhaul/sync/relay.h"

namespace longhaul::sync {

Relay::Relay(SyncParts parts, bool lets_return, std::unique_ptr<Machine> service)
    : overlay_(std::move(parts.overlay)), service_(std::move(service)), lets_return_(lets_return) {
  own(*overlay_, kOverlayChild);
  if (service_) own(*service_, kServiceChild);
}

void Relay::on_start(Turn& turn) { turn.finish(); }

void Relay::on_view(const View&, Turn& turn) {
  if (live_with(Role::worker, turn.place(), turn.view()).empty())
    turn.fail("all workers are lost: nobody is left to train; restart them and resume");
}

}  // namespace longhaul::sync
