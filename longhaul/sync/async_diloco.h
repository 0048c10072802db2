#pragma once
// Asynchronous DiLoCo: every worker takes local steps from the server's model and pushes their sum.
// The server applies each push at once, with a momentum that it moves once in N pushes (delayed
// Nesterov), and returns the new model. No worker waits for another one.
//   Liu, Chhaparia, Douillard, Kale, Rusu, Shen, Szlam, Ranzato, "Asynchronous local-SGD training
//   for language modeling", arXiv 2401.09135: algorithm 3 (delayed Nesterov), section 5 (dynamic
//   local updates).
//
// With g = x_start - x_end of a push, the t-th, and D the sum of g since the last multiple of N:
//   t mod N != 0:  x <- x - rate (c beta m + g / N)
//   t mod N == 0:  m <- beta m + D / N;  x <- x - rate ((1 - c N + c) beta m + g / N);  D <- 0
// For N = 1 this is the Nesterov step of diloco. Dynamic local updates: worker i takes
//   H_i = max(1, floor(H speed_i / max_j speed_j))
// steps, where a worker measures its speed in steps per second of computing.
#include <cmath>

#include "longhaul/core/registry.h"
#include "longhaul/sync/local_update.h"
#include "longhaul/sync/server/entry.h"
#include "longhaul/sync/server/parameter_server.h"
#include "longhaul/sync/server/parameter_server_worker.h"

namespace longhaul::sync {

// The extension of a push in async_diloco.
struct AsyncDiLoCoPush {
  LONGHAUL_MESSAGE(1, "push");
  double speed = 0;  // steps per second of the sender; 0: unknown
  LONGHAUL_FIELDS((speed, .min = 0, .max = 1e12))
};

// The extension of a model.
struct AsyncDiLoCoModel {
  LONGHAUL_MESSAGE(2, "model");
  std::uint32_t steps = 1;  // that the receiver takes from it
  LONGHAUL_FIELDS((steps, .min = 1))
};

struct AsyncDiLoCoConfig {
  std::uint32_t steps = 50;
  std::uint32_t buffer = 0;
  double rate = 0.7;
  double momentum = 0.9;
  double activation = 0;
  bool dynamic_steps = true;
  static void fields(auto& self, auto&& visit) {
    LONGHAUL_KEY(steps, "local steps between two pushes of the fastest worker (H)", .min = 1);
    LONGHAUL_KEY(buffer, "pushes between two steps of the momentum (N); 0: the number of workers");
    LONGHAUL_KEY(rate, "factor of the server's step", .max = 1000, .positive = true);
    LONGHAUL_KEY(momentum, "share of the momentum that is kept (beta)", .min = 0, .max = 0.9999);
    LONGHAUL_KEY(activation,
                 "share of the momentum in each push between its steps (c); 1/N spreads it evenly",
                 .min = 0, .max = 1);
    LONGHAUL_KEY(dynamic_steps,
                 "slower workers take fewer steps, so that pushes take equal times; false: all H");
  }
};

class AsyncDiLoCoWorker final : public server::ParameterServerWorker {
 public:
  AsyncDiLoCoWorker(const AsyncDiLoCoConfig& config, const server::Setup& setup)
      : ParameterServerWorker(setup), most_(config.steps), steps_(config.steps) {}
  void state(Archive& ar) override {
    ParameterServerWorker::state(ar);
    ar(steps_, local_);
  }

 private:
  void begin(Turn& turn) override {
    local_.anchor(turn);
    compute(LocalStep{}, steps_, turn);
  }

  void computed(const Computed& done, Turn& turn) override {
    push(local_.update(turn), done, /*asks=*/true, turn);
  }
  server::Extension push_extension(const Computed& done) const override {
    const double elapsed = seconds(done.elapsed);
    return server::to_extension(AsyncDiLoCoPush{elapsed > 0 ? double(done.steps) / elapsed : 0});
  }

  void read(const server::ServerHeader& header, const Snapshot& model, Turn& turn) override {
    steps_ = server::from_extension<AsyncDiLoCoModel>(header.extension)->steps;
    ParameterServerWorker::read(header, model, turn);
  }
  Status check_extension(const server::ServerHeader& header) const override {
    if (header.kind != server::ServerHeader::Kind::model)
      return ParameterServerWorker::check_extension(header);
    const auto model = server::from_extension<AsyncDiLoCoModel>(header.extension);
    if (!model) return model.error();
    return model->steps <= most_ ? Status(Ok{}) : malformed("more steps than H");
  }

