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
//
// A returned worker takes the senior worker's model between two computations. It begins in the
// latest round that its older neighbours report, those that have taken part longer. Until it
// reports its round, its neighbours do not mix with it. So it is never behind all of its
// neighbours, and returns do not increase the maximum lead of a worker.
#include <cmath>

#include "longhaul/core/registry.h"
#include "longhaul/core/vector_channel.h"
#include "longhaul/overlay/belief.h"
#include "longhaul/sync/entry.h"
#include "longhaul/sync/flat.h"
#include "longhaul/sync/gossip/ends_in_mean.h"
#include "longhaul/sync/gossip/neighbours.h"
#include "longhaul/sync/gossip/newcomers.h"

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

void adapt_dpsgd(const Settings& settings, SyncTraits& traits) {
  if (settings.text("send").value_or("model") != "difference") return;
  traits.no_feedback = "sends differences from its neighbours' copies, which carry the error";
  traits.takes_unbiased = true;
}

// Rounds that the other workers may do while this worker waits, as a multiple of `apart_`.
constexpr Round kMostMissed = 4;

enum class DpsgdPhase : std::uint8_t {
  unstarted,
  outside,   // has returned, and has no model yet
  entering,  // has a model; waits for the rounds of its neighbours
  ready,
  computing,
  mixing,     // waits for the neighbours' models
  deciding,   // waits for a verdict
  averaging,  // takes part in the mean that the run ends with
  ended
};

