#pragma once
// Stale synchronous parallel training: every worker steps on a copy of the server's model of its
// own, gives each update to the server, and reads the model anew only when what it has seen of the
// others may lack updates that are more than `staleness` clocks old; then it waits for the slowest.
//   Ho et al., "More effective distributed ML via a stale synchronous parallel parameter server",
//   NIPS 2013, section 3. A clock is one step; u = -eta g / n, so staleness 0 is synchronous SGD.
#include "longhaul/core/registry.h"
#include "longhaul/sync/server/clocks.h"
#include "longhaul/sync/server/parameter_server.h"
#include "longhaul/sync/server/parameter_server_worker.h"

namespace longhaul::sync {

// What only the models of ssp say.
struct SspModel {
  static constexpr std::uint16_t kKind = 1;
  static constexpr std::string_view kName = "model";
  std::uint64_t clock = 0;  // updates that each live worker has given, at least
  std::uint64_t own = 0;    // that the one it goes to has given
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    LONGHAUL_FIELD(clock, .max = 0x1p50);
    LONGHAUL_FIELD(own, .max = 0x1p50);
  }
};

struct SspConfig {
  std::uint32_t staleness = 3;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    LONGHAUL_FIELD(staleness,
                   .doc =
                       "clocks that a worker may be ahead of the slowest (s); it keeps up to s + 1 "
                       "updates that wait for its link",
                   .max = 1000, .unit = "steps");
  }
};

class SspWorker final : public server::ParameterServerWorker {
 public:
  SspWorker(const SspConfig& config, const server::Setup& setup)
      : ParameterServerWorker(setup), config_(config) {}
  void state(Archive&) override;

 private:
  void begin(Turn&) override;
  void computed(const Computed&, Turn&) override;
  void read(const server::ServerHeader&, const Snapshot& model, Turn&) override;
  Status check_extension(const server::ServerHeader&) const override;

  const SspConfig config_;
  std::vector<float> before_;  // the parameters that the step is taken from
  std::uint64_t minimum_ = 0;  // clocks that all have completed, as far as it knows
};

class SspServer final : public server::ParameterServer {
 public:
  SspServer(const SspConfig& config, const server::Setup& setup)
      : ParameterServer(setup), config_(config), clocks_(setup.workers) {}
  void state(Archive&) override;

 private:
  Taken commit(Rank from, const server::ServerHeader&, std::span<const float> values,
               Turn&) override;
  bool may_read(Rank) const override;
  server::Extension model_extension(Rank rank) override {
    return server::to_extension(SspModel{clocks_.minimum(), clocks_.of(rank)});
  }
  void drop(Rank rank) override { clocks_.lose(rank); }
  void on_return(Rank rank) override { clocks_.join(rank); }

  const SspConfig config_;
  server::Clocks clocks_;
};

struct Ssp {
  using Config = SspConfig;
  using Worker = SspWorker;
  using Server = SspServer;
  static SyncEntry entry();
};

}  // namespace longhaul::sync
