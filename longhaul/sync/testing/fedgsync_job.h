#pragma once
#include "longhaul/sync/fedgsync.h"
#include "longhaul/sync/testing/server_and_workers.h"

namespace longhaul::sync::testing {

// A server and workers that have sketched gradients: of worker r that of its kind of data.
struct FedGSyncJob : ServerAndWorkers<FedGSync> {
  FedGSyncJob(FedGSyncConfig config, const std::vector<int>& kinds)
      : ServerAndWorkers(with_short_sketches(config), std::uint32_t(kinds.size()), 4),
        kinds_(kinds) {
    start(0);
    for (Rank rank = 0; rank < kinds.size(); ++rank) {
      const auto grads = node(rank).learner.grads();
      std::fill(grads.begin(), grads.end(), 0.f);
      grads[std::size_t(kinds[rank])] = 1;
      computed(rank);
    }
  }
  static FedGSyncConfig with_short_sketches(FedGSyncConfig config) {
    config.sketch = 32;
    config.sketch_batches = 1;
    return config;
  }
  void give(Rank rank, float value, std::uint64_t samples = 1) {
    give(rank, value, samples, given(rank));
  }
  void give(Rank rank, float value, std::uint64_t samples, std::uint64_t version) {
    server::ServerHeader header = push_header(version);
    FedGSyncUpdate update{samples, std::vector<float>(32)};
    update.sketch[std::size_t(kinds_[rank])] = 1;
    header.extension = server::to_extension(update);
    push(rank, header, std::vector<float>(4, value));
  }
  void at(Time now) { node(0).context.now = now; }
  std::size_t commits() const { return records("round_s").size(); }
  const std::vector<grouping::Group>& groups() {
    return dynamic_cast<FedGSyncServer&>(server()).groups();
  }
  std::vector<int> kinds_;
};

}  // namespace longhaul::sync::testing
