#pragma once
// The settings of [sync] kind = "fedgsync", for both of its halves.
#include <string>

#include "longhaul/base/fields.h"
#include "longhaul/sync/server/courier.h"

namespace longhaul::sync {

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
                .max = server::Label::kLongestSketch},
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
