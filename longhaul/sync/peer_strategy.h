#pragma once
// PeerStrategy is the base of strategies without a server whose workers exchange with some others,
// round by round, and wait for those only. It has the rounds of a worker, the agreement after a
// change of the members, returns, and the end of the run: the mean of all models (final_return.h).
// A derived class has the exchange of a round, and channels of one view (ChannelConfig::one_view).
//
// A round begins when begin_round() returns its work. It is `steps` steps of that work,
// on_steps_done(), and end_round() in each turn until it returns true.
//
// Each worker enters a view in a round of its own, and sends it to its peers, the workers that it
// may exchange with. Nothing of the view before is in transit then. When the rounds of all peers
// have arrived, on_view_begun() is called. Two peers exchange from the later one of their rounds on
// (present()). So no worker waits for a round that its peer has passed, and the worker with the
// fewest rounds can always continue.
//
// A returned worker receives the senior worker's model at a step boundary. It enters in the latest
// round that two of its older peers have reached, those that have taken part longer, which wait for
// it. So it is never ahead of all workers or behind all, whatever one of them says, and returns do
// not increase the maximum lead of a worker.
//
// With Terms::enters_late no worker waits for the model, which comes beside the rounds, to one
// returned worker at a time. The view begins without the returned worker. When it has the model,
// each peer sends it a round that the peer has not begun, and waits there for its answer: the
// latest of these rounds that can be true. So all peers know whether it takes part in a round.
#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "longhaul/core/registry.h"
#include "longhaul/core/sample_count.h"
#include "longhaul/core/vector_channel.h"
#include "longhaul/sync/flat.h"
#include "longhaul/sync/gossip/ends_in_mean.h"
#include "longhaul/sync/gossip/newcomers.h"

namespace longhaul::sync {

enum class PeerPhase : std::uint8_t {
  unstarted,
  outside,   // has returned, and has no model yet
  entering,  // has a model; waits for the rounds of its older peers
  ready,
  computing,
  exchanging,
  deciding,   // waits for a verdict
  finishing,  // its rounds are done
  averaging,  // takes part in the mean that the run ends with
  ended
};

// PeerModels is a stream of models between peers: from each peer one model for each round in which
// the strategy exchanges with it, in order. A receiver keeps at most `most` of a peer. `is_model`
// admits a content by its header and shape, when it begins to arrive and when it has arrived;
// default: all values of the layout. `feedback`: the job's error feedback, if any.
template <Fielded Header>
class PeerModels {
 public:
  struct Model {
    Header header;
    VectorContent content;
    const Snapshot& values() const { return content.values(); }  // empty in a phantom job
    void state(Archive& ar) { ar(header, content); }
  };
  using IsModel = std::function<bool(const Header&, const ContentShape&)>;

  PeerModels(std::string stream, std::uint32_t most, SyncParts& parts, const Place& place,
             IsModel is_model = {}, Service service = {}, bool feedback = true)
      : stream_(stream),
        all_{0, place.layout->size()},
        is_model_(std::move(is_model)),
        most_(most),
        channel_(
            place,
            {.stream = std::move(stream),
             .limits = ChannelLimits::models(most, *place.layout),
             .service = service,
             .one_view = true},
            std::move(parts.transfer), parts.make_codec(feedback), nullptr,
            [this](Rank from, const Header& header, const ContentShape& shape) -> Result<bool> {
              if (!std::ranges::binary_search(peers_, from)) return malformed("a model of no peer");
              if (!fits(header, shape)) return malformed("a vector that is no model");
              return true;
            }) {}
  PeerModels(const PeerModels&) = delete;

  // The strategy's child, and argument of its within(); `below` is a turn as it sees it.
  VectorChannel<Header>& channel() { return channel_; }

  void send(const std::vector<Rank>& to, const Header& header, VectorContent model,
            const SendOptions& options, Turn& below) {
    if (!to.empty()) channel_.send(to, header, std::move(model), options, below);
  }
  void send(const std::vector<Rank>& to, const Header& header, Snapshot model,
            const SendOptions& options, Turn& below) {
    send(to, header, VectorContent::values(std::move(model), all_), options, below);
  }
  // Returns the model as `to` would read it if it were sent next.
  std::vector<float> as_received(std::span<const float> model, Rank to,
                                 const SendOptions& options) {
    return channel_.as_received(model, all_, to, options);
  }