class Dpsgd final : public gossip::EndsInMean<DpsgdPhase> {
 public:
  static SyncEntry entry() {
    return strategy_entry<Dpsgd>(
        {.name = "dpsgd",
         .summary = "mix the models of neighbours in a graph, round by round",
         .traits = {.takes_outer = false,
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
      : EndsInMean(std::move(parts.overlay)),
        config_(config),
        self_(place.self),
        apart_(rounds_apart(place)),
        size_(place.layout->size()),
        rates_(config.graph == "best_rate" ? overlay::rates_of(parts.network, place)
                                           : overlay::RateBelief{}),
        stop_(apart_by(apart_, parts.stop)) {
    channel_ = std::make_unique<Channel>(
        place,
        ChannelConfig{.stream = "dpsgd",
                      .limits = ChannelLimits::models(kModelsOfANeighbour, *place.layout)},
        std::move(parts.transfer), parts.make_codec(true), nullptr,
        [this](Rank from, const DpsgdHeader& header, const ContentShape& shape) {
          return admit(from, header, shape);
        });
    own(*channel_, {1, "channel"});
    own(stop_, {2, "stop rule"});
    own(state_transfer_, {3, "state transfer"});
    own(final_return_, {4, "final model"});
  }

  void on_start(Turn& turn) override {
    phase_ = turn.place().comes_back() ? Phase::outside : Phase::ready;
  }

  void on_view(const View&, Turn& turn) override {
    newcomers_.on_view(turn);
    if (phase_ != Phase::outside) return;
    if (const Status can_come = gossip::Newcomers::check_sender(turn); !can_come)
      fail(can_come.error(), turn);
  }

  void on_computed(const Computed& computed, Turn& turn) override {
    if (phase_ != Phase::computing) return;  // the run has failed
    if (!turn.place().phantom) turn.record("train_loss", done_, computed.loss);
    samples_ += double(computed.samples);
    phase_ = Phase::mixing;
    asked_ = turn.now();
    if (config_.order == "adapt_then_combine") announce(turn);
  }

  // The overlay starts after its parent: the first round begins here.
  void on_progress(Turn& turn) override {
    if (phase_ == Phase::unstarted) return;
    if (turn.place().comes_back() && turn.view().epoch == 0) return;  // not let in yet
    if (!has_entered_ || epoch_ != turn.view().epoch) enter_view(turn);
    receive(turn);
    do {
      hand_over(turn);
    } while (advance(turn));
    if (phase_ != Phase::ended) return;
    final_return_.serve(within(final_return_, turn));
  }

  Round rounds_done() const override { return done_; }
  bool lets_return() const override { return true; }
  std::string waiting_for() const override {
    if (phase_ == Phase::outside)
      return "the model of the senior worker, as this node has returned";
    if (phase_ == Phase::entering)
      return "the rounds of ranks" + listed(neighbours_.untold(older_neighbours()));
    if (phase_ == Phase::deciding) return stop_.waiting_for();
    if (phase_ == Phase::averaging) return final_.waiting_for();
    if (phase_ != Phase::mixing) return "";
    const std::string text =
        "round " + std::to_string(done_) + ": models of ranks" + listed(neighbours_.missing(done_));
    return channel_->waiting_after(text);
  }

  void state(Archive& ar) override {
    ar.expect("dpsgd");
    ar(phase_, done_, epoch_, has_entered_, is_announced_, neighbours_, holders_, sent_);
    ar(samples_, own_samples_, asked_, returned_, newcomers_);
    archive_snapshot(ar, own_);
    std::map<Rank, std::vector<float>> copies;
    std::set<Rank> announced;  // copies that are coming
    for (const auto& [rank, copy] : copies_) {
      if (copy)
        copies[rank] = *copy;
      else
        announced.insert(rank);
    }
    ar(copies, announced);
    if (!ar.loading()) return;
    copies_.clear();
    for (auto& [rank, copy] : copies) copies_[rank] = snapshot_of(std::move(copy));
    for (const Rank rank : announced) copies_[rank] = nullptr;
  }

 private:
  using Channel = VectorChannel<DpsgdHeader>;
  using Phase = DpsgdPhase;
  bool sends_differences() const { return config_.send == "difference"; }
  Result<bool> admit(Rank from, const DpsgdHeader& header, const ContentShape& shape) {
    const bool is_join = header.kind == DpsgdHeader::Kind::join;
    const bool is_model =
        shape.kind == ContentKind::values && shape.range.offset == 0 && shape.range.length == size_;
    if (is_join ? shape.kind != ContentKind::none : !is_model)
      return malformed("a vector that is no model, or a round with one");
    if (header.epoch > epoch_) return malformed("a vector of a view to come");
    if (header.epoch < epoch_) return false;
    if (is_join) {
      LH_TRY(neighbours_.admit_join(from));
    } else {
      // The whole model precedes the differences.
      if (header.is_whole != (!sends_differences() || !copies_.contains(from)))
        return malformed("a difference to a model that was not sent, or a model after it");
      LH_TRY(neighbours_.admit_model(from, header.round, done_));
      if (sends_differences() && header.is_whole) copies_[from] = nullptr;
    }
    return true;
  }

  // Enters the view of this turn. All workers begin in round 0 with equal models. After a loss or a
  // return, each worker sends its round to its neighbours.
  void enter_view(Turn& turn) {
    const bool is_first = !std::exchange(has_entered_, true) && turn.view().epoch == 0;
    epoch_ = turn.view().epoch;
    returned_ = turn.view().returned;
    neighbours_.enter(gossip::Neighbours::weights(config_.graph, config_.degree, rates_,
                                                  live_workers(turn), turn.self()),
                      done_, is_first);
    copies_.clear();
    holders_.clear();
    for (const auto& [round, handle] : sent_) channel_->cancel(handle, within(*channel_, turn));
    sent_.clear();
    if (is_first) {
      const std::vector<Rank> all = neighbours_.all();
      if (!sends_differences()) return;
      own_ = copied(turn.params());
      for (const Rank rank : all) copies_[rank] = own_;
      holders_.insert(all.begin(), all.end());
    } else if (phase_ != Phase::outside && phase_ != Phase::entering) {
      join(turn);
    }
  }

  void receive(Turn& turn) {
    channel_->drop_lost();  // vectors cancelled with their view, or from a lost neighbour
    while (auto one = channel_->poll(within(*channel_, turn))) {
      const DpsgdHeader& header = one->header;
      if (header.epoch != epoch_) continue;
      if (header.kind == DpsgdHeader::Kind::model) {
        neighbours_.keep(one->from,
                         {header.round, header.is_whole, header.samples, one->content.values()});
        continue;
      }
      neighbours_.join(one->from, header.round);
      const std::vector<Rank> now = neighbours_.in(done_);
      if (is_announced_ && std::ranges::find(now, one->from) != now.end())
        send({one->from}, true, own_, turn);
    }
  }

  // Makes one move of the round, if one is possible now.
  bool advance(Turn& turn) {
    switch (phase_) {
      case Phase::outside:
        return take_state(turn);
      case Phase::entering:
        return enter_run(turn);
      case Phase::ready:
        begin_round(turn);
        return false;
      case Phase::mixing:
        if (!neighbours_.missing(done_).empty()) return false;
        mix(turn);
        end_round(turn);
        return true;
      case Phase::deciding:
        return decide(turn);
      case Phase::averaging:
        return end_with_mean(/*gives=*/true, turn);
      default:
        return false;
    }
  }

  bool decide(Turn& turn) {
    const StopRule::Step step = done_ == 0 ? StopRule::Step::go_on : stop_.after(done_ - 1);
    if (step == StopRule::Step::wait) return false;
    if (step == StopRule::Step::go_on) {
      phase_ = Phase::ready;
      return true;
    }
    begin_mean(turn);
    return true;
  }

  // Sends the senior worker's model to returned workers when the learner is idle. A neighbour of a
  // returned worker can be the senior worker, and waits in its mixing for the returned worker.
  void hand_over(Turn& turn) {
    if (phase_ == Phase::outside) return;
    state_transfer_.drop_received();  // received twice
    if (phase_ == Phase::entering || turn.learner_is_busy()) return;
    newcomers_.hand_over(state_transfer_, done_, turn, within(state_transfer_, turn),
                         [&](Archive& ar) { archive_for_returned(ar, turn); });
  }

  void archive_for_returned(Archive& ar, Turn& turn) {
    ar.expect("dpsgd");
    ar(done_, samples_);
    stop_.hand_over(ar);
    ar.floats(turn.params());
  }

  bool take_state(Turn& turn) {
    if (!state_transfer_.received()) return false;
    const Round round = state_transfer_.received()->round;
    Status read = state_transfer_.read([&](Archive& ar) { archive_for_returned(ar, turn); });
    if (read && done_ != round) read = malformed("the state that was received is of another round");
    if (!read) return fail(read.error(), turn), false;
    phase_ = Phase::entering;
    state_transfer_.confirm(within(state_transfer_, turn));
    return true;
  }

  // Passes the missed rounds with the current model.
  bool enter_run(Turn& turn) {
    const std::vector<Rank> older = older_neighbours();
    if (!neighbours_.untold(older).empty()) return false;
    const Round first = neighbours_.latest(older, done_);
    if (first > done_ + kMostMissed * apart_) {
      fail(malformed("a neighbour says that it is in round " + std::to_string(first) +
                     ", the senior worker was in round " + std::to_string(done_)),
           turn);
      return false;
    }
    while (done_ < first) count_round(turn);
    neighbours_.begin(done_);
    join(turn);
    phase_ = Phase::deciding;
    return true;
  }

  // Returns the neighbours that have taken part longer: so only one of two returned workers waits
  // for the other.
  std::vector<Rank> older_neighbours() const {
    const auto since = [&](Rank rank) {
      const auto it = returned_.find(rank);
      return std::pair(it == returned_.end() ? Epoch{0} : it->second, rank);
    };
    std::vector<Rank> older = neighbours_.all();
    std::erase_if(older, [&](Rank rank) { return since(self_) < since(rank); });
    return older;
  }

  void join(Turn& turn) {
    const std::vector<Rank> all = neighbours_.all();
    if (all.empty()) return;
    channel_->send(all, {.kind = DpsgdHeader::Kind::join, .epoch = epoch_, .round = done_}, {}, {},
                   within(*channel_, turn));
  }

  void begin_round(Turn& turn) {
    phase_ = Phase::computing;
    if (config_.order == "published") announce(turn);
    if (phase_ == Phase::computing) turn.compute(LocalStep{}, config_.steps);
  }

  // Sends y_i of this round to all neighbours that have joined it by now.
  void announce(Turn& turn) {
    if (!all_finite(turn.params()))
      return fail(not_finite("its model has values that are not finite; lower [optimizer] rate"),
                  turn);
    is_announced_ = true;
    own_samples_ = samples_;
    std::vector<Rank> holders, others;
    for (const Rank rank : neighbours_.in(done_))
      (holders_.contains(rank) ? holders : others).push_back(rank);
    if (holders.empty()) {
      own_ = copied(turn.params());
    } else {
      const Snapshot sent = difference(turn);
      follow(sent, holders.front(), turn);
      send(holders, false, sent, turn);
    }
    send(others, true, own_, turn);
  }

  // Returns x_i - y_i; buffers are sent unchanged.
  Snapshot difference(Turn& turn) {
    const auto x = turn.params();
    std::vector<float> change(x.begin(), x.end());
    for (std::size_t i = 0; i < parameter_count(turn.place()); ++i) change[i] -= (*own_)[i];
    return snapshot_of(std::move(change));
  }

  // y_i <- y_i + the difference as the neighbours read it
  void follow(const Snapshot& change, Rank holder, Turn& turn) {
    const std::vector<float> read =
        channel_->as_received(*change, {0, size_}, holder, options(/*whole=*/false));
    own_ = moved(own_, read, turn);
  }

  static Snapshot moved(const Snapshot& copy, std::span<const float> change, const Turn& turn) {
    std::vector<float> y(change.begin(), change.end());
    for (std::size_t i = 0; i < parameter_count(turn.place()); ++i) y[i] += (*copy)[i];
    return snapshot_of(std::move(y));
  }

  // Returns the coding and the group of a vector. Differences of two rounds can be in transit;
  // those of earlier rounds are mixed. A group has one vector in transit at a time.
  SendOptions options(bool whole) const {
    if (!sends_differences()) return {.coding = Coding::up, .group = 0};
    return {.coding = whole ? Coding::exact : Coding::up, .group = std::uint32_t(done_ % 2)};
  }

  void send(const std::vector<Rank>& to, bool whole, Snapshot values, Turn& turn) {
    if (to.empty()) return;
    const VectorHandle handle = channel_->send(to,
                                               {.kind = DpsgdHeader::Kind::model,
                                                .is_whole = whole,
                                                .epoch = epoch_,
                                                .round = done_,
                                                .samples = own_samples_},
                                               VectorContent::values(std::move(values), {0, size_}),
                                               options(whole), within(*channel_, turn));
    sent_.emplace_back(done_, handle);
    while (sent_.front().first + 2 < done_) sent_.pop_front();
    if (sends_differences()) holders_.insert(to.begin(), to.end());
  }

  // Applies x_i <- x'_i + sum_j W_ij (y_j - y_i), also to buffers. A buffer that becomes negative
  // may be a running variance: it is then mixed relative to its current value, not to y_i.
  void mix(Turn& turn) {
    struct Term {
      double weight;
      Snapshot y;
    };
    std::vector<Term> terms;
    double samples = samples_;
    for (const Rank rank : neighbours_.in(done_)) {
      const gossip::NeighbourModel model = neighbours_.take(rank, done_);
      samples += neighbours_.weight(rank) * (model.samples - own_samples_);
      terms.push_back({neighbours_.weight(rank), model_of(rank, model, turn)});
    }
    samples_ = std::max(0.0, samples);
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
    turn.record("wait_s", done_, seconds(turn.now() - asked_));
  }

  // Returns y_j: the received model, or the copy moved by the received difference.
  Snapshot model_of(Rank rank, const gossip::NeighbourModel& model, const Turn& turn) {
    if (!sends_differences()) return model.values;
    Snapshot& copy = copies_.at(rank);
    copy = model.is_whole ? model.values : moved(copy, *model.values, turn);
    return copy;
  }

  void end_round(Turn& turn) {
    phase_ = Phase::deciding;
    is_announced_ = false;
    if (!sends_differences()) own_.reset();
    count_round(turn);
  }

  // Counts one more round as done, with the current model.
  void count_round(Turn& turn) {
    const auto live = live_workers(turn).size();
    stop_.round_done(done_++, turn.params(), std::uint64_t(std::llround(samples_ * double(live))),
                     within(stop_, turn));
  }

  std::string place_in_run() const override { return "dpsgd, round " + std::to_string(done_); }

  const Config config_;
  const Rank self_;
  const Round apart_;         // maximum lead of a worker over another, in rounds
  const std::uint64_t size_;  // length of the layout
  const std::function<double(Rank, Rank)> rates_;  // rates of the job's network; may be null
  std::unique_ptr<Channel> channel_;
  StopRule stop_;
  StateTransfer state_transfer_;
  gossip::Newcomers newcomers_;

  Round done_ = 0;                  // rounds done; also the number of the current round
  bool has_entered_ = false;        // whether it has entered its first view
  Epoch epoch_ = 0;                 // epoch of the view whose graph it mixes in
  std::map<Rank, Epoch> returned_;  // returned workers of that view
  bool is_announced_ = false;       // whether own_ holds y_i of this round
  Snapshot own_;                    // y_i
  gossip::Neighbours neighbours_;
  // Differences: neighbours that hold y_i, and y_j of the neighbours that have sent it; null while
  // it is in transit.
  std::set<Rank> holders_;
  std::map<Rank, Snapshot> copies_;
  std::deque<std::pair<Round, VectorHandle>> sent_;  // vectors of the last rounds
  // Samples per worker in the mean: an estimate that is mixed like the models, and its announced
  // value.
  double samples_ = 0, own_samples_ = 0;
  Time asked_{0};  // start of the wait for the neighbours' models
};

}  // namespace

SyncEntry dpsgd_entry() { return Dpsgd::entry(); }

}  // namespace longhaul::sync
