#pragma once
// Asynchronous decentralised parallel SGD: each worker takes local steps at its own pace. Meanwhile
// it averages its model with one random partner at a time. No worker waits.
//   Lian et al., "Asynchronous decentralized parallel stochastic gradient descent", ICML 2018,
//   algorithm 1, with the bipartite graph of section 4.
//
// Half of the workers are active and send requests. The other half is passive and answers at once,
// also while the learner computes. The active worker i sends model a, and the passive worker j
// answers with model b, both as the other reads them:
//   x_j <- x_j + (a - b) / 2      when j answers
//   x_i <- x_i + (b - a) / 2      when i has the answer
// Both add the same difference. So the sum of the two models is unchanged except for rounding, with
// any codec and whatever i has computed meanwhile. When local steps end, their change is added to
// the mixed model.
//
// A returned worker takes the model of the senior worker. Until the model has arrived, the worker
// sends no requests and refuses those of others.
#include <algorithm>
#include <functional>

#include "longhaul/core/registry.h"
#include "longhaul/core/vector_channel.h"
#include "longhaul/sync/entry.h"
#include "longhaul/sync/flat.h"
#include "longhaul/sync/gossip/ends_in_mean.h"
#include "longhaul/sync/gossip/newcomers.h"
#include "longhaul/sync/gossip/step_count.h"

namespace longhaul::sync {

struct AdpsgdHeader {
  LONGHAUL_MESSAGE(0, "header");  // part of another message
  enum class Kind : std::uint8_t {
    request,  // from an active worker, with its model
    answer,   // from a passive worker, with its model
    refusal   // no vector: the sender has no model, or its model is in the final mean of the run
  };
  Kind kind = Kind::request;
  std::uint64_t exchange = 0;  // the active worker's number of the exchange, from 1
  LONGHAUL_FIELDS((kind, .max = 2), (exchange, .max = 0x1p32))
};

enum class AdpsgdPhase : std::uint8_t {
  unstarted,
  outside,  // returned, without a model yet
  ready,
  computing,
  waiting,    // has taken as many steps as the whole run has
  closing,    // the run has ended: waits for the answer to the last request
  averaging,  // takes part in the final mean of the run
  ended
};

class Adpsgd final : public gossip::EndsInMean<AdpsgdPhase> {
 public:
  static SyncEntry entry() {
    return strategy_entry<Adpsgd>(
        {.name = "adpsgd",
         .summary = "average models in random pairs while local steps continue",
         .sends = "An active worker asks one passive worker at a time, drawn at random; the two "
                  "models cross, and both take half of the difference. Nobody waits",
         .traits = {.bits = Bits::schedule,
                    .takes_outer = false,
                    .no_feedback = "needs partners to know what the other reads",
                    .takes_unbiased = false,
                    .when_lost = "the others continue without it; an exchange with it is given up",
                    .lets_return = true,
                    .mean_at_end = true},
         .costs = {{.rounds = "n units of H steps (1)",
                    .sent = "S a unit, and S back",
                    .waits_for = "no node",
                    .staleness = "steps meanwhile",
                    .memory = "3 S, and S an answer",
                    .when_lost = "continues"}}});
  }

  struct Config {
    std::string graph = "complete";
    std::uint32_t steps = 1;

    static void fields(auto& self, auto&& visit) {
      LONGHAUL_KEY(graph,
                   "possible partners of an active worker: any passive one, or its neighbours in "
                   "the order of ranks",
                   .choices = {"complete", "ring"});
      LONGHAUL_KEY(steps,
                   "local steps between two boundaries, at which an active worker that waits for "
                   "no answer asks the next",
                   .min = 1);
    }
  };
  Adpsgd(const Config& config, SyncParts parts, const Place& place)
      : EndsInMean(std::move(parts.overlay)),
        config_(config),
        size_(place.layout->size()),
        members_(place.members),
        count_(parts.stop, place) {
    channel_ = std::make_unique<Channel>(
        place, ChannelConfig{.stream = "adpsgd", .limits = ChannelLimits::models(1, *place.layout)},
        std::move(parts.transfer), parts.make_codec(true), nullptr,
        std::bind_front(&Adpsgd::admit, this));
    own(*channel_, {1, "channel"});
    own(count_, {2, "step count"});
    own(state_transfer_, {3, "state transfer"});
    own(final_return_, {4, "final model"});
  }

  void on_start(Turn& turn) override {
    assign(model_, turn.params());
    has_model_ = !turn.place().comes_back();
    phase_ = has_model_ ? Phase::ready : Phase::outside;
  }

  void on_view(const View&, Turn& turn) override {
    newcomers_.on_view(turn);
    if (open_ && !turn.view().has(open_->partner)) open_.reset();
    std::erase_if(answers_, [&](Rank rank) { return !turn.view().has(rank); });
    if (phase_ != Phase::outside || count_.is_over()) return;
    if (const Status can_come = gossip::Newcomers::check_sender(turn); !can_come)
      fail(can_come.error(), turn);
  }

