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
    visit(Field{.name = "shard", .max = 0x1p40}, self.shard);
    visit(Field{.name = "sketch", .max = kLongestSketch}, self.sketch);
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
    visit(Field{.name = "urgency", .max = 2}, self.urgency);
    visit(Field{.name = "refused"}, self.refused);
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
    visit(Field{.name = "steps", .doc = "local steps between two pushes (H)", .min = 1},
          self.steps);
    visit(Field{.name = "groups",
                .doc = "groups of workers with like data; 0: as many as the data show, up to 8",
                .max = 1000},
          self.groups);
    visit(Field{.name = "rho",
                .doc = "share of each group that a round waits for",
                .max = 1,
                .positive = true},
          self.rho);
    visit(Field{.name = "share",
                .doc = "groups count by the samples of their workers, or alike (pi)",
                .choices = {"data", "equal"}},
          self.share);
    visit(Field{.name = "max_staleness",
                .doc = "updates from older models are refused (S)",
                .unit = "versions"},
          self.max_staleness);
    visit(Field{.name = "global_rate",
                .doc = "of the groups' mean update, how much is added to the model (eta_g)",
                .max = 10,
                .positive = true},
          self.global_rate);
    visit(Field{.name = "regroup",
                .doc = "groups are made anew after so many rounds, or when a fifth of the workers "
                       "is lost",
                .min = 1,
                .unit = "rounds"},
          self.regroup);
    visit(Field{.name = "sketch",
                .doc = "numbers in the sketch of a gradient",
                .min = 1,
                .max = kLongestSketch},
          self.sketch);
    visit(Field{.name = "sketch_batches",
                .doc = "batches whose gradients the first sketch is of",
                .min = 1,
                .max = 1000},
          self.sketch_batches);
    visit(Field{.name = "round_deadline",
                .doc = "a round that takes so many times the median ends without the groups that "
                       "miss their quota",
                .min = 1,
                .max = 1e6},
          self.round_deadline);
    visit(Field{.name = "differential",
                .doc = "updates that the round waits for go before others on full links"},
          self.differential);
  }
};

}  // namespace longhaul::sync
