#pragma once
// The settings of [sync] kind = "fedgsync", and what its workers and server say beside the model.
#include <string>
#include <string_view>
#include <vector>

#include "longhaul/base/fields.h"

namespace longhaul::sync {

inline constexpr std::uint32_t kLongestSketch = 4096;

// Of a worker, with each pull and push.
struct FedGSyncUpdate {
  static constexpr std::uint16_t kKind = 1;
  static constexpr std::string_view kName = "update";
  std::uint64_t shard = 0;         // samples that the worker holds; 0: it does not tell
  std::vector<float> sketch = {};  // of the gradient
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    LONGHAUL_FIELD(shard, .max = 0x1p40);
    LONGHAUL_FIELD(sketch, .max = kLongestSketch);
  }
};

// Of the server, with each model and, when the class changes meanwhile, in a notice.
struct FedGSyncModel {
  static constexpr std::uint16_t kKind = 2;
  static constexpr std::string_view kName = "model";
  std::uint8_t urgency = 0;  // of the update under way, or the next; 0 goes first
  bool refused = false;      // the update that this answers was not taken
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    LONGHAUL_FIELD(urgency, .max = 2);
    LONGHAUL_FIELD(refused);
  }
};

struct FedGSyncConfig {
  std::uint32_t steps = 10;
  std::uint32_t groups = 0;
  double rho = 0.25;
  std::string share = "data";
  std::uint32_t max_staleness = 16;
  double global_rate = 1;
  std::uint32_t regroup = 50;
  std::uint32_t sketch = 256;
  std::uint32_t sketch_batches = 4;
  double round_deadline = 5;
  bool differential = true;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    LONGHAUL_FIELD(steps, .doc = "local steps between two pushes (H)", .min = 1);
    LONGHAUL_FIELD(groups,
                   .doc = "groups of workers with like data; 0: as many as the data show, up to 8",
                   .max = 1000);
    LONGHAUL_FIELD(rho, .doc = "share of each group that a round waits for", .max = 1,
                   .positive = true);
    LONGHAUL_FIELD(share, .doc = "groups count by the samples of their workers, or alike (pi)",
                   .choices = {"data", "equal"});
    LONGHAUL_FIELD(max_staleness, .doc = "updates from older models are refused (S)",
                   .unit = "versions");
    LONGHAUL_FIELD(global_rate,
                   .doc = "of the groups' mean update, how much is added to the model (eta_g)",
                   .max = 10, .positive = true);
    LONGHAUL_FIELD(regroup,
                   .doc =
                       "groups are made anew after so many rounds, or when a fifth of the workers "
                       "is lost",
                   .min = 1, .unit = "rounds");
    LONGHAUL_FIELD(sketch, .doc = "numbers in the sketch of a gradient", .min = 1,
                   .max = kLongestSketch);
    LONGHAUL_FIELD(sketch_batches, .doc = "batches whose gradients the first sketch is of",
                   .min = 1, .max = 1000);
    LONGHAUL_FIELD(round_deadline,
                   .doc =
                       "a round that takes so many times the median ends without the groups that "
                       "miss their quota",
                   .min = 1, .max = 1e6);
    LONGHAUL_FIELD(differential,
                   .doc = "updates that the round waits for go before others on full links");
  }
};

}  // namespace longhaul::sync
