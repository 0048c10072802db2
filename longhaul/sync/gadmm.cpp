// GADMM: group alternating direction method of multipliers, for convex models on a chain of workers
// without a server. Heads, at even positions, solve their local problem and send the solution to
// their neighbours; then tails do the same. A worker waits only for its neighbours.
//   Elgabli, Park, Bedi, Bennis, Aggarwal, "GADMM", JMLR 2020 (D-GADMM too: chains that change);
//   "Q-GADMM", arXiv 1910.10453; details as in the authors' code. Separate duals (dual_ledger.h)
//   and the handling of losses and returns are not in the papers.
//
// f_n is the sum of the losses of worker n's samples, plus mu/2 |theta|^2. m runs over the current
// neighbours, and p over every worker that n has ever been a neighbour of. In an iteration, in
// fp64:
//   theta_n <- argmin f_n(t) + <sum_p c_np, t> + rho/2 sum_m |t - theta_m|^2    heads, then tails
//   c_nm <- c_nm + rho (theta_n - theta_m)
// On the right-hand side, theta_n is the model as the neighbours decode it. The same chain and
// messages serve decentralised methods without solves (gadmm/gradient_step.h), and ADMM with a hub
// (chain "star").
#include "longhaul/overlay/belief.h"
#include "longhaul/sync/entry.h"
#include "longhaul/sync/gadmm/chain.h"
#include "longhaul/sync/gadmm/dual_ledger.h"
#include "longhaul/sync/gadmm/gradient_step.h"
#include "longhaul/sync/gadmm/quantiser.h"
#include "longhaul/sync/gadmm/stopping.h"
#include "longhaul/sync/peer_strategy.h"

namespace longhaul::sync {
namespace {

struct Header {  // of a model; the stream of models needs no more
  static void fields(auto&, auto&&) {}
};

// Maximum number of unread models, as fp32. At most two in fp64 are unread; with much room no
// message of its own reports that they were read.
constexpr std::uint32_t kUnreadModels = 16;

std::uint64_t worker_count(const Place& place) { return place.members.with(Role::worker).size(); }

// Returns the maximum number of iterations by which a worker can be ahead of another. A worker that
// has completed an iteration has its neighbours' models of the previous one, and they have those of
// theirs. With any chains, each step back reaches at least one more worker.
std::uint64_t iterations_apart(const Place& place) { return worker_count(place) + 1; }

class Gadmm final : public PeerStrategy {
 public:
  static SyncEntry entry() {
    return strategy_entry<Gadmm>(
        {.name = "gadmm",
         .summary = "convex models on a chain of workers, each solving its own part exactly",
         .traits = {.takes_outer = false,
                    .no_feedback = "sends whole models, which carry no error of the one before",
                    .takes_unbiased = false,
                    .when_lost = "the chain closes over the gap and the others continue",
                    .lets_return = true,
                    .asks = "full gradient",
                    .mean_at_end = true},
         .small = {{"bits", {std::int64_t(8)}}},
         .costs = {{.rounds = "every iteration",
                    .sent = "2 S (fp64) to each of two neighbours",
                    .waits_for = "its neighbours in the chain",
                    .staleness = "0, with those",
                    .memory = "18 S",
                    .when_lost = "begins its iteration again, 2 S to each neighbour"},
                   {.variant = "quantised",
                    .settings = {{"send", {std::string("quantised")}}},
                    .rounds = "every iteration",
                    .sent = "b bits a value (2) to each of two neighbours",
                    .waits_for = "its neighbours in the chain",
                    .staleness = "0, with those",
                    .memory = "18 S",
                    .when_lost = "begins its iteration again, 2 S to each neighbour"}}});
  }

  struct Config {
    std::string method = "admm";
    double rho = 3;
    double step = 0.01;
    double mu = 0;
    std::string chain = "rank";
    Round chain_every = 0;
    std::string send = "fp64";
    std::uint32_t bits = 2;
    std::string stop_when = "rounds";
    double least = 0;
    double tolerance = 1e-4;
    Round hold = 100;

