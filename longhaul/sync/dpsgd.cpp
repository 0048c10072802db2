// Decentralised parallel SGD: no server and no global mean. After `steps` local steps, each worker
// mixes its model with those of its neighbours in a graph, and waits for its neighbours only.
//   Lian et al., "Can decentralized algorithms outperform centralized algorithms?", NIPS 2017,
//   algorithm 1; adapt_then_combine: Chen and Sayed, "Diffusion adaptation strategies", 2012,
//   equation 20; differences: Koloskova et al., "Decentralized stochastic optimization and gossip
//   algorithms with compressed communication" (CHOCO-SGD), ICML 2019, algorithm 2, with a
//   consensus step of 1.
//
// y_i is the vector that worker i sends in a round, x' its model after its local steps. The sum is
// over the neighbours j in rank order, in double, rounded once:
//   x_i <- x'_i + sum_j W_ij (y_j - y_i)
// published: y is the model before the local steps, so that computing hides the sending.
// adapt_then_combine: y is x'. With differences, y_i is the copy of x_i that all neighbours hold.
#include "longhaul/sync/dpsgd.h"
#include "longhaul/overlay/belief.h"
#include "longhaul/sync/entry.h"
#include "longhaul/sync/gossip/graph.h"
#include "longhaul/sync/peer_strategy.h"

namespace longhaul::sync {
namespace {

// Unread models of one neighbour: it is at most one round ahead, and models are read on arrival.
constexpr std::uint32_t kModelsOfANeighbour = 2;

// Only the reporter says when enough samples were used, and a node may be many rounds behind it. A
// neighbour is at most one round ahead, the far end of a ring n/2. Each loss changes the ring and
// adds the same amount again. A return adds nothing: a returned worker begins no earlier than any
// neighbour that has taken part longer, and that neighbour does not mix with it until then.
Round rounds_apart(const Place& place) {
  const std::uint64_t n = place.size();
  return n * n / 4 + 2 * n;
}

// Returns true if any of the workers are connected with each other without the others. Elsewhere
// workers that have no model yet could cut the graph in two parts, of which neither waits for the
// other.
bool stays_connected(const std::string& graph, const Place& place) {
  return graph == "complete" || place.members.with(Role::worker).size() <= 3;
}

void adapt_dpsgd(const Settings& settings, SyncTraits& traits) {
  if (settings.text("send").value_or("model") != "difference") return;
  traits.no_feedback = "sends differences from its neighbours' copies, which carry the error";
  traits.takes_unbiased = true;
}

class Dpsgd final : public PeerStrategy {
 public:
  static SyncEntry entry() {
    return strategy_entry<Dpsgd>(
        {.name = "dpsgd",
         .summary = "mix the models of neighbours in a graph, round by round",
         .traits = {.takes_outer = false,
                    .no_feedback = "averages models, whose error must not be added to the next",
                    .takes_unbiased = false,  // whole models
                    .when_lost = "the others rebuild the graph without it and continue",
                    .lets_return = true,
                    .mean_at_end = true},
         .costs = {{.rounds = "every H steps (1)",
                    .sent = "d S, and receives d S",
                    .waits_for = "its neighbours",
                    .staleness = "0, with those",
                    .memory = "(2 d + 2) S",
                    .when_lost = "new graph"},
                   {.variant = "differences",
                    .settings = {{"send", {std::string("difference")}}},
                    .rounds = "every H steps (1)",
                    .sent = "the same in the codec's bytes",
                    .waits_for = "its neighbours",
                    .staleness = "0, with those",
                    .memory = "(3 d + 3) S",
                    .when_lost = "new graph"}},
         .adapt = adapt_dpsgd});
  }

  struct Config {
    std::string graph = "ring";
    std::uint32_t degree = 3;
    std::uint32_t steps = 1;
    std::string order = "published";
    std::string send = "model";

    static void fields(auto& self, auto&& visit) {
      LONGHAUL_KEY(graph,
                   "pairs of workers that mix; best_rate: the fastest tree and the fastest other "
                   "pairs of [wan]",
                   .choices = {"ring", "torus", "exponential", "complete", "best_rate"});
      LONGHAUL_KEY(degree, "most neighbours with best_rate", .min = 2);
      LONGHAUL_KEY(steps, "local steps between mixings", .min = 1);
      LONGHAUL_KEY(order,
                   "published: the models before the local steps are mixed, and sent while they "
                   "run; adapt_then_combine: those after them",
                   .choices = {"published", "adapt_then_combine"});
      LONGHAUL_KEY(send, "models, or their differences to the copies that the neighbours hold",
                   .choices = {"model", "difference"});
    }
  };
  Dpsgd(const Config& config, SyncParts parts, const Place& place)
      : PeerStrategy({.name = "dpsgd",
                      .steps = config.steps,
                      .apart = rounds_apart(place),
                      .enters_late = stays_connected(config.graph, place)},
                     std::move(parts.overlay), parts.stop, place),
        config_(config),
        rates_(config.graph == "best_rate" ? overlay::rates_of(parts.network, place)
                                           : overlay::RateBelief{}),
        models_("models", kModelsOfANeighbour, parts, place) {
    own(models_.channel(), {1, "channel"});
  }

  void state(Archive& ar) override {
    PeerStrategy::state(ar);
    ar(is_announced_, own_samples_, models_, edges_);
    archive_snapshot(ar, own_);
  }

 private:
  struct Edge {
    double weight = 0;   // W_ij
    bool holds = false;  // with differences: the neighbour holds y_i
    Snapshot copy;       // with differences: y_j
    void state(Archive& ar) {
      ar(weight, holds);
      archive_snapshot(ar, copy);
    }
  };

