#include "longhaul/sync/dpsgd.h"

#include <cmath>

#include "longhaul/overlay/belief.h"
#include "longhaul/sync/entry.h"
#include "longhaul/sync/flat.h"

namespace longhaul::sync {
namespace {

// Of one neighbour: it is at most one round ahead, and what came is read at once.
constexpr std::uint32_t kModelsOfANeighbour = 2;

// The reporter alone says when enough samples were used, and a node may be many rounds behind it: a
// neighbour is one round ahead at most, the far end of a ring n/2, and each loss, after which the
// ring is another one, adds as much. A return adds nothing: see dpsgd_returning.cpp.
StopConfig stop_config_of(StopConfig config, const Place& place) {
  const std::uint64_t n = place.size();
  config.apart = n * n / 4 + 2 * n;
  config.reporter_counts = true;
  return config;
}

Snapshot snapshot_of(std::span<const float> x) {
  return std::make_shared<const std::vector<float>>(x.begin(), x.end());
}

void adapt_dpsgd(const Settings& settings, SyncTraits& traits) {
  if (settings.text("send").value_or("model") != "difference") return;
  traits.no_feedback = "sends differences to what its neighbours hold, which carry the error";
  traits.takes_unbiased = true;
}

}  // namespace

SyncEntry Dpsgd::entry() {
  return strategy_entry<Dpsgd>(
      {.name = "dpsgd",
       .summary = "mix the models of neighbours in a graph, round by round",
       .traits = {.takes_outer = false,
                  .takes_unbiased = false,  // whole models
                  .when_lost = "the others make the graph anew without it and go on",
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

Dpsgd::Dpsgd(const Config& config, SyncParts parts, const Place& place)
    : config_(config),
      self_(place.self),
      apart_(stop_config_of(parts.stop, place).apart),
      size_(place.layout->size()),
      rates_(config.graph == "best_rate" ? overlay::rates_of(parts.network, place)
                                         : overlay::RateBelief{}),
      final_(std::move(parts.overlay)),
      stop_(stop_config_of(parts.stop, place)),
      final_return_(final_) {
  own(final_.overlay(), kOverlayChild);
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

Result<bool> Dpsgd::admit(Rank from, const DpsgdHeader& header, const ContentShape& shape) {
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
    // The whole model comes first; what follows it are differences.
    if (header.is_whole != (!sends_differences() || !copies_.contains(from)))
      return malformed("a difference to a model that was not sent, or a model after it");
    LH_TRY(neighbours_.admit_model(from, header.round, done_));
    if (sends_differences() && header.is_whole) copies_[from] = nullptr;
  }
  return true;
}

void Dpsgd::on_start(Turn& turn) {
  phase_ = turn.place().comes_back() ? Phase::outside : Phase::ready;
}

void Dpsgd::on_view(const View&, Turn& turn) {
  newcomers_.on_view(turn);
  if (phase_ != Phase::outside) return;
  if (const Status can_come = gossip::Newcomers::check_sender(turn); !can_come)
    fail(can_come.error(), turn);
}

// The overlay starts after its parent: the first round begins here.
void Dpsgd::on_progress(Turn& turn) {
  if (phase_ == Phase::unstarted) return;
  if (turn.place().comes_back() && turn.view().epoch == 0) return;  // not let in yet
  if (!has_entered_ || epoch_ != turn.view().epoch) enter_view(turn);
  receive(turn);
  do {
    hand_over(turn);
  } while (advance(turn));
  if (phase_ != Phase::ended) return;
  Turn below = within(final_return_, turn);
  final_return_.serve(below);
}

// All begin in round 0, with equal models. After a loss each tells the others its round.
void Dpsgd::enter_view(Turn& turn) {
  const bool is_first = !std::exchange(has_entered_, true) && turn.view().epoch == 0;
  epoch_ = turn.view().epoch;
  returned_ = turn.view().returned;
  neighbours_.enter(
      gossip::Neighbours::weights(config_.graph, config_.degree, rates_,
                                  live_with(Role::worker, turn.place(), turn.view()), turn.self()),
      done_, is_first);
  copies_.clear();
  holders_.clear();
  Turn below = within(*channel_, turn);
  for (const auto& [round, handle] : sent_) channel_->cancel(handle, below);
  sent_.clear();
  if (is_first) {
    const std::vector<Rank> all = neighbours_.all();
    if (!sends_differences()) return;
    own_ = snapshot_of(turn.params());
    for (const Rank rank : all) copies_[rank] = own_;
    holders_.insert(all.begin(), all.end());
  } else if (phase_ != Phase::outside && phase_ != Phase::entering) {
    join(turn);
  }
}

void Dpsgd::join(Turn& turn) {
  const std::vector<Rank> all = neighbours_.all();
  if (all.empty()) return;
  Turn below = within(*channel_, turn);
  channel_->send(all, {.kind = DpsgdHeader::Kind::join, .epoch = epoch_, .round = done_}, {}, {},
                 below);
}

void Dpsgd::receive(Turn& turn) {
  Turn below = within(*channel_, turn);
  while (channel_->lost()) {
  }  // cancelled, as they are of a view that is over; or of a neighbour that is lost
  while (auto one = channel_->poll(below)) {
    const DpsgdHeader& header = one->header;
    if (header.epoch != epoch_) continue;
    if (header.kind == DpsgdHeader::Kind::model) {
      neighbours_.keep(one->from,
                       {header.round, header.is_whole, header.samples, one->content.values()});
      continue;
    }
    neighbours_.join(one->from, header.round);
    const std::vector<Rank> now = neighbours_.in(done_);
    if (is_announced_ && std::find(now.begin(), now.end(), one->from) != now.end())
      send({one->from}, true, own_, turn);
  }
}

// One move of the round, if one can be made now.
bool Dpsgd::advance(Turn& turn) {
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
      if (!take_final(turn)) return false;
      phase_ = Phase::ended;
      turn.finish();
      return false;
    case Phase::unstarted:
    case Phase::computing:
    case Phase::ended:
      return false;
  }
  return false;
}

bool Dpsgd::decide(Turn& turn) {
  const StopRule::Step step = done_ == 0 ? StopRule::Step::go_on : stop_.after(done_ - 1);
  if (step == StopRule::Step::wait) return false;
  if (step == StopRule::Step::go_on) {
    phase_ = Phase::ready;
    return true;
  }
  phase_ = Phase::averaging;
  if (turn.place().comes_back()) return true;  // FinalReturn begins
  const Status begun = final_.begin(turn, within(final_.overlay(), turn));
  if (!begun) fail(begun.error(), turn);
  return true;
}

void Dpsgd::begin_round(Turn& turn) {
  phase_ = Phase::computing;
  if (config_.order == "published") announce(turn);
  if (phase_ == Phase::computing) turn.compute(LocalStep{}, config_.steps);
}

void Dpsgd::on_computed(const Computed& computed, Turn& turn) {
  if (phase_ != Phase::computing) return;  // it has failed
  if (!turn.place().phantom) turn.record("train_loss", done_, computed.loss);
  samples_ += double(computed.samples);
  phase_ = Phase::mixing;
  asked_ = turn.now();
  if (config_.order == "adapt_then_combine") announce(turn);
}

// y_i of this round, to all neighbours with which it is mixed and that are known by now.
void Dpsgd::announce(Turn& turn) {
  if (!all_finite(turn.params()))
    return fail(not_finite("its model has values that are not finite; lower [optimizer] rate"),
                turn);
  is_announced_ = true;
  own_samples_ = samples_;
  std::vector<Rank> holders, others;
  for (const Rank rank : neighbours_.in(done_))
    (holders_.contains(rank) ? holders : others).push_back(rank);
  if (holders.empty()) {
    own_ = snapshot_of(turn.params());
  } else {
    std::vector<float> change = difference(turn);
    const Snapshot sent = std::make_shared<const std::vector<float>>(std::move(change));
    follow(sent, holders.front(), turn);
    send(holders, false, sent, turn);
  }
  send(others, true, own_, turn);
}

// x_i - y_i; buffers travel as they are.
std::vector<float> Dpsgd::difference(Turn& turn) {
  const auto x = turn.params();
  std::vector<float> change(x.begin(), x.end());
  for (std::size_t i = 0; i < parameter_count(turn.place()); ++i) change[i] -= (*own_)[i];
  return change;
}

// y_i <- y_i + what the neighbours read of the difference
void Dpsgd::follow(const Snapshot& change, Rank holder, Turn& turn) {
  const std::vector<float> read =
      channel_->as_received(*change, {0, size_}, holder, options(/*whole=*/false));
  own_ = moved(own_, read, turn);
}

Snapshot Dpsgd::moved(const Snapshot& copy, std::span<const float> change, const Turn& turn) {
  std::vector<float> y(change.begin(), change.end());
  for (std::size_t i = 0; i < parameter_count(turn.place()); ++i) y[i] += (*copy)[i];
  return std::make_shared<const std::vector<float>>(std::move(y));
}

// Differences of two rounds may be under way, and none of the round before those: their neighbours
// have mixed it. A group has one vector under way at a time.
SendOptions Dpsgd::options(bool whole) const {
  if (!sends_differences()) return {.coding = Coding::up, .group = 0};
  return {.coding = whole ? Coding::exact : Coding::up, .group = std::uint32_t(done_ % 2)};
}

void Dpsgd::send(const std::vector<Rank>& to, bool whole, Snapshot values, Turn& turn) {
  if (to.empty()) return;
  Turn below = within(*channel_, turn);
  const VectorHandle handle =
      channel_->send(to,
                     {.kind = DpsgdHeader::Kind::model,
                      .is_whole = whole,
                      .epoch = epoch_,
                      .round = done_,
                      .samples = own_samples_},
                     VectorContent::values(std::move(values), {0, size_}), options(whole), below);
  sent_.emplace_back(done_, handle);
  while (sent_.front().first + 2 < done_) sent_.pop_front();
  if (sends_differences()) holders_.insert(to.begin(), to.end());
}

// x_i <- x'_i + sum_j W_ij (y_j - y_i), buffers too. Where that makes a buffer negative that was
// not, it may be a running variance: the neighbours' are mixed with the one that stands there.
void Dpsgd::mix(Turn& turn) {
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

// y_j: what came, or the copy moved by it.
Snapshot Dpsgd::model_of(Rank rank, const gossip::NeighbourModel& model, const Turn& turn) {
  if (!sends_differences()) return model.values;
  Snapshot& copy = copies_.at(rank);
  copy = model.is_whole ? model.values : moved(copy, *model.values, turn);
  return copy;
}

void Dpsgd::end_round(Turn& turn) {
  phase_ = Phase::deciding;
  is_announced_ = false;
  if (!sends_differences()) own_.reset();
  ++done_;
  const auto live = live_with(Role::worker, turn.place(), turn.view()).size();
  Turn below = within(stop_, turn);
  stop_.round_done(done_ - 1, turn.params(), std::uint64_t(std::llround(samples_ * double(live))),
                   below);
}

void Dpsgd::fail(const Error& error, Turn& turn) {
  phase_ = Phase::ended;
  turn.fail({error.kind, "dpsgd, round " + std::to_string(done_) + ", site " +
                             turn.place().me().site + " (rank " + std::to_string(turn.self()) +
                             "): " + error.what});
}

std::string Dpsgd::waiting_for() const {
  if (phase_ == Phase::outside) return "the model of the senior worker, as this node has returned";
  if (phase_ == Phase::entering) {
    std::string text = "the rounds of ranks";
    for (const Rank rank : neighbours_.untold(older_neighbours()))
      text += " " + std::to_string(rank);
    return text;
  }
  if (phase_ == Phase::deciding) return stop_.waiting_for();
  if (phase_ == Phase::averaging) return final_.waiting_for();
  if (phase_ != Phase::mixing) return "";
  std::string text = "round " + std::to_string(done_) + ": models of ranks";
  for (const Rank rank : neighbours_.missing(done_)) text += " " + std::to_string(rank);
  const std::string below = channel_->waiting_for();
  return below.empty() ? text : text + "; " + below;
}

void Dpsgd::state(Archive& ar) {
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
  for (auto& [rank, copy] : copies)
    copies_[rank] = std::make_shared<const std::vector<float>>(std::move(copy));
  for (const Rank rank : announced) copies_[rank] = nullptr;
}

}  // namespace longhaul::sync
