#include "longhaul/sync/registry.h"

#include "longhaul/sync/adpsgd.h"
#include "longhaul/sync/asp.h"
#include "longhaul/sync/async_diloco.h"
#include "longhaul/sync/ds_sync.h"
#include "longhaul/sync/easgd.h"
#include "longhaul/sync/fedasync.h"
#include "longhaul/sync/fedat.h"
#include "longhaul/sync/fedavg.h"
#include "longhaul/sync/fedgsync.h"
#include "longhaul/sync/gaia.h"
#include "longhaul/sync/lag.h"
#include "longhaul/sync/p3.h"
#include "longhaul/sync/selmcast.h"
#include "longhaul/sync/sfb.h"
#include "longhaul/sync/shadowsync.h"
#include "longhaul/sync/skewscout.h"
#include "longhaul/sync/ssp.h"
#include "longhaul/sync/staleness_lab.h"

namespace longhaul::sync {

// Defined in the files of the strategies.
SyncEntry bsp_entry(), diloco_entry(), sparse_loco_entry(), fedprox_entry(), fedssgd_entry(),
    esync_entry(), nbsync_entry(), dpsgd_entry(), power_sgd_entry(), gadmm_entry(), noloco_entry(),
    streaming_diloco_entry();

namespace {

// clang-format off
constexpr SyncEntry (*kStrategies[])() = {
    bsp_entry,
    FedAvg::entry,
    diloco_entry,
    sparse_loco_entry,
    fedprox_entry,
    fedssgd_entry,
    esync_entry,
    nbsync_entry,
    Asp::entry,
    Ssp::entry,
    FedAsync::entry,
    FedAt::entry,
    FedGSync::entry,
    Easgd::entry,
    dpsgd_entry,
    Adpsgd::entry,
    Selmcast::entry,
    StalenessLab::entry,
    DsSync::entry,
    ShadowSync::entry,
    Gaia::entry,
    Sfb::entry,
    power_sgd_entry,
    P3::entry,
    gadmm_entry,
    Lag::entry,
    SkewScout::entry,
    streaming_diloco_entry,
    noloco_entry,
    AsyncDiLoCo::entry,
};
// clang-format on

}  // namespace

std::span<const SyncEntry> registry() {
  static const std::vector<SyncEntry> entries = [] {
    std::vector<SyncEntry> all;
    for (const auto entry : kStrategies) all.push_back(entry());
    return all;
  }();
  return entries;
}

}  // namespace longhaul::sync