    static void fields(auto& self, auto&& visit) {
      LONGHAUL_KEY(method,
                   "admm: exact solves and duals (GADMM); dgd, dual_averaging: a mean with the "
                   "neighbours and one gradient an iteration",
                   .choices = {"admm", "dgd", "dual_averaging"});
      LONGHAUL_KEY(rho, "penalty on the distance of neighbours", .max = 1e12, .positive = true);
      LONGHAUL_KEY(step, "dgd, dual_averaging: of the gradient of each worker's sum", .max = 1e300,
                   .positive = true);
      LONGHAUL_KEY(mu, "mu/2 |model|^2 is added to each worker's loss", .min = 0, .max = 1e12);
      LONGHAUL_KEY(chain,
                   "order of the workers. nearest: greedily, by the delays of [wan]; bottleneck: "
                   "the longest edge is as short as possible; strides: every s-th, for each s "
                   "without a common divisor; star: all are neighbours of the last",
                   .choices = {"rank", "nearest", "bottleneck", "random", "strides", "star"});
      LONGHAUL_KEY(
          chain_every,
          "iterations after which random and strides take the next chain (D-GADMM); 0: never",
          .max = 1e12);
      LONGHAUL_KEY(send,
                   "how models travel: fp64; codec: in the job's codec; quantised: their changes "
                   "in `bits` bits a value (Q-GADMM)",
                   .choices = {"fp64", "codec", "quantised"});
      LONGHAUL_KEY(bits, "bits of a quantised value; with 1 it diverges", .min = 2,
                   .max = gadmm::kMostBits);
      LONGHAUL_KEY(
          stop_when,
          "ends the run besides [stop]. published: when the sum of each worker's loss at its own "
          "model is within tolerance of least; settled: and has been for `hold` iterations. "
          "every_model: when the loss over all data (the test set) of every worker's model is",
          .choices = {"rounds", "published", "settled", "every_model"});
      LONGHAUL_KEY(least, "stop_when: the least loss, summed over all samples", .min = -1e300,
                   .max = 1e300);
      LONGHAUL_KEY(tolerance, "stop_when", .max = 1e300, .positive = true);
      LONGHAUL_KEY(hold, "stop_when = \"settled\"", .min = 1, .max = 1e12, .unit = "iterations");
    }
  };
  static Status check(const Config& config, const Place&) {
    const bool needs_losses = config.stop_when == "published" || config.stop_when == "settled";
    if (needs_losses && config.method == "admm" && config.send != "fp64")
      return invalid("[sync] stop_when = \"" + config.stop_when +
                     "\": expected send = \"fp64\", as "
                     "the loss is known at the solution and not at the model that neighbours read; "
                     "every_model goes with any");
    if (config.chain_every > 0 && config.chain != "random" && config.chain != "strides")
      return invalid("[sync] chain_every: expected 0 with chain = \"" + config.chain +
                     "\", of which there is one; chain = \"random\" or \"strides\" change");
    return Ok{};
  }

  Gadmm(const Config& config, SyncParts parts, const Place& place)
      : PeerStrategy({.name = "gadmm", .apart = iterations_apart(place), .has_train_loss = false},
                     std::move(parts.overlay), parts.stop, place),
        config_(config),
        place_(place),
        size_(place.layout->parameters().length),
        chains_(chains_of(config, parts, place)),
        models_("models", kUnreadModels, parts, place,
                [this](const Header&, const ContentShape& shape) { return is_model(shape); }),
        stopping_({.rule = place.phantom ? "rounds" : config.stop_when,
                   .least = config.least,
                   .tolerance = config.tolerance,
                   .hold = config.hold},
                  worker_count(place)) {
    own(models_.channel(), {1, "channel"});
    own(stopping_, {5, "stopping rule"});
    own(duals_, {6, "duals"});
  }

  void on_step(const StepResult& result, Turn&) override {
    solved_ = result.solution;
    loss_ = result.loss;
  }

  void state(Archive& ar) override {
    PeerStrategy::state(ar);
    ar(has_position_, position_.is_head, position_.neighbours, awaited_, seen_, models_);
    ar(start_, theta_, solved_, loss_);
    bool fits = phase_ <= Phase::outside || has_models();
    for (const auto& [rank, model] : seen_) fits &= model.size() == parameter_count(place_);
    if (!fits) ar.fail("holds a model of another size");
  }

 private:
  using Models = PeerModels<Header>;
  static gadmm::Chains chains_of(const Config& config, const SyncParts& parts, const Place& place) {
    gadmm::LinkCost round_trip;
    if (const auto delays = overlay::delays_of(parts.network, place))
      round_trip = [delays](Rank a, Rank b) { return delays(a, b) + delays(b, a); };
    return {{.order = config.chain, .every = config.chain_every, .seed = place.seed},
            place.members.with(Role::worker),
            round_trip};
  }

  bool is_admm() const { return config_.method == "admm"; }
  // Returns true for a model in fp64, which new neighbours get, or as `send` has it.
  bool is_model(const ContentShape& shape) const {
    if (shape.kind == ContentKind::doubles) return shape.size == size_;
    if (config_.send == "codec")
      return shape.kind == ContentKind::values && shape.range == Range{0, size_};
    return config_.send == "quantised" && shape.kind == ContentKind::bytes &&
           (shape.size == sizeof(float) ||
            shape.size == gadmm::quantised_bytes(size_, config_.bits));
  }