  std::vector<Rank> peers_among(const std::vector<Rank>& workers, const Turn& turn) override {
    edges_.clear();
    std::vector<Rank> neighbours;
    for (const auto& [rank, weight] :
         gossip::weights(config_.graph, config_.degree, rates_, workers, turn.self())) {
      edges_[rank].weight = weight;
      neighbours.push_back(rank);
    }
    models_.begin_view(neighbours);
    return neighbours;
  }

  // All workers begin with equal models. In a later view, neighbours wait for y_i of this round.
  void on_view_begun(Turn& turn) override {
    if (is_announced_) return send(neighbours(/*holders=*/false), /*whole=*/true, own_, turn);
    if (epoch() > 0 || !sends_differences()) return;
    own_ = copied(turn.params());
    for (auto& [rank, edge] : edges_) edge.holds = true, edge.copy = own_;
  }

  std::optional<Work> begin_round(Turn& turn) override {
    if (config_.order == "published") announce(turn);
    return LocalStep{};
  }
  void on_steps_done(const Computed&, Turn& turn) override {
    if (config_.order == "adapt_then_combine") announce(turn);
  }

  // Sends y_i of this round to all neighbours that take part in it.
  void announce(Turn& turn) {
    if (!is_finite(turn)) return;
    is_announced_ = true;
    own_samples_ = samples_;
    const std::vector<Rank> holders = neighbours(true), others = neighbours(false);
    if (holders.empty()) {
      own_ = copied(turn.params());
    } else {  // y_i <- y_i + the difference as the neighbours read it
      const Snapshot sent = difference(turn);
      own_ = moved(own_, models_.as_received(*sent, holders.front(), options(false)), turn);
      send(holders, false, sent, turn);
    }
    send(others, true, own_, turn);
  }

  // Returns the neighbours of this round that hold y_i, or those that do not.
  std::vector<Rank> neighbours(bool holders) const {
    std::vector<Rank> ranks = present(peers());
    std::erase_if(ranks, [&](Rank rank) { return edges_.at(rank).holds != holders; });
    return ranks;
  }

  void send(const std::vector<Rank>& to, bool whole, const Snapshot& values, Turn& turn) {
    models_.send(to, {.is_whole = whole, .samples = own_samples_}, values, options(whole),
                 within(models_.channel(), turn));
    for (const Rank rank : to) edges_.at(rank).holds = sends_differences();
  }

  bool sends_differences() const { return config_.send == "difference"; }
  // Differences of two rounds can be in transit; those of earlier rounds are mixed. A group of the
  // codec has one vector in transit at a time.
  SendOptions options(bool whole) const {
    if (!sends_differences()) return {.coding = Coding::up, .group = 0};
    return {.coding = whole ? Coding::exact : Coding::up, .group = std::uint32_t(done_ % 2)};
  }

  // Returns x_i - y_i; buffers are sent unchanged.
  Snapshot difference(Turn& turn) {
    const auto x = turn.params();
    std::vector<float> change(x.begin(), x.end());
    for (std::size_t i = 0; i < parameter_count(turn.place()); ++i) change[i] -= (*own_)[i];
    return snapshot_of(std::move(change));
  }

  static Snapshot moved(const Snapshot& copy, std::span<const float> change, const Turn& turn) {
    std::vector<float> y(change.begin(), change.end());
    if (copy)
      for (std::size_t i = 0; i < parameter_count(turn.place()); ++i) y[i] += (*copy)[i];
    return snapshot_of(std::move(y));
  }

  // Returns y_j: the received model, or the copy moved by the received difference.
  Snapshot received(Rank rank, const PeerModels<DpsgdHeader>::Model& model, const Turn& turn) {
    if (!sends_differences()) return model.values();
    Snapshot& copy = edges_.at(rank).copy;
    return copy = model.header.is_whole ? model.values() : moved(copy, *model.values(), turn);
  }

  // Applies x_i <- x'_i + sum_j W_ij (y_j - y_i), also to buffers. A buffer that becomes negative
  // may be a running variance: it is then mixed relative to its current value, not to y_i.
  bool end_round(Turn& turn) override {
    const std::vector<Rank> now = present(peers());
    if (!models_.receive(now, within(models_.channel(), turn))) return false;
    std::vector<std::pair<double, Snapshot>> terms;
    double samples = samples_;
    for (const Rank rank : now) {
      const auto model = models_.take(rank);
      const double weight = edges_.at(rank).weight;
      samples += weight * (model.header.samples - own_samples_);
      terms.emplace_back(weight, received(rank, model, turn));
    }
    samples_ = std::clamp(samples, 0.0, kMostSamples);
    const auto x = turn.params();
    const std::size_t parameters = parameter_count(turn.place());
    const auto mixed = [&](std::size_t i, double own) {
      double sum = double(x[i]);
      for (const auto& [weight, y] : terms) sum += weight * (double((*y)[i]) - own);
      return sum;
    };
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double sum = mixed(i, double((*own_)[i]));
      const bool is_variance = i >= parameters && sum < 0 && x[i] >= 0;
      x[i] = float(is_variance ? mixed(i, double(x[i])) : sum);
    }
    is_announced_ = false;
    if (!sends_differences()) own_.reset();
    return true;
  }
  std::string missing() const override { return models_.waiting_for(present(peers())); }

  const Config config_;
  const std::function<double(Rank, Rank)> rates_;  // rates of the job's network; may be null
  PeerModels<DpsgdHeader> models_;
  std::map<Rank, Edge> edges_;  // by neighbour
  bool is_announced_ = false;   // whether own_ holds y_i of this round
  Snapshot own_;                // y_i
  double own_samples_ = 0;      // samples_ as announced
};

}  // namespace

SyncEntry dpsgd_entry() { return Dpsgd::entry(); }

}  // namespace longhaul::sync
