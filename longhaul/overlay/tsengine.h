#pragma once
// A coordinator decides every transfer online: TSEngine (IEEE TNSM 18(4), 2021).
// docs/overlay/tsengine.md
#include "longhaul/core/registry.h"
#include "longhaul/overlay/topology.h"
#include "longhaul/overlay/tsengine_attempt.h"

namespace longhaul::overlay {

class TsEngine final : public ServedTopology {
 public:
  struct Config {
    std::uint32_t buckets = 8;
    std::string phases = "streamed";
    double greed = 0.9;
    std::uint32_t expire = 5;
    double ema = 0.5;
    double deadline = 5;
    double unknown_deadline = 60;
    static void fields(auto& self, auto&& visit) {
      LONGHAUL_KEY(
          buckets,
          "parts of the vector, each scheduled alone; 1: whole vectors are stored and forwarded",
          .min = 1, .max = tsengine::kMostBuckets);
      LONGHAUL_KEY(phases,
                   "streamed: the mean of a bucket is spread when it is formed; sequential: when "
                   "those of all buckets are",
                   .choices = {"streamed", "sequential"});
      LONGHAUL_KEY(greed, "most that the fastest known link is preferred to unknown ones", .min = 0,
                   .max = 1, .unit = "probability");
      LONGHAUL_KEY(expire, "rounds without a report after which a link counts as unknown again",
                   .min = 1, .max = 1e9, .unit = "rounds");
      LONGHAUL_KEY(ema, "weight of a new throughput against what was known", .max = 1,
                   .positive = true);
      LONGHAUL_KEY(deadline,
                   "least time before another transfer replaces one; over a known link, four times "
                   "what it should take",
                   .max = 1e6, .unit = "s", .positive = true);
      LONGHAUL_KEY(unknown_deadline, "time for a transfer over an unknown link", .max = 1e6,
                   .unit = "s", .positive = true);
    }
  };

  // The coordinator of a group runs at its server.
  TsEngine(const Config& config, const OverlayParts& parts, const Place& place)
      : ServedTopology(parts.server),
        buckets_(config.buckets),
        streamed_(config.phases == "streamed"),
        config_{config.greed, config.expire, config.ema, from_seconds(config.deadline),
                from_seconds(config.unknown_deadline)},
        seed_(place.seed) {}
  bool has_plans() const override { return false; }
  std::unique_ptr<Attempt> open(const ExchangeSpec& spec) const override {
    return std::make_unique<tsengine::Agent>(spec, buckets_, streamed_,
                                             *coordinators_.at(spec.key.group));
  }
  void on_team(std::uint32_t group, const GroupMembers* team) override {
    if (!team) return void(coordinators_.erase(group));
    auto& coordinator = coordinators_[group];
    if (!coordinator) coordinator = std::make_unique<tsengine::Coordinator>(config_, seed_);
    coordinator->new_team(*team);
  }
  void state(Archive& ar) override {  // only existing groups
    for (auto& [group, coordinator] : coordinators_) ar(*coordinator);
  }

 private:
  const std::uint32_t buckets_;
  const bool streamed_;
  const tsengine::CoordinatorConfig config_;
  const std::uint64_t seed_;
  std::map<std::uint32_t, std::unique_ptr<tsengine::Coordinator>> coordinators_;  // by group
};

}  // namespace longhaul::overlay
