#pragma once
// DiLoCo: few synchronisations of long local runs, with an optimiser inside that keeps its state
// and Nesterov momentum outside.
//   Douillard et al., "DiLoCo: distributed low-communication training of language models", 2023,
//   algorithm 1; Jaghouar et al., "OpenDiLoCo", 2024 (the presets).
#include "longhaul/sync/local_update.h"
#include "longhaul/sync/synchronous.h"

namespace longhaul::sync {

class DiLoCo : public Synchronous {
 public:
  static SyncEntry entry();
  struct Config {
    std::uint32_t steps = 500;
    std::uint32_t min_sites = 1;

    template <class Self, class Visit>
    static void fields(Self& self, Visit&& visit) {
      LONGHAUL_FIELD(steps, .doc = "local steps in a round (H)", .min = 1);
      visit_min_sites(visit, self.min_sites);
    }
  };

  DiLoCo(const Config& config, SyncParts parts) : DiLoCo(entry(), config, std::move(parts)) {}
  static Status check(const Config&, const Place&);

  void on_computed(const Computed&, Turn&) override;
  void state(Archive&) override;

 protected:
  // Of a strategy whose rounds are the same.
  DiLoCo(const SyncEntry& entry, const Config& config, SyncParts parts)
      : Synchronous(entry, std::move(parts), config.min_sites), config_(config) {}

 private:
  void begin_run(Turn&) override;
  void begin_round(Turn&) override;
  void use_mean(std::span<float> mean, Turn&) override;
  bool fits(std::size_t parameters) const override {
    return Synchronous::fits(parameters) && local_.fits(parameters);
  }

  const Config config_;
  LocalUpdate local_;
};

}  // namespace longhaul::sync
