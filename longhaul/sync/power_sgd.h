#pragma once
// PowerSGD: as bsp, but of each weight matrix of the gradient a product of rank r is averaged.
//   Vogels, Karimireddy, Jaggi, "PowerSGD: practical low-rank gradient compression for distributed
//   optimization", NeurIPS 2019, algorithms 1 (compression) and 2 (error feedback)
#include "longhaul/sync/optimizer_transfer.h"
#include "longhaul/sync/power/low_rank.h"
#include "longhaul/sync/synchronous.h"

namespace longhaul::sync {

class PowerSgd final : public Synchronous {
 public:
  static SyncEntry entry();
  struct Config {
    std::uint32_t rank = 2;
    bool warm_start = true;
    template <class Self, class Visit>
    static void fields(Self& self, Visit&& visit) {
      LONGHAUL_FIELD(rank, .doc = "of the products that stand for matrices (r)", .min = 1,
                     .max = 1024);
      LONGHAUL_FIELD(warm_start, .doc = "begin with the last step's Q, not with a new one");
    }
  };

  PowerSgd(const Config&, SyncParts parts, const Place& place);

  void on_step(const StepResult& result, Turn&) override { optimizer_.on_step(result); }
  void on_computed(const Computed&, Turn&) override;
  void state(Archive&) override;

 private:
  void begin_run(Turn&) override;
  void begin_round(Turn&) override;
  std::size_t exchanged(const Turn&) const override { return factors_.left_size(); }
  std::size_t exchanged_second() const override { return factors_.right_size(); }
  void use_mean(std::span<float> mean, Turn&) override;
  void use_second_mean(std::span<float> mean, Turn&) override;
  bool ready_to_send_state(Turn& turn) override { return optimizer_.ready(turn); }
  void on_returned(Turn&) override;
  bool fits(std::size_t parameters) const override;
  void draw(Turn&);
  void apply(std::span<float> gradient, Turn&);

  const Config config_;
  const power::LowRank factors_;
  std::vector<float> error_;  // e; from a gradient until its mean is here: g + e
  std::vector<float> p_, q_;  // the newest means, equal on all
  OptimizerTransfer optimizer_;
  bool applying_ = false;  // the optimiser is at the mean gradient, not the model at a batch
};

}  // namespace longhaul::sync
