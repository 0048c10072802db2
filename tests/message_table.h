#pragma once
// Every struct that travels between nodes, by the family that speaks it. The fuzzer decodes each,
// docs/messages.md lists each; a family that is missing here is missing in both.
#include <string_view>

#include "longhaul/core/channel_messages.h"
#include "longhaul/core/finish_barrier.h"
#include "longhaul/core/membership.h"
#include "longhaul/core/stop_rule.h"
#include "longhaul/focus/messages.h"
#include "longhaul/overlay/forest_messages.h"
#include "longhaul/overlay/messages.h"
#include "longhaul/overlay/tsengine_messages.h"
#include "longhaul/perf/messages.h"
#include "longhaul/sync/adpsgd.h"
#include "longhaul/sync/async_diloco.h"
#include "longhaul/sync/dpsgd.h"
#include "longhaul/sync/esync_states.h"
#include "longhaul/sync/fedat.h"
#include "longhaul/sync/fedgsync.h"
#include "longhaul/sync/gadmm/dual_ledger.h"
#include "longhaul/sync/gadmm/stopping.h"
#include "longhaul/sync/gaia/headers.h"
#include "longhaul/sync/gossip/final_return.h"
#include "longhaul/sync/lag.h"
#include "longhaul/sync/noloco.h"
#include "longhaul/sync/peer_strategy.h"
#include "longhaul/sync/selmcast.h"
#include "longhaul/sync/selmcast/ssp_planning.h"
#include "longhaul/sync/server/server_header.h"
#include "longhaul/sync/server/standby.h"
#include "longhaul/sync/sfb/headers.h"
#include "longhaul/sync/shadow/elastic_node.h"
#include "longhaul/sync/shuffle/schedule_switch.h"
#include "longhaul/sync/skewscout/headers.h"
#include "longhaul/sync/ssp.h"
#include "longhaul/sync/staleness_lab.h"
#include "longhaul/sync/state_transfer.h"
#include "longhaul/transfer/dgt/messages.h"
#include "longhaul/transfer/reliable.h"

namespace longhaul {

// Calls visit.template operator()<M>(family) for every message struct M.
template <class Visit>
void for_each_message(Visit&& visit) {
  auto family = [&]<class... M>(std::string_view name, MessageList<M...>) {
    (visit.template operator()<M>(name), ...);
  };
  family("membership", Membership::Messages{});
  family("finish barrier", FinishBarrier::Messages{});
  family("stop rule", StopRule::Messages{});
  family("transfer/reliable", transfer::Reliable::Messages{});
  family("transfer/dgt", transfer::dgt::Messages{});
  family("overlay", overlay::Messages{});
  family("overlay/forest", overlay::forest::Messages{});
  family("overlay/tsengine", overlay::tsengine::Messages{});
  family("state transfer", sync::StateTransfer::Messages{});
  family("esync", sync::esync::States::Messages{});
  family("gossip", sync::gossip::StepCount::Messages{});
  family("gossip/final", sync::gossip::FinalReturn::Messages{});
  family("sync/shuffle", sync::shuffle::ScheduleSwitch::Messages{});
  family("sync/shuffle/site_rates", sync::shuffle::SiteRates::Messages{});
  family("perf", perf::Messages{});
  family("focus", focus::Messages{});
  family("vector channel", channel::Messages{});
  // In the header of a vector channel's `begin`.
  family("sync/server", MessageList<sync::server::ServerHeader>{});
  family("sync/server/standby", MessageList<sync::server::StandbyHeader>{});
  family("sync/ssp", MessageList<sync::SspModel>{});
  family("sync/async_diloco", MessageList<sync::AsyncDiLoCoPush, sync::AsyncDiLoCoModel>{});
  family("sync/fedat", MessageList<sync::FedAtUpdate>{});
  family("sync/peer", sync::PeerStrategy::Messages{});
  family("sync/dpsgd", MessageList<sync::DpsgdHeader>{});
  family("sync/noloco", MessageList<sync::NoLoCoHeader>{});
  family("sync/adpsgd", MessageList<sync::AdpsgdHeader>{});
  family("sync/selmcast", MessageList<sync::selmcast::Header, sync::selmcast::RoundsMixed>{});
  family("sync/staleness_lab", MessageList<sync::StalenessHeader>{});
  family("selmcast", sync::selmcast::Planning::Messages{});
  family("selmcast_ssp", sync::selmcast::SspPlanning::Messages{});
  family("sync/gadmm/duals", sync::gadmm::DualLedger::Messages{});
  family("sync/gadmm/stopping rule", sync::gadmm::Stopping::Messages{});
  family("sync/lag", MessageList<sync::LagHeader>{});
  family("sync/shadowsync", MessageList<sync::shadow::ElasticHeader>{});
  family("sync/gaia", MessageList<sync::gaia::UpdateHeader, sync::gaia::BaseHeader,
                                  sync::gaia::BarrierHeader, sync::gaia::BaseClock>{});
  family(
      "sync/sfb",
      MessageList<sync::sfb::FactorsHeader, sync::sfb::ControlHeader, sync::sfb::AdoptedHeader>{});
  family("sync/skewscout",
         MessageList<sync::skewscout::TravelHeader, sync::skewscout::NoteHeader>{});
  family("sync/fedgsync", MessageList<sync::FedGSyncUpdate, sync::FedGSyncModel>{});
}

}  // namespace longhaul
