#pragma once
// FedGSync: workers are grouped by the likeness of their data; a round waits for a quota of each
// group, not for everybody, and weighs groups, not arrivals. What the round waits for goes first.
//   "FedGSync: jointly optimized weak synchronization and gradient transmission for fast
//   distributed machine learning in heterogeneous WAN" (OpenReview UGpu360ONV). A reconstruction
//   from its abstract: docs/sync/fedgsync.md says what is whose.
#include "longhaul/core/registry.h"
#include "longhaul/sync/fedgsync_server.h"
#include "longhaul/sync/local_update.h"
#include "longhaul/sync/server/parameter_server_worker.h"

namespace longhaul::sync {

// Before it asks for the first model it sketches the mean gradient of a few batches there, without
// a step; every update brings a sketch of itself.
class FedGSyncWorker final : public server::ParameterServerWorker {
 public:
  static constexpr std::uint32_t kMostResets = 3;  // updates in a row that are not finite

  FedGSyncWorker(const FedGSyncConfig& config, const server::Setup& setup)
      : ParameterServerWorker(setup), config_(config) {}
  void state(Archive&) override;
  Service service() const override {
    return {.priority = std::uint8_t(Service{}.priority - urgency_)};
  }

 private:
  bool prepares(Turn&) override;
  void begin(Turn&) override;
  void computed(const Computed&, Turn&) override;
  void read(const server::ServerHeader&, const Snapshot& model, Turn&) override;
  server::Extension pull_extension() const override;
  server::Extension push_extension(const Computed&) const override { return pull_extension(); }
  Status check_extension(const server::ServerHeader&) const override;
  void on_notice(const server::ServerHeader&, Turn&) override;

  void profile(const Computed&, Turn&);
  void sketch(std::span<const float> parameters, Turn&);

  const FedGSyncConfig config_;
  LocalUpdate local_;
  std::uint32_t batches_ = 0;   // of the profile, so far
  std::vector<float> profile_;  // sum of their gradients at the output layer
  std::vector<float> sketch_;   // the newest
  std::uint64_t shard_ = 0;
  std::uint32_t resets_ = 0;  // in a row
  bool resetting_ = false;
  std::uint8_t urgency_ = 0;  // of its update
};

struct FedGSync {
  using Config = FedGSyncConfig;
  using Worker = FedGSyncWorker;
  using Server = FedGSyncServer;
  static SyncEntry entry();
  static std::uint64_t commits(const Config&, const server::Setup&) { return 1; }  // a round
};

}  // namespace longhaul::sync