  // Receives the arrived models. Returns true if there is one of each of these peers.
  bool receive(const std::vector<Rank>& from, Turn& below) {
    channel_.drop_lost();  // with their view
    while (auto one = channel_.poll(below))
      if (fits(one->header, one->content.shape()) && count(one->from) < most_)
        models_[one->from].push_back({std::move(one->header), std::move(one->content)});
    return lacking(from).empty();
  }
  bool has(Rank from) const { return models_.contains(from); }
  // For streams whose models are of one round: drops those of a round that is over.
  void drop_models() { models_.clear(); }
  std::vector<Rank> lacking(std::vector<Rank> from) const {
    std::erase_if(from, [&](Rank rank) { return has(rank); });
    return from;
  }
  // Returns the next model of a peer, once.
  Model take(Rank from) {
    auto& models = models_.at(from);
    Model model = std::move(models.front());
    models.pop_front();
    if (models.empty()) models_.erase(from);
    return model;
  }
  // Begins a view with these peers, ascending.
  void begin_view(std::vector<Rank> peers) {
    peers_ = std::move(peers);
    models_.clear();
  }
  // Returns "models of ranks 1 4" if the stream is "models", and what the channel waits for.
  std::string waiting_for(const std::vector<Rank>& from) const {
    const std::vector<Rank> ranks = lacking(from);
    return ranks.empty() ? channel_.waiting_for()
                         : channel_.waiting_after(stream_ + " of ranks" + listed(ranks));
  }
  void state(Archive& ar) {
    ar(peers_, models_);
    for (const auto& [rank, models] : models_)
      for (const Model& model : models)
        if (!fits(model.header, model.content.shape())) ar.fail("holds a model of another size");
  }

 private:
  std::size_t count(Rank from) const {
    const auto models = models_.find(from);
    return models == models_.end() ? 0 : models->second.size();
  }
  bool fits(const Header& header, const ContentShape& shape) const {
    if (is_model_) return is_model_(header, shape);
    return shape.kind == ContentKind::values && shape.range == all_;
  }

  const std::string stream_;
  const Range all_;
  const IsModel is_model_;
  const std::size_t most_;
  std::vector<Rank> peers_;  // of the view
  VectorChannel<Header> channel_;
  std::map<Rank, std::deque<Model>> models_;  // never empty
};

class PeerStrategy : public gossip::EndsInMean<PeerPhase> {
 public:
  struct EnteredView {
    LONGHAUL_MESSAGE(1, "entered_view");
    Epoch epoch = 0;
    Round round = 0;       // in which the sender has entered the view
    bool is_back = false;  // the sender has returned, and takes part from that round on
    LONGHAUL_FIELDS(epoch, (round, .max = 0x1p50), is_back)
  };
  using Messages = MessageList<EnteredView>;

  void on_start(Turn& turn) final {
    phase_ = turn.place().comes_back() ? Phase::outside : Phase::deciding;
    enter_view(turn);
  }

  void on_view(const View&, Turn& turn) final {
    newcomers_.on_view(turn);
    enter_view(turn);
    if (phase_ != Phase::outside) return;
    if (const Status can_come = gossip::Newcomers::check_sender(turn); !can_come)
      fail(can_come.error(), turn);
  }

  Status on_message(Rank from, const Message& message, Turn& turn) override {
    return dispatch(Messages{}, message, [&](const EnteredView& entered) -> Status {
      if (entered.epoch != turn.view().epoch) return Ok{};
      if (!std::ranges::binary_search(peers_, from) && from != senior_)
        return malformed("the round of no peer");
      const auto told = told_.find(from);
      if (is_outside(from) && !state_transfer_.has_state(from))
        return malformed("a returned peer enters without a model");
      if (told != told_.end() && entered.round < told->second) {
        told_.erase(told);
        rounds_[from] = {kNever, false};
        on_progress(turn);  // no longer waits for it
        return malformed("a returned peer enters before it can");
      }
      if (!rounds_.emplace(from, Entry{entered.round, entered.is_back}).second)
        return malformed("a peer sends its round for the second time");
      outside_.erase(from);
      if (told_.erase(from) > 0) on_late_entry(from, entered.round);
      on_progress(turn);  // follows no message to this machine itself
      return Ok{};
    });
  }

