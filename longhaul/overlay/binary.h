#pragma once
// All nodes in one complete binary tree. docs/overlay/binary.md
#include "longhaul/overlay/tree_attempt.h"

namespace longhaul::overlay {

struct BinaryConfig {
  std::string phases = "streamed";
  std::string order = "id";
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit(Field{.name = "phases",
                .doc = "streamed: a piece goes on when it is mixed, or its mean is there; "
                       "sequential: when the whole vector is",
                .choices = {"streamed", "sequential"}},
          self.phases);
    visit(Field{.name = "order",
                .doc = "how workers fill the tree below the server: id, by rank; seeded, as drawn "
                       "from the job's seed",
                .choices = {"id", "seeded"}},
          self.order);
  }
};

// `order`: all places, the root's first. Below the i-th stand the (2i+1)-th and the (2i+2)-th.
Tree binary_tree(const std::vector<std::uint32_t>& order);

class Binary final : public Topology {
 public:
  // `server`: as of hub.
  Binary(const BinaryConfig& config, std::optional<Rank> server, const Place& place);
  Partition cut(std::uint64_t length, std::uint32_t, std::uint64_t chunk) const override {
    return {length, 1, chunk};
  }
  std::optional<Rank> server(const std::vector<Rank>& members, const View& view) const override {
    return serving(server_, members, view);
  }
  std::optional<Forest> forest(const Partition&, const GroupMembers&) const override;
  std::unique_ptr<Attempt> open(const ExchangeSpec& spec) const override {
    return std::make_unique<TreeAttempt>(spec, streamed_);
  }

 private:
  const bool streamed_;
  const std::optional<Rank> server_;
  std::vector<Rank> order_;  // of all nodes of the job; who is lost is left out
};

}  // namespace longhaul::overlay
