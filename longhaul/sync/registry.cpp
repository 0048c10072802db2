#include "longhaul/sync/registry.h"

#include "longhaul/sync/adpsgd.h"
#include "longhaul/sync/asp.h"
#include "longhaul/sync/bsp.h"
#include "longhaul/sync/diloco.h"
#include "longhaul/sync/dpsgd.h"
#include "longhaul/sync/ds_sync.h"
#include "longhaul/sync/easgd.h"
#include "longhaul/sync/esync.h"
#include "longhaul/sync/fedasync.h"
#include "longhaul/sync/fedat.h"
#include "longhaul/sync/fedavg.h"
#include "longhaul/sync/fedgsync.h"
#include "longhaul/sync/fedprox.h"
#include "longhaul/sync/fedssgd.h"
#include "longhaul/sync/gadmm.h"
#include "longhaul/sync/gaia.h"
#include "longhaul/sync/lag.h"
#include "longhaul/sync/nbsync.h"
#include "longhaul/sync/p3.h"
#include "longhaul/sync/power_sgd.h"
#include "longhaul/sync/selmcast.h"
#include "longhaul/sync/sfb.h"
#include "longhaul/sync/shadowsync.h"
#include "longhaul/sync/skewscout.h"
#include "longhaul/sync/sparse_loco.h"
#include "longhaul/sync/ssp.h"
#include "longhaul/sync/staleness_lab.h"
#include "longhaul/sync/streaming_diloco.h"

namespace longhaul::sync {
namespace {

// clang-format off
constexpr SyncEntry (*kStrategies[])() = {
    Bsp::entry,
    FedAvg::entry,
    DiLoCo::entry,
    SparseLoCo::entry,
    FedProx::entry,
    FedSsgd::entry,
    ESync::entry,
    NBSync::entry,
    Asp::entry,
    Ssp::entry,
    FedAsync::entry,
    FedAt::entry,
    FedGSync::entry,
    Easgd::entry,
    Dpsgd::entry,
    Adpsgd::entry,
    Selmcast::entry,
    StalenessLab::entry,
    DsSync::entry,
    ShadowSync::entry,
    Gaia::entry,
    Sfb::entry,
    PowerSgd::entry,
    P3::entry,
    Gadmm::entry,
    Lag::entry,
    SkewScout::entry,
    StreamingDiLoCo::entry,
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