  void on_computed(const Computed& computed, Turn& turn) override {
    if (phase_ != Phase::computing) return;  // the run has failed
    if (terms_.has_train_loss && !turn.place().phantom)
      turn.record("train_loss", done_, computed.loss);
    samples_ = std::min(samples_ + double(computed.samples), kMostSamples);
    phase_ = Phase::exchanging;
    asked_ = turn.now();
    if (!begins_again_) on_steps_done(computed, turn);
  }

  // The overlay starts after its parent: the first round begins here.
  void on_progress(Turn& turn) final {
    if (phase_ == Phase::unstarted || (turn.place().comes_back() && turn.view().epoch == 0)) return;
    do {
      welcome(turn);
      begin_view(turn);
      receive(turn);
      hand_over(turn);
    } while (advance(turn));
    if (phase_ == Phase::ended) final_return_.serve(within(final_return_, turn));
  }

  Round rounds_done() const final { return done_; }
  bool lets_return() const final { return terms_.lets_return; }
  std::string waiting_for() const final {
    if (phase_ == Phase::outside)
      return "the model of the senior worker, as this node has returned";
    if (phase_ == Phase::deciding) return stop_.waiting_for();
    if (phase_ == Phase::averaging) return final_return_.waiting_for();
    if (phase_ == Phase::entering) return "the rounds of ranks" + listed(unknown(older_peers()));
    if (phase_ != Phase::ready && phase_ != Phase::exchanging && phase_ != Phase::finishing)
      return "";
    if (!has_begun_view_ || awaits_entry()) return "the rounds of ranks" + listed(unknown(peers_));
    return "round " + std::to_string(done_) + ": " + missing();
  }

  void state(Archive& ar) override {
    ar.expect(std::string(terms_.name));
    ar(phase_, done_, epoch_, returned_, peers_, rounds_, has_begun_view_, samples_, asked_);
    ar(waited_, begins_again_, newcomers_, senior_, outside_, told_, has_old_model_);
    if (has_begun_view_ && !terms_.enters_late && !unknown(peers_).empty())
      ar.fail("holds a view without all its rounds");
  }

 protected:
  using Phase = PeerPhase;
  // `apart`: the maximum lead of a worker over another, in rounds. `has_train_loss`: the loss of a
  // step is recorded as train_loss. `ends_with_senior`: with its model, not with the mean.
  // `enters_late`: a returned worker may begin with a model of many rounds ago. `lets_return`: as
  // Strategy has it.
  struct Terms {
    std::string_view name;
    std::uint32_t steps = 1;
    Round apart = 1;
    bool has_train_loss = true;
    bool ends_with_senior = false;
    bool enters_late = false;
    bool lets_return = true;
  };
  PeerStrategy(const Terms& terms, std::unique_ptr<Overlay> overlay, const StopConfig& stop,
               const Place& place)
      : EndsInMean(std::move(overlay), /*returns=*/true, terms.ends_with_senior),
        terms_(terms),
        self_(place.self),
        stop_(apart_by(terms.apart, stop)) {
    own(stop_, {2, "stop rule"});
    own(state_transfer_, {3, "state transfer"});
    own(final_return_, {4, "final model"});
  }

  // --- hooks for strategies ----------------------------------------------------------------------
  // Returns the workers, ascending, that this node may exchange with in a view of `workers`. Peers
  // are mutual. The strategy drops its state of the view before. The learner may compute,
  // also in on_view_begun(); in the other hooks it is at a step boundary.
  virtual std::vector<Rank> peers_among(const std::vector<Rank>& workers, const Turn&) = 0;
  virtual void on_view_begun(Turn&) {}
  // Returns the work of each of the round's steps. Null: the round cannot begin yet; called again
  // in each turn.
  virtual std::optional<Work> begin_round(Turn&) { return LocalStep{}; }
  virtual void on_steps_done(const Computed&, Turn&) {}
  // Returns true when params() is the model after this round. Called again in each turn.
  virtual bool end_round(Turn&) = 0;
  // Returns true if no round follows, by a rule of the strategy besides [stop].
  virtual bool is_over() const { return false; }
  // Returns true when params() can be averaged, after the last round. Called again in each turn.
  virtual bool finish_rounds(Turn&) { return true; }
  // Called in each turn. The learner may compute.
  virtual void receive(Turn&) {}
  // Called before this node sends its round to these peers: messages of kControl arrive before it.
  virtual void on_entering(const std::vector<Rank>& /*to*/, Turn&) {}
  // A returned peer takes part from this round on, in a view that has begun (Terms::enters_late).
  virtual void on_late_entry(Rank, Round) {}
  // Saves the model of this round for a returned worker, or loads it there.
  virtual void archive_model(Archive& ar, Turn& turn) { ar.floats(turn.params()); }
  // Returns what begin_round(), end_round() or finish_rounds() waits for, for the user: "models of
  // ranks 1 4".
  virtual std::string missing() const = 0;

