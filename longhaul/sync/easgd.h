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
    visit(Field{.name = "steps", .doc = "local steps between two pulls (tau)", .min = 1},
          self.steps);
    visit(
        Field{.name = "beta",
              .doc = "n times the share alpha of x - c by which worker and centre move, n workers "
                     "at the start",
              .max = 1,
              .positive = true},
        self.beta);
    visit(Field{.name = "synchronous",
                .doc = "all pull at once, in rounds, over any overlay; false: each when it comes, "
                       "at a server"},
          self.synchronous);
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
  static constexpr std::string_view kName = "easgd";
  using Config = EasgdConfig;
  static Status check(const Config&, const server::Setup&) { return Ok{}; }
  static SyncTraits traits_with(const Settings&);
  static std::unique_ptr<server::ParameterServerWorker> worker(const Config& config,
                                                               const server::Setup& setup) {
    return std::make_unique<EasgdWorker>(config, setup);
  }
  static std::unique_ptr<server::ParameterServer> server(const Config& config,
                                                         const server::Setup& setup) {
    return std::make_unique<EasgdServer>(config, setup);
  }
  static constexpr SyncTraits kTraits{
      .bits = Bits::schedule,
      .takes_outer = false,
      .no_feedback = "keeps what was not sent by itself",
      .when_lost =
          "goes on without it, what it moved the centre by stays; without the server the "
          "run ends, which has to be brought back for a resume",
      .served = true};
};

}  // namespace longhaul::sync
