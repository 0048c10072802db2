#pragma once
// All in a circle: reduce-scatter, then all-gather. docs/overlay/ring.md
#include "longhaul/overlay/ring_attempt.h"

namespace longhaul::overlay {

struct RingConfig {
  std::string phases = "streamed";
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit(Field{.name = "phases",
                .doc = "streamed: a piece is passed on when it comes; sequential: when its whole "
                       "segment is here",
                .choices = {"streamed", "sequential"}},
          self.phases);
  }
};

class Ring final : public Topology {
 public:
  explicit Ring(const RingConfig& config) : streamed_(config.phases == "streamed") {}
  std::uint32_t shards(std::uint32_t workers) const override { return workers; }
  std::unique_ptr<Attempt> open(const Terms& terms) const override {
    return std::make_unique<RingAttempt>(terms, streamed_);
  }

 private:
  const bool streamed_;
};

}  // namespace longhaul::overlay
