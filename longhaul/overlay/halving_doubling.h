#pragma once
// Recursive halving of sums, recursive doubling of means. docs/overlay/halving_doubling.md
#include "longhaul/overlay/tree_attempt.h"

namespace longhaul::overlay {

struct HalvingDoublingConfig {
  std::string phases = "streamed";
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit(Field{.name = "phases",
                .doc = "streamed: a piece goes on when it is mixed, or its mean is there; "
                       "sequential: when its whole segment is",
                .choices = {"streamed", "sequential"}},
          self.phases);
  }
};

// The largest power of two that is not above n > 0: how many take part in the halving.
std::uint32_t core_of(std::uint32_t n);
// The tree of the segment of `owner`, one of the first core_of(members) places.
Tree halving_tree(std::uint32_t members, std::uint32_t owner);

class HalvingDoubling final : public Topology {
 public:
  explicit HalvingDoubling(const HalvingDoublingConfig& config)
      : streamed_(config.phases == "streamed") {}
  Partition cut(std::uint64_t length, std::uint32_t workers, std::uint64_t chunk) const override {
    return {length, core_of(workers), chunk};
  }
  std::optional<Forest> forest(const Partition&, const GroupMembers&) const override;
  std::unique_ptr<Attempt> open(const ExchangeSpec& spec) const override {
    return std::make_unique<TreeAttempt>(spec, streamed_);
  }

 private:
  const bool streamed_;
};

}  // namespace longhaul::overlay
