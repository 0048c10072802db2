#pragma once
// Everyone to everyone: each worker owns a share of the vector. docs/overlay/direct.md
#include "longhaul/overlay/owners.h"

namespace longhaul::overlay {

struct DirectConfig {
  std::string phases = "streamed";
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit(Field{.name = "phases",
                .doc = "streamed: a piece's mean is sent when it is formed; sequential: when the "
                       "owner has formed all of its share",
                .choices = {"streamed", "sequential"}},
          self.phases);
  }
};

class Direct final : public Topology {
 public:
  explicit Direct(const DirectConfig& config) : options_{config.phases == "streamed"} {}
  Partition cut(std::uint64_t length, std::uint32_t workers, std::uint64_t chunk) const override {
    return {length, workers, chunk};
  }
  std::unique_ptr<Attempt> open(const ExchangeSpec& spec) const override {
    return std::make_unique<Owners>(spec, options_);
  }

 private:
  const OwnersOptions options_;
};

}  // namespace longhaul::overlay
