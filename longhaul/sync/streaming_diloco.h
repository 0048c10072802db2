#pragma once
// Streaming DiLoCo: the model is synchronised part by part, one part a round, while the sites
// compute on.
//   Douillard et al., "Streaming DiLoCo with overlapping communication: towards a distributed free
//   lunch", arXiv 2501.18512; write_back = "delta" is ours.
//
// In round r, with f the fragment whose turn it is and H = steps x fragments:
//   after `steps` steps since the last round's:  y <- x_f;  ubar <- agreed mean of y - X_f
//   `delay` steps later:  X_f <- X_f + outer_f(ubar);  x_f takes in X_f    (shadow/write_back.h)
// A site stands still only if the mean is not there by then. What ends a round, and the run, is X.
#include "longhaul/sync/shadow/write_back.h"
#include "longhaul/sync/synchronous.h"

namespace longhaul::sync {

class StreamingDiLoCo final : public Synchronous {
 public:
  static SyncEntry entry();
  struct Config {
    std::uint32_t steps = 25;
    std::uint32_t fragments = 4;
    std::uint32_t delay = 1;
    std::string write_back = "delta";
    double alpha = 1;
    std::uint32_t min_sites = 1;

    template <class Self, class Visit>
    static void fields(Self& self, Visit&& visit) {
      LONGHAUL_FIELD(steps,
                     .doc = "local steps in a round, which synchronises one fragment (H / F)",
                     .min = 1);
      LONGHAUL_FIELD(fragments, .doc = "equal parts of the model, one a round in turn (F)",
                     .min = 1, .max = 32);
      LONGHAUL_FIELD(delay,
                     .doc = "local steps that a site takes while its fragment is averaged (tau)");
      LONGHAUL_FIELD(write_back,
                     .doc =
                         "delta: what was learned meanwhile stays whole; interpolate: a share "
                         "alpha of it is lost, as published",
                     .choices = {"delta", "interpolate"});
      LONGHAUL_FIELD(alpha,
                     .doc =
                         "how far a fragment goes to the common one; 1: all the way (1 - alpha "
                         "of the publication, which has 0.5)",
                     .min = 0, .max = 1, .positive = true);
      visit_min_sites(visit, self.min_sites);
    }
  };

  StreamingDiLoCo(const Config&, SyncParts);
  static Status check(const Config&, const Place&);

  void on_computed(const Computed&, Turn&) override;
  void state(Archive&) override;
  std::string waiting_for() const override;

 private:
  void begin_run(Turn&) override;
  void begin_round(Turn& turn) override { try_contribute(turn); }
  std::span<float> model(Turn&) override { return anchor_; }
  bool takes_mean(Turn&) const override { return !computing_ && since_ >= config_.delay; }
  void use_mean(std::span<float> mean, Turn&) override;
  void use_nothing(Turn&) override;
  bool close(Turn&) override;
  void on_idle(Turn&) override;
  void waited(Wait, Time took, Turn&) override;
  void on_returned(Turn&) override;
  bool fits(std::size_t parameters) const override;
  std::uint32_t fragments() const override { return config_.fragments; }
  std::size_t exchanged(const Turn&) const override;

  // Of so many parameters, those whose turn it is in this round.
  Range fragment(std::uint64_t parameters) const;
  void try_contribute(Turn&);
  void end_with_model(Turn&);

  const Config config_;
  const shadow::WriteBack rule_;
  std::vector<std::unique_ptr<Transform>> outers_;  // one a fragment
  std::vector<float> anchor_;                       // X, parameters and buffers
  std::vector<float> y_;                            // x_f as it was sent, until the mean is used
  Computed pending_;                                // since the last contribution
  std::uint32_t since_ = 0;                         // steps since then
  bool in_flight_ = false, computing_ = false, closing_ = false;
  std::optional<Time> blocked_;  // since when there is no step to take
};

}  // namespace longhaul::sync
