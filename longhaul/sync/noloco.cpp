// NoLoCo: rounds of local steps whose models are averaged in random pairs, with momentum. No worker
// waits for more than its group, and no mean of all is formed before the end of the run.
//   Kolehmainen, Blagoev, Donaghy, Ersoy, Nies, "NoLoCo: no-all-reduce low communication training
//   method for large models", arXiv 2506.10911, section 3.
//
// phi is a worker's model at the begin of a round, theta its model after the local steps, v its
// momentum. The means are over its group of the round (noloco.h):
//   v   <- beta v + alpha mean(theta - phi) + alpha (mean(phi) - phi)
//        = beta v + alpha (mean(theta) - phi)
//   phi <- phi + v;  theta <- phi
// The paper weighs the two differences separately and sends both. With one weight for both, theta
// alone is sent. Sums are in rank order, in double, rounded once. Buffers are averaged.
#include "longhaul/sync/noloco.h"
#include "longhaul/sync/entry.h"
#include "longhaul/sync/peer_strategy.h"

namespace longhaul::sync {
namespace {

// A worker that is ahead needs a chain of groups without the one behind. The probability that two
// workers are not connected by the groups of 64 rounds is below 1e-19 for three or more workers.
Round rounds_between_workers(const Place& place) { return 64 + place.size(); }

// In a group of three, a partner that has both models ends the round and can meet this worker again
// in its next one, while this worker waits for the third model.
constexpr std::uint32_t kModelsOfAPartner = 2;

class NoLoCo final : public PeerStrategy {
 public:
  static SyncEntry entry() {
    return strategy_entry<NoLoCo>(
        {.name = "noloco",
         .summary = "average models in random pairs after some local steps, with momentum (NoLoCo)",
         .sends = "After its local steps a worker exchanges its model with one other, drawn at "
                  "random in each round, and waits for that one only",
         .traits = {.takes_outer = false,
                    .no_feedback = "averages models, whose error must not be added to the next",
                    .takes_unbiased = false,
                    .when_lost = "the others form pairs without it and continue",
                    .lets_return = true,
                    .mean_at_end = true},
         .costs = {{.rounds = "every H steps (50)",
                    .sent = "S, and receives S",
                    .waits_for = "its partner",
                    .staleness = "0, with it",
                    .memory = "5 S",
                    .when_lost = "n (n-1) small messages"}}});
  }

  struct Config {
    std::uint32_t steps = 50;
    double alpha = 0.7;
    double beta = 0.5;
    static void fields(auto& self, auto&& visit) {
      LONGHAUL_KEY(steps, "local steps in a round (H)", .min = 1);
      LONGHAUL_KEY(alpha, "share of the group's mean model in a step", .max = 2, .positive = true);
      LONGHAUL_KEY(beta, "share of the momentum that is kept", .min = 0, .max = 0.9999);
    }
  };

  NoLoCo(const Config& config, SyncParts parts, const Place& place)
      : PeerStrategy({.name = "noloco",
                      .steps = config.steps,
                      .apart = rounds_between_workers(place),
                      .enters_late = true},
                     std::move(parts.overlay), parts.stop, place),
        config_(config),
        place_(place),
        models_("models", kModelsOfAPartner, parts, place) {
    own(models_.channel(), {1, "channel"});
  }

  void state(Archive& ar) override {
    PeerStrategy::state(ar);
    ar(is_due_, models_, phi_, v_);
    const std::size_t size = parameter_count(place_);
    if ((!v_.empty() && v_.size() != size) || (!phi_.empty() && phi_.size() != size))
      ar.fail("holds a model of another size");
  }

 private:
  std::vector<Rank> peers_among(const std::vector<Rank>& workers, const Turn& turn) override {
    std::vector<Rank> others = workers;
    std::erase(others, turn.self());
    models_.begin_view(others);
    return others;
  }

  std::optional<Work> begin_round(Turn& turn) override {
    assign(phi_, parameters(turn));
    return LocalStep{};
  }
  void on_steps_done(const Computed&, Turn& turn) override {
    is_due_ = true;
    send(turn);
  }
  void on_view_begun(Turn& turn) override {
    if (is_due_) send(turn);
  }

  // Returns the members of this round's group that take part in it, without this worker, ascending.
  std::vector<Rank> partners() const {
    RankList workers = peers();
    workers.insert(place_.self);
    std::vector<Rank> group = noloco::group_of(place_.self, workers, place_.seed, done_, epoch());
    std::erase(group, place_.self);
    return present(std::move(group));
  }

  void send(Turn& turn) {
    if (!is_finite(turn)) return;
    if (const std::vector<Rank> to = partners(); !to.empty())
      models_.send(to, {.samples = samples_}, copied(turn.params()),
                   {.coding = Coding::up, .group = 0}, within(models_.channel(), turn));
  }

  bool end_round(Turn& turn) override {
    const std::vector<Rank> others = partners();
    if (!models_.receive(others, within(models_.channel(), turn))) return false;
    const auto x = turn.params();
    std::vector<PeerModels<NoLoCoHeader>::Model> received;
    std::vector<std::pair<Rank, std::span<const float>>> theta = {{place_.self, x}};
    for (const Rank rank : others) {
      received.push_back(models_.take(rank));
      theta.emplace_back(rank, *received.back().values());
      samples_ += (received.back().header.samples - samples_) / double(theta.size());
    }
    std::ranges::sort(theta, {}, [](const auto& one) { return one.first; });
    const auto mean = [&](std::size_t i) {  // before x[i] is written
      double sum = 0;
      for (const auto& [rank, model] : theta) sum += double(model[i]);
      return sum / double(theta.size());
    };
    v_.resize(phi_.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (i < phi_.size()) {
        v_[i] = float(config_.beta * double(v_[i]) + config_.alpha * (mean(i) - double(phi_[i])));
        x[i] = float(double(phi_[i]) + double(v_[i]));
      } else {
        x[i] = float(mean(i));
      }
    }
    is_due_ = false;
    turn.record("group_size", done_, double(theta.size()));
    return true;
  }
  std::string missing() const override { return models_.waiting_for(partners()); }

  const Config config_;
  const Place place_;
  PeerModels<NoLoCoHeader> models_;
  bool is_due_ = false;         // theta of this round can be sent
  std::vector<float> phi_, v_;  // parameters only
};

}  // namespace

SyncEntry noloco_entry() { return NoLoCo::entry(); }

}  // namespace longhaul::sync