  void on_computed(const Computed& computed, Turn& turn) override {
    if (phase_ != Phase::computing) return;  // failed
    if (!turn.place().phantom) turn.record("train_loss", count_.own(), computed.loss);
    fold_steps(turn);
    phase_ = Phase::ready;
    count_.took(computed.samples, within(count_, turn));
  }

  void on_progress(Turn& turn) override {
    if (phase_ == Phase::unstarted) return;
    receive(turn);
    hand_over(turn);
    while (advance(turn)) {
    }
    if (phase_ == Phase::ended) {
      final_return_.serve(within(final_return_, turn));
    }
    if (const auto round = count_.due(); round && phase_ != Phase::ended) {
      // Never null, which would mean the model of a learner that may be computing.
      count_.report(snapshot_of(model_), within(count_, turn));
    }
  }

  Round rounds_done() const override { return count_.rounds(); }
  bool lets_return() const override { return true; }
  std::string waiting_for() const override {
    if (phase_ == Phase::outside)
      return "the model of the senior worker, as this node has returned";
    if (phase_ == Phase::waiting) return "the end of the run, which the senior worker tells";
    if (phase_ == Phase::averaging) return final_return_.waiting_for();
    if (phase_ != Phase::closing || !open_) return "";
    return "the answer of rank " + std::to_string(open_->partner) + " to exchange " +
           std::to_string(exchanges_);
  }

  void state(Archive& ar) override {
    ar.expect("adpsgd");
    ar(phase_, model_, start_, kept_, exchanges_, open_, answers_);
    ar(has_model_, newcomers_);
  }

 private:
  static void archive_model(Archive& ar, std::vector<float>& model) {
    ar.expect("adpsgd model");
    ar.floats(model);
  }

  using Channel = VectorChannel<AdpsgdHeader>;
  using Phase = AdpsgdPhase;
  struct Exchange {
    Rank partner = 0;
    Snapshot sent;  // model as the partner reads it
    Time since{0};
    void state(Archive& ar) {
      ar(partner, since);
      archive_snapshot(ar, sent);
    }
  };

  // Admits a vector if it is due. A partner sends a request when it has the previous answer, so
  // nothing of that answer is still to be sent.
  Result<bool> admit(Rank from, const AdpsgdHeader& header, const ContentShape& shape) const {
    using Kind = AdpsgdHeader::Kind;
    const bool is_model =
        shape.kind == ContentKind::values && shape.range.offset == 0 && shape.range.length == size_;
    if (header.kind == Kind::refusal ? shape.kind != ContentKind::none : !is_model)
      return malformed("a vector that is no model, or a refusal with one");
    if (header.kind == Kind::request) {
      if (answers_.contains(from)) return malformed("a request before the answer to the last one");
    } else if (!open_ || open_->partner != from || header.exchange != exchanges_) {
      return malformed("an unexpected answer");
    }
    return true;
  }

  // Returns the possible partners of this worker. Passive workers are those at odd positions in the
  // view. They have none, and answer workers at even positions.
  std::vector<Rank> partners(const Turn& turn) const {
    const std::vector<Rank> workers = live_workers(turn);
    const auto me = std::size_t(std::ranges::find(workers, turn.self()) - workers.begin());
    std::vector<Rank> found;
    if (me % 2 == 1) return found;
    for (std::size_t at = 1; at < workers.size(); at += 2) {
      const bool is_beside = at + 1 == me || at == me + 1 || (me == 0 && at + 1 == workers.size());
      if (config_.graph == "complete" || is_beside) found.push_back(workers[at]);
    }
    return found;
  }

  // Sends a request to a random partner, unless an exchange is open.
  void ask(Turn& turn) {
    const std::vector<Rank> who = partners(turn);
    if (open_ || who.empty()) return;
    ++exchanges_;
    const Rank partner =
        who[turn.random(Purpose::members, exchanges_, turn.self()).below(who.size())];
    Snapshot sent = send(partner, {AdpsgdHeader::Kind::request, exchanges_}, turn);
    if (sent) open_ = Exchange{partner, std::move(sent), turn.now()};
  }

  void receive(Turn& turn) {
    channel_->drop_lost();  // on_view() has given up exchanges with lost partners
    while (const auto sent = channel_->sent()) answers_.erase(sent->to);
    while (auto one = channel_->poll(within(*channel_, turn))) {
      if (one->header.kind == AdpsgdHeader::Kind::request) {
        answer(one->from, one->header, one->content.values(), turn);
      } else if (open_ && open_->partner == one->from) {
        take_answer(one->content.kind() == ContentKind::none ? nullptr : one->content.values(),
                    turn);
      }
    }
  }

  void answer(Rank from, const AdpsgdHeader& header, const Snapshot& model, Turn& turn) {
    if (!has_model_ || phase_ >= Phase::averaging) {
      channel_->send({from}, {AdpsgdHeader::Kind::refusal, header.exchange}, {}, {},
                     within(*channel_, turn));
      return;
    }
    const Snapshot mine = send(from, {AdpsgdHeader::Kind::answer, header.exchange}, turn);
    if (mine) approach(model, mine, turn);
  }