  // --- calls for strategies ----------------------------------------------------------------------
  const std::vector<Rank>& peers() const { return peers_; }
  // Returns those of the ranks, all of peers, that take part in this node's current round. None
  // until the view has begun.
  std::vector<Rank> present(std::vector<Rank> ranks) const {
    std::erase_if(ranks, [&](Rank rank) {
      const auto entry = rounds_.find(rank);
      return !has_begun_view_ || entry == rounds_.end() || entry->second.round > done_;
    });
    return ranks;
  }
  Epoch epoch() const { return epoch_; }
  struct Entry {
    Round round = 0;       // in which the worker has entered the view
    bool is_back = false;  // EnteredView::is_back
    void state(Archive& ar) { ar(round, is_back); }
  };
  // Returns the entries of this node and its peers; when the view begins, of all but those that
  // enter late.
  const std::map<Rank, Entry>& entered() const { return rounds_; }
  // Returns the latest round in which a worker that has not come back with this view has entered
  // it. Equal at all these workers if all are peers and each says the same to all.
  Round latest_entered() const {
    std::vector<Round> said;
    for (const auto& [rank, entry] : rounds_)
      if (!entry.is_back) said.push_back(entry.round);
    return said.empty() ? done_ : latest_of(std::move(said), terms_.apart);
  }
  // For peers_among(): when the new view has begun, all workers begin the latest one of their
  // rounds again. Missed rounds pass with the current model. A result of the learner from before is
  // dropped without on_steps_done(). All workers must be peers, and all must call it.
  void begin_again() { begins_again_ = true; }
  // Returns true if params() can be sent. False: the run has failed.
  bool is_finite(Turn& turn) {
    if (all_finite(turn.params())) return true;
    fail(not_finite("its model has values that are not finite; lower [optimizer] rate"), turn);
    return false;
  }
  Round done_ = 0;  // rounds done; also the number of the current round
  // Samples per worker in the mean: an estimate, which the strategy mixes as it mixes models.
  double samples_ = 0;

 private:
  // Rounds that the other workers may do while this worker waits for its state, as a multiple of
  // `apart`.
  static constexpr Round kMostMissed = 4;
  static constexpr Round kNever = Round{1} << 60;  // a peer takes no part in this view

  void enter_view(Turn& turn) {
    epoch_ = turn.view().epoch;
    returned_ = turn.view().returned;
    rounds_.clear();
    told_.clear();
    outside_.clear();
    has_begun_view_ = false;
    if (turn.place().comes_back() && epoch_ == 0) return;  // not let in yet
    peers_ = peers_among(live_workers(turn), turn);
    senior_ = senior_worker(turn.place(), turn.view());
    if (terms_.enters_late)
      for (const Rank rank : senior_ == self_ ? live_workers(turn) : RankList(peers_))
        if (newcomers_.has(rank)) outside_.insert(rank);
    if (epoch_ == 0) {  // all workers begin in round 0
      rounds_[self_] = {};
      for (const Rank peer : peers_) rounds_[peer] = {};
    } else if (phase_ != Phase::outside && phase_ != Phase::entering) {
      send_round({done_, false}, turn);
    }
  }

  void send_round(const Entry& entry, Turn& turn) {
    rounds_[self_] = entry;
    send_round(those_of(peers_, [&](Rank rank) { return !is_outside(rank); }), entry, turn);
  }
  void send_round(const std::vector<Rank>& to, const Entry& entry, Turn& turn) {
    on_entering(to, turn);
    for (const Rank peer : to)
      turn.send(peer, EnteredView{epoch_, entry.round, entry.is_back}, {}, kControl);
  }

  void begin_view(Turn& turn) {
    if (has_begun_view_ || !rounds_.contains(self_)) return;
    if (std::ranges::any_of(unknown(peers_), [&](Rank rank) { return !is_outside(rank); })) return;
    has_begun_view_ = true;
    on_view_begun(turn);
  }