  // The position in the chain depends on the iteration, so all workers are peers. After a change of
  // the members all continue after the most advanced one.
  std::vector<Rank> peers_among(const std::vector<Rank>& workers, const Turn& turn) override {
    std::vector<Rank> others = workers;
    std::erase(others, turn.self());
    models_.begin_view(others);
    seen_.clear();
    has_position_ = false;
    begin_again();
    if (turn.view().epoch > 0) duals_.enter_view(others, within(duals_, turn));
    stopping_.enter_view(within(stopping_, turn));
    return others;
  }

  // All workers begin with equal models.
  void on_view_begun(Turn& turn) override {
    if (epoch() > 0) return;
    assign(theta_, parameters(turn));
    if (config_.method == "dual_averaging")
      start_ = std::exchange(theta_, std::vector<double>(theta_.size()));
    for (const Rank rank : chains_.position(place_.self, 0, turn.view()).neighbours)
      seen_[rank] = theta_;
  }

  void archive_model(Archive& ar, Turn& turn) override {
    PeerStrategy::archive_model(ar, turn);
    ar(start_, theta_);
    if (!has_models()) ar.fail("holds a model of another size");
  }
  bool has_models() const {
    const std::size_t size = parameter_count(place_);
    return theta_.size() == size &&
           start_.size() == (config_.method == "dual_averaging" ? size : 0);
  }

  // Finds this worker's position in the chain, and sends its model to new neighbours.
  void find_position(Turn& turn) {
    has_position_ = true;
    position_ = chains_.position(place_.self, done_, turn.view());
    if (!is_admm()) position_.is_head = true;  // all compute at the same time
    const std::vector<Rank>& near = position_.neighbours;
    awaited_ = {near.begin(), near.end()};
    std::erase_if(seen_, [&](const auto& one) { return !awaited_.contains(one.first); });
    send(those_of(near, [&](Rank rank) { return !seen_.contains(rank); }), doubles(theta_), turn);
  }

  // Returns true if this worker waits for a model of the neighbour. A new neighbour sends its model
  // first. A tail needs the model of this iteration before its solve, a head after it.
  bool needs_model(Rank rank) const {
    const bool is_due = position_.is_head == (phase_ == Phase::exchanging);
    return !seen_.contains(rank) || (is_due && awaited_.contains(rank));
  }

  // Reads the models that have arrived. Returns true if this worker needs no other now.
  bool read_models(Turn& turn) {
    models_.receive({}, within(models_.channel(), turn));
    for (const Rank rank : position_.neighbours)
      while (needs_model(rank) && models_.has(rank))
        if (const Status read = read_model(rank, models_.take(rank)); !read)
          return fail(broken_by(rank, read.error()), turn), false;
    return std::ranges::none_of(position_.neighbours, [&](Rank rank) { return needs_model(rank); });
  }

  Status read_model(Rank from, const Models::Model& model) {
    const VectorContent& content = model.content;
    const bool is_new = !seen_.contains(from);
    if (is_new && content.kind() != ContentKind::doubles)
      return malformed("a model of a new neighbour that is not in fp64");
    if (!is_new) awaited_.erase(from);
    std::vector<double>& seen = seen_[from];
    if (place_.phantom) return Ok{};
    if (content.kind() == ContentKind::bytes)
      LH_TRY(gadmm::dequantise(*content.bytes(), seen, config_.bits));
    if (content.kind() == ContentKind::values) assign(seen, *content.values());
    if (content.kind() == ContentKind::doubles) seen = content.doubles();
    return are_finite(seen) ? Status(Ok{}) : malformed("a model that is not finite");
  }

  RankList workers() const {
    RankList all = peers();
    all.insert(place_.self);
    return all;
  }

  std::string missing() const override {
    const std::vector<Rank> ranks =
        those_of(position_.neighbours, [&](Rank rank) { return needs_model(rank); });
    if (!ranks.empty()) return models_.waiting_for(ranks);
    return stopping_.waiting_for(workers());
  }

  std::optional<Work> begin_round(Turn& turn) override {
    if (!has_position_) find_position(turn);
    if (!read_models(turn) || stopping_.holds_back(done_, turn)) return std::nullopt;
    if (!is_admm()) return FullGradient{point(done_), true};
    LocalSolve work;
    work.summed = true;
    if (!place_.phantom) {
      work.linear = duals_.sum(size_);
      for (const Rank rank : position_.neighbours)
        work.anchors.emplace_back(config_.rho, seen_[rank]);
      if (config_.mu > 0) work.anchors.emplace_back(config_.mu, std::vector<double>(size_));
    }
    return work;
  }

