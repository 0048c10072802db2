#pragma once
// The configuration of both forms of selmcast.
#include "longhaul/core/registry.h"
#include "longhaul/sync/selmcast/planning.h"

namespace longhaul::sync::selmcast {

struct Config {
  std::string mode = "bsp";
  std::string receivers = "selmcast";
  double share = 0.3;
  std::uint32_t overdue_after = 4;
  std::uint32_t steps = 1;
  std::string payload = "model";
  double debt_mb = 1000;
  std::string multicast = "l7";
  std::string rates = "configured";
  std::uint32_t staleness = 4;
  double keep_below = 0.75;
  double progress_s = 0.1;

  static void fields(auto& self, auto&& visit) {
    LONGHAUL_KEY(mode, "bsp: lock step with a common plan; ssp: each worker sends when it is ready",
                 .choices = {"bsp", "ssp"});
    LONGHAUL_KEY(receivers,
                 "selmcast: by bandwidth, and more where that costs no time; orpheus: by chance; "
                 "optimal (bsp, up to 30 workers): by an integer programme",
                 .choices = {"selmcast", "orpheus", "all", "optimal"});
    LONGHAUL_KEY(share, "least share of the workers that each sends to (p)", .max = 1,
                 .positive = true);
    LONGHAUL_KEY(overdue_after,
                 "rounds after which a worker that has had nothing from another gets its model "
                 "(k); 0: never",
                 .max = 1e6);
    LONGHAUL_KEY(steps, "local steps in a round", .min = 1);
    LONGHAUL_KEY(payload,
                 "model: averaged whole; update (bsp): the sender's steps that the receiver lacks, "
                 "each of which counts 1/n",
                 .choices = {"model", "update"});
    LONGHAUL_KEY(debt_mb, "payload = update: the most memory of a worker for what it owes",
                 .unit = "MB", .positive = true);
    LONGHAUL_KEY(multicast,
                 "l7: a copy to each receiver; l3 (simulate only): the network copies, one flow at "
                 "the rate of the slowest receiver",
                 .choices = {"l7", "l3"});
    LONGHAUL_KEY(
        rates,
        "rates that plans use. configured: those of [wan]; measured: those of earlier rounds",
        .choices = {"configured", "measured"});
    LONGHAUL_KEY(staleness,
                 "ssp: rounds that a worker may be ahead of the slowest when it begins one",
                 .max = 1e6);
    LONGHAUL_KEY(keep_below,
                 "ssp: what has less than this share of its bytes left is not cancelled (eta)",
                 .max = 1);
    LONGHAUL_KEY(progress_s, "ssp: how often a sender says what it has left", .unit = "s",
                 .positive = true);
  }
};

// The header of a model.
struct Header {
  LONGHAUL_MESSAGE(0, "header");  // not a message by itself: it is in one
  Round round = 0;
  static void fields(auto& self, auto&& visit) { LONGHAUL_FIELD(round, .max = 0x1p50); }
};

// Sent with payload = "update" before the round in which a worker enters a view, and at the end.
struct RoundsMixed {
  LONGHAUL_MESSAGE(2, "rounds_mixed");
  Epoch epoch = 0;
  Round rounds = 0;      // the updates of the rounds before this one are in the model of the sender
  bool is_over = false;  // the sender mixes no more
  LONGHAUL_FIELDS(epoch, (rounds, .max = 0x1p50), is_over)
};

// The service class of models that the network copies; used for these only.
inline constexpr std::uint8_t kMulticastPriority = 3;
inline Service service_of(const Config& config) {
  return {.priority = config.multicast == "l3" ? kMulticastPriority : Service{}.priority};
}

// Checks what the ranges of the keys do not express.
Status check(const Config&, const Place&);

// Returns the plan's configuration. The network is the job's, which is a belief. The nodes of a
// site share its port.
PlanConfig plan_config(const Config&, const SyncParts&, const Place&);

}  // namespace longhaul::sync::selmcast
