#pragma once
// Elastic averaging: every worker trains a model of its own, and from time to time it and the
// server's centre pull each other by a share of what they are apart.
//   Zhang, Choromanska, LeCun, "Deep learning with elastic averaging SGD", NIPS 2015, algorithm 1
//   (asynchronous EASGD; with momentum in [optimizer], EAMSGD, algorithm 2, but for the order of
//   momentum and pull). In rounds: easgd_synchronous.h.
//
// A worker keeps what the codec leaves out of its pull: that is still in x - c, and comes with the
// next one.
#include "longhaul/core/registry.h"
#include "longhaul/sync/server/parameter_server.h"
#include "longhaul/sync/server/parameter_server_worker.h"

namespace longhaul::sync {

struct EasgdConfig {
  std::uint32_t steps = 10;
  double beta = 0.9;
  bool synchronous = false;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    LONGHAUL_FIELD(steps, .doc = "local steps between two pulls (tau)", .min = 1);
    LONGHAUL_FIELD(
        beta,
        .doc =
            "n times the share alpha of x - c by which worker and centre move, n workers "
            "at the start",
        .max = 1, .positive = true);
    LONGHAUL_FIELD(synchronous,
                   .doc =
                       "all pull at once, in rounds, over any overlay; false: each when it comes, "
                       "at a server");
  }
};

class EasgdWorker final : public server::ParameterServerWorker {
 public:
  EasgdWorker(const EasgdConfig& config, const server::Setup& setup)
      : ParameterServerWorker(setup), config_(config) {}

 private:
  void begin(Turn&) override;
  void computed(const Computed&, Turn&) override;
  void read(const server::ServerHeader&, const Snapshot& model, Turn&) override;
  // Its model is its own, whoever holds the centre.
  void given_up(const Computed& done, Turn& turn) override { computed(done, turn); }
  void state(Archive&) override;

  const EasgdConfig config_;
  Computed done_;  // since the last push
};

class EasgdServer final : public server::ParameterServer {
 public:
  EasgdServer(const EasgdConfig& config, const server::Setup& setup)
      : ParameterServer(setup), config_(config) {}

 private:
  Taken commit(Rank from, const server::ServerHeader&, std::span<const float> values,
               Turn&) override;

  const EasgdConfig config_;
};

struct Easgd {
  using Config = EasgdConfig;
  using Worker = EasgdWorker;
  using Server = EasgdServer;
  static SyncEntry entry();
};

}  // namespace longhaul::sync
