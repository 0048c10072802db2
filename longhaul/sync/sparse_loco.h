#pragma once
// SparseLoCo: DiLoCo's rounds with a sparse exchange in two bits, and a decaying error feedback in
// place of the outer momentum.
//   "Communication efficient LLM pre-training with SparseLoCo", arXiv 2508.15706.
// The algorithm is DiLoCo's with outer rate 1 and no momentum; what makes the difference is the
// codec that it presets (codec/q_top_k.h), with error_feedback and feedback_decay.
#include "longhaul/sync/diloco.h"

namespace longhaul::sync {

class SparseLoCo final : public DiLoCo {
 public:
  static SyncEntry entry();
  struct Config {
    std::uint32_t steps = 30;
    std::uint32_t min_sites = 1;

    template <class Self, class Visit>
    static void fields(Self& self, Visit&& visit) {
      LONGHAUL_FIELD(steps, .doc = "local steps in a round (H)", .min = 1);
      visit_min_sites(visit, self.min_sites);
    }
  };

  SparseLoCo(const Config& config, SyncParts parts)
      : DiLoCo(entry(), {config.steps, config.min_sites}, std::move(parts)) {}
  static Status check(const Config&, const Place&);
};

}  // namespace longhaul::sync