  void take_answer(const Snapshot& model, Turn& turn) {
    if (model) {
      approach(model, open_->sent, turn);
      turn.record("exchange_s", count_.own(), seconds(turn.now() - open_->since));
    }
    open_.reset();
  }

  // Sends this node's model. Returns the model as `to` reads it; null if it is not finite and the
  // run has failed.
  Snapshot send(Rank to, const AdpsgdHeader& header, Turn& turn) {
    if (!all_finite(model_)) {
      fail(not_finite("its model has values that are not finite; lower [optimizer] rate"), turn);
      return nullptr;
    }
    // After a loss, workers can change sides. Then a worker can ask a worker that it is answering.
    const bool is_answer = header.kind == AdpsgdHeader::Kind::answer;
    const Range all{0, size_};
    const SendOptions options{
        .coding = Coding::up, .group = 2 * to + (is_answer ? 1 : 0), .report_sent = is_answer};
    if (is_answer) answers_.insert(to);
    auto read = snapshot_of(channel_->as_received(model_, all, to, options));
    channel_->send({to}, header, VectorContent::values(snapshot_of(model_), all), options,
                   within(*channel_, turn));
    return read;
  }

  // Sets x to x + (theirs - mine) / 2. Buffers move halfway to theirs.
  void approach(const Snapshot& theirs, const Snapshot& mine, const Turn& turn) {
    const std::size_t parameters = parameter_count(turn.place());
    for (std::size_t i = 0; i < model_.size(); ++i) {
      const double from = i < parameters ? double((*mine)[i]) : double(model_[i]);
      model_[i] = float(double(model_[i]) + (double((*theirs)[i]) - from) / 2);
    }
    kept_ /= 2;
  }

  void begin_steps(Turn& turn) {
    if (count_.has_taken_all()) {
      phase_ = Phase::waiting;
      return;
    }
    start_ = model_;
    kept_ = 1;
    std::ranges::copy(model_, turn.params().begin());
    ask(turn);
    if (phase_ != Phase::ready) return;  // failed
    phase_ = Phase::computing;
    turn.compute(LocalStep{}, config_.steps);
  }

  // Sets x to the mixed model + the change by the steps, buffers too. If that makes a buffer
  // negative that was not, it may be a running variance. Then the change is scaled by kept_, the
  // share that mixing has left of the value before the steps.
  void fold_steps(Turn& turn) {
    const auto x = turn.params();
    const std::size_t parameters = parameter_count(turn.place());
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double change = double(x[i]) - double(start_[i]), sum = double(model_[i]) + change;
      const bool is_variance = i >= parameters && sum < 0 && x[i] >= 0;
      model_[i] =
          model_[i] == start_[i] ? x[i] : float(is_variance ? sum - (1 - kept_) * change : sum);
    }
  }

  bool advance(Turn& turn) {
    switch (phase_) {
      case Phase::outside:
        if (count_.is_over()) {
          phase_ = Phase::closing;
          return true;
        }
        if (!state_transfer_.received()) return false;
        take_state(turn);
        return true;
      case Phase::ready:
      case Phase::waiting:
        if (count_.is_over()) {
          phase_ = Phase::closing;
          return true;
        }
        if (phase_ == Phase::ready) begin_steps(turn);
        return false;
      case Phase::computing:
        if (count_.is_over()) turn.stop_computing();
        return false;
      case Phase::closing:
        if (open_) return false;
        average(turn);
        return true;
      case Phase::averaging:
        return end_with_mean(has_model_, turn);
      default:
        return false;
    }
  }

  // Sends the current model to returned workers, unless the run has ended.
  void hand_over(Turn& turn) {
    if (phase_ != Phase::outside) state_transfer_.drop_received();  // a duplicate, or too late
    if (!has_model_ || count_.is_over()) return;
    newcomers_.hand_over(state_transfer_, count_.rounds(), turn, within(state_transfer_, turn),
                         [this](Archive& ar) { archive_model(ar, model_); });
  }

  void take_state(Turn& turn) {
    const Status read = state_transfer_.read([this](Archive& ar) { archive_model(ar, model_); });
    if (!read) return fail(read.error(), turn);
    has_model_ = true;
    phase_ = Phase::ready;
    state_transfer_.confirm(within(state_transfer_, turn));
  }

  void average(Turn& turn) {
    std::ranges::copy(model_, turn.params().begin());
    begin_mean(turn);
  }

  std::string place_in_run() const override {
    return "adpsgd, after " + std::to_string(count_.own()) + " steps";
  }

  const Config config_;
  const std::uint64_t size_;  // size of the layout
  const SharedMembers members_;
  std::unique_ptr<Channel> channel_;
  gossip::StepCount count_;
  StateTransfer state_transfer_;
  gossip::Newcomers newcomers_;

  bool has_model_ = false;
  std::vector<float> model_;  // without the steps in progress
  std::vector<float> start_;  // params() when those steps began
  double kept_ = 1;           // share of start_'s buffers in those of model_
  std::uint64_t exchanges_ = 0;
  std::optional<Exchange> open_;
  std::set<Rank> answers_;  // receivers whose answer the host has not taken completely
};

}  // namespace longhaul::sync