  // Returns theta after this number of iterations, in fp64.
  std::vector<double> point(Round iterations) const {
    if (config_.method != "dual_averaging") return theta_;
    return gadmm::averaged_point(start_, theta_, config_.step, iterations);
  }

  double penalty_of(const std::vector<double>& theta) const {
    double square = 0;
    for (const double v : theta) square += v * v;
    return config_.mu / 2 * square;
  }

  // Sends the next model. With admm it is the solution; otherwise a step with the gradient.
  void on_steps_done(const Computed&, Turn& turn) override {
    const std::vector<double> at = is_admm() ? solved_ : point(done_);
    loss_ += penalty_of(at);
    if (!is_admm() && !place_.phantom) {
      std::vector<gadmm::Neighbour> neighbours;
      for (const Rank rank : position_.neighbours)
        neighbours.push_back(
            {seen_.at(rank), chains_.position(rank, done_, turn.view()).neighbours.size()});
      std::vector<double> next = gadmm::metropolis_mean(theta_, neighbours);
      const double step = config_.method == "dgd" ? -config_.step : 1;
      for (std::size_t i = 0; i < next.size(); ++i)
        next[i] += step * (solved_[i] + config_.mu * at[i]);
      solved_ = std::move(next);
    }
    send_model(turn);
  }

  // Sends theta_n. Keeps it in theta_ as the neighbours will decode it.
  void send_model(Turn& turn) {
    if (!are_finite(solved_))
      return fail(not_finite(is_admm() ? "the solution of its local problem is not finite"
                                       : "its model is not finite; lower [sync] step"),
                  turn);
    const std::vector<Rank>& to = position_.neighbours;
    VectorContent content;
    if (to.empty() || config_.send == "fp64") {
      theta_ = std::move(solved_);
      content = doubles(theta_);
    } else if (config_.send == "codec") {
      auto values = std::make_shared<std::vector<float>>();
      for (const double v : solved_) values->push_back(float(v));
      const Range all{0, size_};
      if (!place_.phantom)
        assign(theta_, models_.channel().as_received(*values, all, to.front(), {.group = 0}));
      content = VectorContent::values(std::move(values), all);
    } else if (place_.phantom) {
      content = VectorContent::phantom({.kind = ContentKind::bytes,
                                        .range = {},
                                        .size = gadmm::quantised_bytes(size_, config_.bits)});
    } else {
      Random random = turn.random(Purpose::codec, done_, place_.self);
      content = VectorContent::bytes(share(gadmm::quantise(solved_, theta_, config_.bits, random)));
    }
    if (!are_finite(theta_)) return fail(not_finite("its model is too large for [codec]"), turn);
    solved_.clear();
    send(to, std::move(content), turn);
  }

  bool end_round(Turn& turn) override {
    if (!read_models(turn)) return false;
    for (const Rank rank : position_.neighbours)
      if (is_admm()) duals_.step(rank, config_.rho, theta_, seen_[rank]);
    if (!place_.phantom && (config_.send == "fp64" || !is_admm()))
      turn.record("objective", done_, loss_);
    const std::vector<double> theta = point(done_ + 1);
    stopping_.round_done(done_, loss_, penalty_of(theta), theta, within(stopping_, turn));
    std::ranges::transform(theta, turn.params().begin(), [](double v) { return float(v); });
    has_position_ = false;
    return true;
  }

  bool is_over() const override { return stopping_.is_over(done_); }

  VectorContent doubles(const std::vector<double>& values) const {
    if (!place_.phantom) return VectorContent::doubles(values);
    return VectorContent::phantom({.kind = ContentKind::doubles, .range = {}, .size = size_});
  }

  void send(const std::vector<Rank>& to, VectorContent content, Turn& turn) {
    models_.send(to, {}, std::move(content), {.group = 0}, within(models_.channel(), turn));
  }

  const Config config_;
  const Place place_;
  const std::uint64_t size_;  // size of theta: the layout's parameters
  const gadmm::Chains chains_;
  Models models_;
  gadmm::Stopping stopping_;
  gadmm::DualLedger duals_;

  bool has_position_ = false;                 // of this iteration
  gadmm::Position position_;                  // position in this iteration
  std::set<Rank> awaited_;                    // neighbours whose model of it has not been read
  std::map<Rank, std::vector<double>> seen_;  // newest models of the neighbours
  std::vector<double> start_;                 // dual_averaging: x_0
  std::vector<double> theta_;                 // model as last sent; dual_averaging: z
  std::vector<double> solved_;                // newest solution or gradient
  double loss_ = 0;  // f_n at that point; includes mu from on_steps_done() on
};

}  // namespace

SyncEntry gadmm_entry() { return Gadmm::entry(); }

}  // namespace longhaul::sync
