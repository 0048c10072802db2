#include "longhaul/sync/relay.h"

namespace longhaul::sync {

Relay::Relay(SyncParts parts, bool lets_return)
    : overlay_(std::move(parts.overlay)), lets_return_(lets_return) {
  own(*overlay_);  // the first child, as in Synchronous: messages find it by its place
}

void Relay::on_start(Turn& turn) { turn.finish(); }

void Relay::on_view(const View&, Turn& turn) {
  if (live_with(Role::worker, turn.place(), turn.view()).empty())
    turn.fail("all workers are lost: nobody is left to train; restart them and resume");
}

}  // namespace longhaul::sync
