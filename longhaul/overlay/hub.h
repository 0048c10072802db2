#pragma once
// All to one server and back: the parameter server. docs/overlay/hub.md
#include "longhaul/overlay/owners.h"

namespace longhaul::overlay {

struct HubConfig {
  std::string phases = "streamed";
  std::string down_codec = "fp32";
  std::uint32_t window = 0;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit(Field{.name = "phases",
                .doc = "streamed: a piece's mean is sent when it is formed; sequential: when the "
                       "whole mean is",
                .choices = {"streamed", "sequential"}},
          self.phases);
    visit(Field{.name = "down_codec",
                .doc = "how the server writes the mean: fp32, or same for the job's codec",
                .choices = {"fp32", "same"}},
          self.down_codec);
    visit(Field{.name = "window",
                .doc = "pieces each worker may have on their way without their mean, which bounds "
                       "the server's memory; 0: no limit; needs phases = \"streamed\"",
                .max = 1 << 20,
                .unit = "chunks"},
          self.window);
  }
};

class Hub final : public Topology {
 public:
  // `server`: [roles] server; when it is absent or lost the lowest live worker serves.
  Hub(const HubConfig& config, std::optional<Rank> server)
      : options_{config.phases == "streamed", config.down_codec == "fp32", config.window},
        server_(server) {}
  Partition cut(std::uint64_t length, std::uint32_t, std::uint64_t chunk) const override {
    return {length, 1, chunk};
  }
  std::optional<Rank> server(const std::vector<Rank>& members, const View& view) const override {
    return serving(server_, members, view);
  }
  std::optional<RoutePlan> routes(const Partition&, const GroupMembers&) const override;
  std::unique_ptr<Attempt> open(const ExchangeSpec& spec) const override {
    return std::make_unique<Owners>(spec, options_);
  }

 private:
  const OwnersOptions options_;
  const std::optional<Rank> server_;
};

}  // namespace longhaul::overlay