  const std::uint32_t most_;  // H
  std::uint32_t steps_;       // from the current model
  LocalUpdate local_;
};

class AsyncDiLoCoServer final : public server::ParameterServer {
 public:
  AsyncDiLoCoServer(const AsyncDiLoCoConfig& config, const server::Setup& setup)
      : ParameterServer(setup), config_(config), n_(buffer_of(config, setup)) {}
  static std::uint64_t buffer_of(const AsyncDiLoCoConfig& config, const server::Setup& setup) {
    return config.buffer > 0 ? config.buffer : setup.workers.size();
  }
  void state(Archive& ar) override {
    ParameterServer::state(ar);
    ar(m_, d_, pushes_, speeds_);
    for (const auto* vector : {&m_, &d_})
      if (!vector->empty() && vector->size() != parameters().length)
        ar.fail("holds a momentum of another size");
  }

 private:
  Taken commit(Rank from, const server::ServerHeader& header, std::span<const float> values,
               Turn& turn) override {
    speeds_[from] = server::from_extension<AsyncDiLoCoPush>(header.extension)->speed;
    mix_buffers(values, turn);
    const auto x = store().change().first(parameters().length);
    const auto n = double(n_);
    const bool steps = ++pushes_ % n_ == 0;
    const double share = steps ? 1 - config_.activation * (n - 1) : config_.activation;
    m_.resize(x.size());
    d_.resize(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double g = -double(values[i]), sum = double(d_[i]) + g;
      if (steps) m_[i] = float(config_.momentum * double(m_[i]) + sum / n);
      d_[i] = steps ? 0 : float(sum);
      x[i] =
          float(double(x[i]) - config_.rate * (share * config_.momentum * double(m_[i]) + g / n));
    }
    return Taken::committed;
  }

  // H_i; of a worker whose speed is not known, H.
  server::Extension model_extension(Rank rank) override {
    double fastest = 0;
    for (const auto& [of, speed] : speeds_) fastest = std::max(fastest, speed);
    const auto own = speeds_.find(rank);
    const bool scaled = config_.dynamic_steps && own != speeds_.end() && own->second > 0;
    const double steps = config_.steps * (scaled ? own->second / fastest : 1);
    return server::to_extension(AsyncDiLoCoModel{std::max(1u, std::uint32_t(steps))});
  }

  Status check_extension(Rank from, const server::ServerHeader& header) const override {
    if (header.kind != server::ServerHeader::Kind::push)
      return ParameterServer::check_extension(from, header);
    const auto push = server::from_extension<AsyncDiLoCoPush>(header.extension);
    return push ? Status(Ok{}) : push.error();
  }
  void drop(Rank rank) override { speeds_.erase(rank); }

  const AsyncDiLoCoConfig config_;
  const std::uint64_t n_;     // N
  std::vector<float> m_, d_;  // momentum; sum of g since its last step
  std::uint64_t pushes_ = 0;  // t
  std::map<Rank, double> speeds_;
};

struct AsyncDiLoCo {
  using Config = AsyncDiLoCoConfig;
  using Worker = AsyncDiLoCoWorker;
  using Server = AsyncDiLoCoServer;
  static SyncEntry entry() {
    return server::strategy_entry<AsyncDiLoCo>(
        {.name = "async_diloco",
         .summary = "add the sum of each worker's local steps to the server's model as it comes, "
                    "with delayed momentum",
         .traits = {.when_lost = "continues without it, its updates stay; without the server the "
                                 "others wait, unless [server] standby_every gives it a follower",
                    .lets_return = true},
         // A momentum of 0.9 needs more rounds to settle.
         .small = {{"momentum", {0.5}}},
         .costs = {{.rounds = "every H_i steps (up to 50)",
                    .sent = "S, and receives S",
                    .waits_for = "the server: 2 (L + T)",
                    .staleness = "n - 1 with dynamic steps",
                    .memory = "the update: S, server 2 S",
                    .when_lost = "continues"}}});
  }
  static server::Extension update_extension(std::uint64_t speed) {
    return server::to_extension(AsyncDiLoCoPush{double(speed)});
  }
};

}  // namespace longhaul::sync