  bool is_outside(Rank rank) const { return outside_.contains(rank); }

  // Sends returned peers that have a model now a round that this worker has not begun. The senior
  // worker sends it to all returned workers: one without older peers would begin in an old round.
  void welcome(Turn& turn) {
    if (!rounds_.contains(self_)) return;
    std::vector<Rank> ready;
    for (const Rank rank : outside_)
      if (state_transfer_.has_state(rank)) ready.push_back(rank);
    if (ready.empty()) return;
    const bool is_in_round = phase_ == Phase::computing || phase_ == Phase::exchanging;
    Entry entry = rounds_.at(self_);
    if (has_begun_view_) entry = {done_ + (is_in_round ? 1 : 0), false};
    for (const Rank rank : ready) {
      outside_.erase(rank);
      if (has_begun_view_ && std::ranges::binary_search(peers_, rank)) told_[rank] = entry.round;
    }
    send_round(ready, entry, turn);
  }
  // Returns true if the current round waits for the answer of a returned peer.
  bool awaits_entry() const {
    return std::ranges::any_of(told_, [&](const auto& one) { return one.second <= done_; });
  }

  std::vector<Rank> unknown(const std::vector<Rank>& of) const {
    std::vector<Rank> ranks = of;
    std::erase_if(ranks, [&](Rank rank) { return rounds_.contains(rank); });
    return ranks;
  }

  // Makes one move of the round, if one is possible now.
  bool advance(Turn& turn) {
    switch (phase_) {
      case Phase::outside:
        return take_state(turn);
      case Phase::entering:
        return enter_run(turn);
      case Phase::ready: {
        if (begins_again_) return begin_latest(turn);
        if (awaits_entry()) return false;
        std::optional<Work> work = begin_round(turn);
        if (!work || phase_ != Phase::ready) return false;
        phase_ = Phase::computing;
        waited_ = turn.now() - asked_;
        turn.compute(std::move(*work), terms_.steps);
        return false;
      }
      case Phase::exchanging:
        if (begins_again_) return begin_latest(turn);
        if (!has_begun_view_ || !end_round(turn)) return false;
        turn.record("wait_s", done_, seconds(waited_ + turn.now() - asked_));
        phase_ = Phase::deciding;
        count_round(turn);
        has_old_model_ = false;
        return true;
      case Phase::deciding:
        return decide(turn);
      case Phase::finishing:
        return finish_rounds(turn) && begin_mean(turn);
      case Phase::averaging:
        return end_with_mean(/*gives=*/!has_old_model_ || is_senior(turn), turn);
      default:
        return false;
    }
  }

  bool decide(Turn& turn) {
    StopRule::Step step = done_ == 0 ? StopRule::Step::go_on : stop_.after(done_ - 1);
    if (is_over()) step = StopRule::Step::stop;
    if (step == StopRule::Step::wait) return false;
    phase_ = step == StopRule::Step::stop ? Phase::finishing : Phase::ready;
    asked_ = turn.now();
    return true;
  }

  // Counts one more round as done, with the current model.
  void count_round(Turn& turn) {
    const auto live = live_workers(turn).size();
    stop_.round_done(done_++, turn.params(), plus_samples(0, samples_ * double(live)),
                     within(stop_, turn));
  }

  // Sends the senior worker's model to returned workers when the learner is idle. A peer of a
  // returned worker can be the senior worker, and waits in its exchange for the returned worker.
  void hand_over(Turn& turn) {
    if (phase_ == Phase::outside) return;
    state_transfer_.drop_received();  // received twice
    if (phase_ == Phase::entering || turn.learner_is_busy()) return;
    newcomers_.hand_over(
        state_transfer_, done_, turn, within(state_transfer_, turn),
        [&](Archive& ar) { archive_for_returned(ar, turn); },
        terms_.enters_late && phase_ < Phase::finishing);
  }

  void archive_for_returned(Archive& ar, Turn& turn) {
    ar.expect(std::string(terms_.name));
    ar(done_, samples_);
    stop_.hand_over(ar);
    archive_model(ar, turn);
  }

  bool take_state(Turn& turn) {
    if (!state_transfer_.received()) return false;
    const Round round = state_transfer_.received()->round;
    Status read = state_transfer_.read([&](Archive& ar) { archive_for_returned(ar, turn); });
    if (read && done_ != round) read = malformed("the state that was received is of another round");
    if (!read) return fail(read.error(), turn), false;
    if (terms_.enters_late) stop_.forget_round();  // unknown until it enters
    phase_ = Phase::entering;
    state_transfer_.confirm(within(state_transfer_, turn));
    return true;
  }

