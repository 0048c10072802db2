#pragma once
// Stale synchronous parallel training. Every worker steps on its own copy of the server's model,
// and sends each update to the server. It reads the model again only if its copy may lack updates
// of other workers that are more than `staleness` clocks old. Then it waits for the slowest worker.
//   Ho et al., "More effective distributed ML via a stale synchronous parallel parameter server",
//   NIPS 2013, section 3. A clock is one step; u = -eta g / n, so staleness 0 is synchronous SGD.
#include "longhaul/core/registry.h"
#include "longhaul/sync/server/end_rule.h"
#include "longhaul/sync/server/entry.h"
#include "longhaul/sync/server/parameter_server.h"
#include "longhaul/sync/server/parameter_server_worker.h"

namespace longhaul::sync {

// The extension of a model in ssp.
struct SspModel {
  LONGHAUL_MESSAGE(1, "model");
  std::uint64_t clock = 0;  // minimum number of updates that each live worker has sent
  std::uint64_t own = 0;    // number of updates that the receiver has sent
  LONGHAUL_FIELDS((clock, .max = 0x1p50), (own, .max = 0x1p50))
};

struct SspConfig {
  std::uint32_t staleness = 3;
  static void fields(auto& self, auto&& visit) {
    LONGHAUL_KEY(staleness,
                 "clocks that a worker may be ahead of the slowest (s); it keeps up to s + 1 "
                 "updates that wait for its link",
                 .max = 1000, .unit = "steps");
  }
};

class SspWorker final : public server::ParameterServerWorker {
 public:
  SspWorker(const SspConfig& config, const server::Setup& setup)
      : ParameterServerWorker(setup), config_(config) {}
  void state(Archive& ar) override {
    ParameterServerWorker::state(ar);
    ar(before_, minimum_);
  }

 private:
  void begin(Turn& turn) override {
    assign(before_, parameters(turn));
    compute(LocalStep{}, 1, turn);
  }

  // u = (x' - x) / n; cache <- x + u. A model that is asked for with a push contains all own
  // updates. With staleness 0, all workers receive the same model, when the last one has pushed.
  void computed(const Computed& done, Turn& turn) override {
    const auto n = double(live_workers(turn).size());
    const auto x = parameters(turn);
    std::vector<float> u(x.size());
    for (std::size_t i = 0; i < u.size(); ++i) {
      u[i] = float((double(x[i]) - double(before_[i])) / n);
      x[i] = float(double(before_[i]) + double(u[i]));
    }
    const bool goes_on = server::within_bound(clock() + 1, minimum_, config_.staleness);
    push(u, done, /*asks=*/!goes_on, turn);
    if (goes_on) begin(turn);
  }

  void read(const server::ServerHeader& header, const Snapshot& model, Turn& turn) override {
    const auto said = *server::from_extension<SspModel>(header.extension);
    minimum_ = said.clock;
    set_clock(said.own);  // differs only after a takeover, in which updates were lost
    ParameterServerWorker::read(header, model, turn);
  }

  Status check_extension(const server::ServerHeader& header) const override {
    if (header.kind != server::ServerHeader::Kind::model)
      return ParameterServerWorker::check_extension(header);
    const auto model = server::from_extension<SspModel>(header.extension);
    return model ? Status(Ok{}) : model.error();
  }

  const SspConfig config_;
  std::vector<float> before_;  // parameters from which the step is taken
  std::uint64_t minimum_ = 0;  // clocks that all workers have completed, as far as known
};

class SspServer final : public server::ParameterServer {
 public:
  SspServer(const SspConfig& config, const server::Setup& setup)
      : ParameterServer(setup), config_(config), clocks_(setup.workers) {}
  void state(Archive& ar) override {
    ParameterServer::state(ar);
    ar(clocks_);
  }

 private:
  // x <- x + u; completed[w] <- c + 1
  Taken commit(Rank from, const server::ServerHeader&, std::span<const float> values,
               Turn& turn) override {
    mix_buffers(values, turn);
    const auto x = store().change().first(parameters().length);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = float(double(x[i]) + double(values[i]));
    clocks_.complete(from);
    return Taken::committed;
  }

  // A worker's pushes arrive before its request, so its completed clocks are its clock.
  bool may_read(Rank rank) const override {
    return server::within_bound(clocks_.of(rank), clocks_.minimum(), config_.staleness);
  }

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
  static SyncEntry entry() {
    return server::strategy_entry<Ssp>(
        {.name = "ssp",
         .summary = "step on copies of the server's model, the fastest a few steps ahead of the "
                    "slowest",
         .traits = {.when_lost =
                        "leaves the minimum that others wait for, its updates stay; without the "
                        "server the others wait, unless [server] standby_every gives it a follower",
                    .lets_return = true},
         .costs = {{.rounds = "every step",
                    .sent = "S; receives S every s steps",
                    .waits_for = "who is s behind",
                    .staleness = "s clocks",
                    .memory = "S, (s+1) S queued",
                    .when_lost = "goes on"}}});
  }
};

}  // namespace longhaul::sync