  bool enter_run(Turn& turn) {
    const std::vector<Rank> older = older_peers();
    if (!unknown(older).empty()) return false;
    const std::vector<Round> said = rounds_of(older);
    if (terms_.enters_late)
      skip_rounds(said);
    else if (!pass_rounds(reached_by_two(said), turn))
      return false;
    send_round({done_, true}, turn);
    return true;
  }

  std::vector<Round> rounds_of(const std::vector<Rank>& ranks) const {
    std::vector<Round> rounds;
    for (const Rank rank : ranks) rounds.push_back(rounds_.at(rank).round);
    return rounds;
  }

  // Returns the latest round that two of these workers have reached: a false one would send this
  // node ahead of all others. Of a single worker, the model of this node tells what can be.
  Round reached_by_two(std::vector<Round> said) const {
    if (said.empty()) return done_;
    if (said.size() == 1) said.push_back(done_ + terms_.apart);
    std::ranges::sort(said, std::greater());
    return said[1];
  }

  // Returns the latest of these rounds that can be true: the one behind all others may be false,
  // and so is a round more than `apart` ahead of the next one.
  static Round latest_of(std::vector<Round> said, Round apart) {
    std::ranges::sort(said);
    const Round most = said[said.size() > 2 ? 1 : 0] + apart;
    return *std::prev(std::ranges::upper_bound(said, most));
  }

  // Enters the latest one of these rounds of its older peers, which know the verdicts before it.
  void skip_rounds(const std::vector<Round>& said) {
    if (!said.empty()) done_ = std::max(done_, latest_of(said, terms_.apart + 1));
    stop_.skip_to(done_);
    has_old_model_ = true;
    phase_ = Phase::deciding;
  }

  // All workers find the same round.
  bool begin_latest(Turn& turn) {
    if (!has_begun_view_) return false;
    begins_again_ = false;
    std::vector<Round> said;
    for (const auto& [rank, entry] : rounds_) said.push_back(entry.round);
    return pass_rounds(latest_of(std::move(said), terms_.apart), turn);
  }

  // Passes the rounds before this one with the current model.
  bool pass_rounds(Round first, Turn& turn) {
    if (first > done_ + kMostMissed * terms_.apart) {
      fail(malformed("a peer says that it is in round " + std::to_string(first) +
                     "; the model of this worker is of round " + std::to_string(done_)),
           turn);
      return false;
    }
    while (done_ < first) count_round(turn);
    phase_ = Phase::deciding;
    return true;
  }

  // Returns the peers that have taken part longer: of two returned workers one waits for the other.
  std::vector<Rank> older_peers() const {
    const auto since = [&](Rank rank) {
      const auto it = returned_.find(rank);
      return std::pair(it == returned_.end() ? Epoch{0} : it->second, rank);
    };
    std::vector<Rank> older = peers_;
    std::erase_if(older, [&](Rank rank) { return since(self_) < since(rank); });
    if (terms_.enters_late && older.empty() && senior_ != self_) older = {senior_};
    return older;
  }

  std::string place_in_run() const final {
    return std::string(terms_.name) + ", round " + std::to_string(done_);
  }

  const Terms terms_;
  const Rank self_;
  StopRule stop_;
  StateTransfer state_transfer_;
  gossip::Newcomers newcomers_;

  Epoch epoch_ = 0;                 // epoch of the view that this node has entered
  std::map<Rank, Epoch> returned_;  // returned workers of that view
  Rank senior_ = 0;                 // senior worker of that view
  std::vector<Rank> peers_;         // in that view
  std::map<Rank, Entry> rounds_;    // entries of this node and its peers
  std::set<Rank> outside_;          // enters_late: returned peers without a model
  std::map<Rank, Round> told_;      // rounds sent to returned peers that have not answered
  bool has_begun_view_ = false;     // the rounds of all peers that are not outside are known
  bool begins_again_ = false;       // when it has begun
  bool has_old_model_ = false;      // has entered late, and done no round since then
  Time asked_{0};                   // start of the wait for others
  Time waited_{0};                  // in this round before its local steps
};

}  // namespace longhaul::sync
