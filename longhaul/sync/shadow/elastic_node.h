#pragma once
// ElasticNode is a node of ShadowSync with elastic averaging. A node with a learner is a trainer. A
// node is also the server of its shards of the centre (shard.h). Exchanges (elastic.h) run back to
// back while training continues. At each step boundary the trainer requests the next step in the
// same turn. In the foreground each lane (lanes.h) has its own exchanges, and only that lane waits
// for them.
//   Zheng et al., "ShadowSync: performing synchronization in the background for highly scalable
//   distributed training", arXiv 2003.03477.
//
// The first server is the node of [roles] server, else the lowest with the role, else rank 0. A
// node that replaces a lost server asks the senior worker for initial values. Values that only the
// lost shard held are lost. An open push has no effect on either side.
//
// A returned node learns from the servers which shards they serve. A returned trainer starts with
// the centre.
//
// A round has as many exchanges as there were workers at the start. The run ends by [stop], or when
// every live worker has reported to the first shard's server that it is done with its data. Then
// all workers average their parameters once.
// workers average their parameters once.
#include <algorithm>

#include "longhaul/core/vector_channel.h"
#include "longhaul/sync/flat.h"
#include "longhaul/sync/gossip/ends_in_mean.h"
#include "longhaul/sync/gossip/step_count.h"
#include "longhaul/sync/relay.h"
#include "longhaul/sync/server/server_strategy.h"
#include "longhaul/sync/shadow/config.h"
#include "longhaul/sync/shadow/elastic.h"
#include "longhaul/sync/shadow/lanes.h"
#include "longhaul/sync/shadow/shard.h"

namespace longhaul::sync::shadow {

struct ElasticHeader {
  LONGHAUL_MESSAGE(0, "header");  // part of another message
  enum class Kind : std::uint8_t {
    // requests to the server
    pull,  // asks for the centre
    push,  // d, with a vector
    seed,  // initial values, with a vector
    done,  // the worker takes no more steps
    // answers to a worker
    data,      // the centre, with a vector
    ack,       // the push is in the centre
    nak,       // the push is not in the centre and will not be
    ask_seed,  // the server needs initial values
    end,       // all workers are done
    // to a returned node: the sender serves the shard
    serving
  };
  Kind kind = Kind::pull;
  std::uint32_t server_epoch = 0;
  std::uint32_t shard = 0;
  std::uint32_t exchanger = 0;  // index of the trainer's exchanger
  std::uint64_t seq = 0;        // number of the exchange

  bool is_for_server() const { return kind < Kind::data; }
  bool carries() const { return kind == Kind::push || kind == Kind::seed || kind == Kind::data; }
  LONGHAUL_FIELDS((kind, .max = 9), server_epoch, (shard, .max = 63), (exchanger, .max = 255),
                  (seq, .max = 0x1p50))
};

enum class ElasticNodePhase : std::uint8_t {
  unstarted,
  training,
  closing,
  averaging,
  ended,
  entering  // a returned node waits for the servers' names and the centre
};

class ElasticNode final : public gossip::EndsInMean<ElasticNodePhase> {
 public:
  ElasticNode(const ShadowConfig& config, SyncParts parts, const Place& place)
      : EndsInMean(std::move(parts.overlay)),
        config_(config),
        place_(place),
        workers_(place.members.with(Role::worker)),
        alpha_(share_of(config, workers_.size())),
        count_(parts.stop, place),
        shards_(shards_of(place, server::server_of(parts.server, place), config.servers)),
        pace_(config.is_foreground() ? 0 : config.max_gap, config.epochs),
        lanes_(config.lanes),
        exchangers_(config.is_foreground() ? config.lanes : 1) {
    for (std::size_t e = 0; e < exchangers_.size(); ++e) {
      exchangers_[e].shards.resize(shards_.size());
      // Lanes do not all exchange at the same time: their first rounds are spread over k steps.
      exchangers_[e].steps = std::uint32_t(e * config.steps / exchangers_.size());
    }
    const auto models = kModelsOnTheWay + std::uint32_t(exchangers_.size()) - 1;
    const ChannelLimits limits = ChannelLimits::models(models, *place.layout);
    const auto admission = [this](Rank from, const ElasticHeader& header,
                                  const ContentShape& shape) { return admit(from, header, shape); };
    vectors_ = std::make_unique<Channel>(
        place, ChannelConfig{.stream = "shadowsync", .limits = limits, .service = kBackground},
        std::move(parts.transfer), parts.make_codec(false),
        parts.codes_down ? parts.make_codec(false) : nullptr, admission);
    requests_ = std::make_unique<Channel>(
        place,
        ChannelConfig{.stream = "shadowsync requests",
                      .limits = {limits.vectors, limits.vectors * channel::kMostHeaderBytes},
                      .service = kControl},
        parts.make_transfer(), nullptr, nullptr, admission);
    own(*vectors_, {1, "channel"});
    own(*requests_, {4, "requests"});
    if (!place.me().is(Role::worker)) return;
    own(count_, {2, "exchange count"});
    own(final_return_, {3, "final model"});
  }

  void on_start(Turn& turn) override {
    if (turn.place().comes_back()) begin_outside();
    follow_workers(turn);
    if (!turn.has_learner()) return turn.finish();  // serves until all workers have finished
    phase_ = has_model_ ? Phase::training : Phase::entering;
  }

  void on_view(const View&, Turn& turn) override {
    if (!turn.has_learner() && live_with(Role::worker, place_, turn.view()).empty())
      return turn.fail(
          state_lost("all workers are lost: no node is left to train; restart them and resume"));
    const Status enough = enough_sites(config_.min_sites, place_, turn.view());
    if (turn.has_learner() && !enough && phase_ != Phase::ended) return fail(enough.error(), turn);
    std::set<std::uint32_t> moved;
    for (std::uint32_t s = 0; s < shards_.size(); ++s) {
      if (!shards_[s].is_known || !shards_[s].follow(turn.view(), place_)) continue;
      moved.insert(s);
      for (Exchanger& one : exchangers_) one.shards[s].forget();
      owed_seeds_.erase(s);
      if (s == 0) said_done_ = false;  // the new server has not received it
    }
    follow_returned(moved, turn);
    follow_workers(turn);
  }

  void on_step(const StepResult& result, Turn& turn) override {
    if (!lanes_.is_step()) return;
    lanes_.stepped(result);
    pace_.stepped(result);
    if (!pace_.may_step()) turn.stop_computing();
  }

  void on_computed(const Computed& computed, Turn& turn) override {
    const auto lane = lanes_.computed(turn);
    if (!lane) return;
    computing_ = false;
    exchangers_[config_.is_foreground() ? *lane : 0].steps += computed.steps;
  }

  void on_timer(TimerId id, Turn& turn) override {
    if (id == kNextSlot) lanes_.slot_passed();
    on_progress(turn);
  }

  // Repeats until no message is left: a trainer that is also a server sends messages to itself.
  void on_progress(Turn& turn) override {
    tell_returned(turn);
    receive(turn);
    do {
      train(turn);
    } while (receive(turn));
  }

  bool lets_return() const override { return true; }
  Round rounds_done() const override { return count_.rounds(); }
  std::string waiting_for() const override {
    if (phase_ == Phase::averaging) return final_return_.waiting_for();
    if (phase_ == Phase::unstarted || phase_ == Phase::ended || computing_) return "";
    for (const Shard& shard : shards_)
      if (!shard.is_known) return "the name of a sync server, after the return of this node";
    if (pace_.is_done() && is_idle())
      return "the others to be done with their data, which the sync server, rank " +
             std::to_string(shards_[0].server) + ", tells";
    for (const Exchanger& one : exchangers_)
      for (std::uint32_t s = 0; s < shards_.size(); ++s) {
        const ElasticExchange& exchange = one.shards[s];
        if (exchange.phase() == ElasticExchange::Phase::idle) continue;
        return (exchange.phase() == ElasticExchange::Phase::asked ? "the centre of "
                                                                  : "the answer of ") +
               ("the sync server, rank " + std::to_string(shards_[s].server)) + ", in exchange " +
               std::to_string(exchange.seq());
      }
    return "the end of the run, which the senior worker tells";
  }

  void state(Archive& ar) override {
    ar.expect("shadowsync easgd");
    for (Shard& shard : shards_) ar(shard);
    for (Exchanger& one : exchangers_) ar(one);
    ar(done_, phase_, pace_, lanes_, paused_, computing_, owed_seeds_, said_done_, all_done_);
    ar(told_end_, owed_names_, has_values_, has_model_);
  }

 private:
  static constexpr TimerId kNextExchange{0}, kNextSlot{1};
  // Training comes first, whatever else a site sends.
  static constexpr Service kBackground{.priority = 0};
  // Maximum number of unread vectors from one peer, and of messages without a vector.
  static constexpr std::uint32_t kModelsOnTheWay = 4;

  static double share_of(const ShadowConfig& config, std::size_t workers) {
    return config.alpha.value_or(std::min(0.5, 0.9 / double(workers)));
  }

  static Coding coding_of(ElasticHeader::Kind kind) {
    if (kind == ElasticHeader::Kind::push) return Coding::up;
    return kind == ElasticHeader::Kind::data ? Coding::down : Coding::exact;
  }

  using Channel = VectorChannel<ElasticHeader>;
  using Kind = ElasticHeader::Kind;
  using Phase = ElasticNodePhase;
  Result<bool> admit(Rank from, const ElasticHeader& header, const ContentShape& shape) const {
    if (header.shard >= shards_.size() || header.exchanger >= exchangers_.size())
      return malformed("a shard or an exchanger that there is not");
    if (header.kind == Kind::serving) {
      if (place_.comes_back() && shape.kind == ContentKind::none) return true;
      return malformed("a server's name for a node that has not returned");
    }
    const Shard& shard = shards_[header.shard];
    const bool is_part = shape.kind == ContentKind::values && shape.range == shard.range;
    if (header.carries() ? !is_part : shape.kind != ContentKind::none)
      return malformed("a vector that is not the shard's, or a header without the vector it has");
    if (header.is_for_server()) {
      if (!serves(header.shard) || !place_.member(from).is(Role::worker))
        return malformed("a message that only a worker sends, to its server");
      if (header.kind == Kind::seed && shard.asked != from)
        return malformed("initial values that were not requested");
      if (header.kind == Kind::push && !shard.centre.has_values())
        return malformed("a push into a centre that no worker has read");
      return true;
    }
    if (from != shard.server || !place_.me().is(Role::worker))
      return malformed("a message that only the server sends, to a worker");
    if (header.kind >= Kind::ask_seed) return true;
    const ElasticExchange& exchange = exchangers_[header.exchanger].shards[header.shard];
    const auto phase = exchange.phase();
    const bool waits = header.kind == Kind::data ? phase == ElasticExchange::Phase::asked
                                                 : phase == ElasticExchange::Phase::pushed;
    if (header.seq > exchange.seq()) return malformed("an answer to no exchange");
    return waits && header.seq == exchange.seq();  // otherwise the exchange was forgotten
  }

  void send(Rank to, ElasticHeader header, Turn& turn, Snapshot values = nullptr) {
    header.server_epoch = shards_[header.shard].server_epoch;
    VectorContent content;
    if (values) content = VectorContent::values(std::move(values), shards_[header.shard].range);
    Channel& channel = header.carries() ? *vectors_ : *requests_;
    channel.send(
        {to}, header, std::move(content),
        {.coding = coding_of(header.kind), .group = group_of(to, header.shard, header.exchanger)},
        within(channel, turn));
  }

  // Returns true if a message has arrived.
  bool receive(Turn& turn) {
    const bool any = receive(*requests_, turn);
    return receive(*vectors_, turn) || any;
  }

  bool receive(Channel& channel, Turn& turn) {
    bool any = false;
    channel.drop_lost();  // worker and server follow the view
    while (auto one = channel.poll(within(channel, turn))) {
      any = true;
      const Snapshot values = one->header.carries() ? one->content.values() : nullptr;
      if (one->header.is_for_server())
        serve(one->from, one->header, values, turn);
      else if (one->header.kind == Kind::serving)
        learn_server(one->from, one->header);
      else
        take(one->header, values);
    }
    return any;
  }

  std::string place_in_run() const override { return "shadowsync"; }

  // At the server.
  bool serves(std::uint32_t shard) const {
    return shards_[shard].is_known && shards_[shard].server == place_.self;
  }
  void serve(Rank from, const ElasticHeader& header, const Snapshot& values, Turn& turn) {
    Shard& shard = shards_[header.shard];
    switch (header.kind) {
      case Kind::pull:
        shard.pulls[{from, header.exchanger}] = header.seq;
        break;
      case Kind::seed:
        if (!shard.centre.has_values()) shard.centre.begin(*values);
        break;
      case Kind::push:
        take_push(from, header, *values, turn);
        break;
      default:  // done
        done_.insert(from);
        follow_workers(turn);
    }
    answer_pulls(header.shard, turn);
  }

  void take_push(Rank from, const ElasticHeader& header, std::span<const float> d, Turn& turn) {
    Shard& shard = shards_[header.shard];
    const bool same_epoch = header.server_epoch == shard.server_epoch;
    const auto taken = shard.centre.push(from, header.exchanger, same_epoch, header.seq, d,
                                         parameters_in(header.shard), alpha_);
    ElasticHeader answer = header;
    answer.kind = taken == Centre::Taken::other_epoch ? Kind::nak : Kind::ack;
    send(from, answer, turn);
    if (taken == Centre::Taken::moved && !all_finite(*shard.centre.values()))
      fail(not_finite("the centre has values that are not finite after a push of rank " +
                      std::to_string(from) + "; lower [optimizer] rate"),
           turn);
  }

  // Asks for initial values if a shard has none. Ends the run if all workers are done.
  void follow_workers(Turn& turn) {
    const std::vector<Rank> live = live_with(Role::worker, place_, turn.view());
    for (const Rank rank : workers_)
      if (!turn.view().has(rank)) done_.erase(rank);
    for (std::uint32_t s = 0; s < shards_.size(); ++s)
      if (serves(s)) follow_workers(s, live, turn);
    if (!serves(0) || live.empty() || !std::ranges::includes(done_, live)) return;
    told_end_ = true;
    for (const Rank rank : live) send(rank, {.kind = Kind::end}, turn);
  }

  void follow_workers(std::uint32_t s, const std::vector<Rank>& live, Turn& turn) {
    Shard& shard = shards_[s];
    for (const Rank rank : workers_) {
      if (turn.view().has(rank)) continue;
      shard.centre.drop(rank);
      std::erase_if(shard.pulls, [&](const auto& one) { return one.first.first == rank; });
      if (shard.asked == rank) shard.asked.reset();
    }
    if (live.empty() || shard.centre.has_values() || shard.asked) return;
    shard.asked = senior_worker(place_, turn.view());
    send(*shard.asked, {.kind = Kind::ask_seed, .shard = s}, turn);
  }

  void answer_pulls(std::uint32_t s, Turn& turn) {
    if (!shards_[s].centre.has_values()) return;
    for (const auto& [who, seq] : std::exchange(shards_[s].pulls, {}))
      send(who.first, {.kind = Kind::data, .shard = s, .exchanger = who.second, .seq = seq}, turn,
           shards_[s].centre.values());
  }

  // At the trainer.
  void take(const ElasticHeader& header, const Snapshot& values) {
    ElasticExchange& exchange = exchangers_[header.exchanger].shards[header.shard];
    switch (header.kind) {
      case Kind::data:
        exchange.on_data(header.seq, values);
        break;
      case Kind::ack:
        exchange.on_ack(header.seq);
        break;
      case Kind::nak:
        exchange.forget();
        break;
      case Kind::ask_seed:
        owed_seeds_.insert(header.shard);
        break;
      default:  // end
        all_done_ = true;
    }
  }

  void train(Turn& turn) {
    if (phase_ == Phase::unstarted) return;
    if (phase_ == Phase::ended) {
      final_return_.serve(within(final_return_, turn));
    }
    if (computing_) {
      if (all_done_ || count_.is_over()) turn.stop_computing();
      return;
    }
    send_seeds(turn);
    while (phase_ != Phase::ended && advance(turn)) {
    }
    // Also sent after the end of this trainer: a new server must receive it from every worker.
    if (shards_[0].is_known && pace_.is_done() && is_idle() && !std::exchange(said_done_, true))
      send(shards_[0].server, {.kind = Kind::done}, turn);
    if (count_.due() && phase_ != Phase::ended) {
      count_.report(copied(turn.params()), within(count_, turn));
    }
    if (phase_ == Phase::training) next_steps(turn);
  }

  // Makes one transition at a step boundary if possible. Returns true if another can follow at
  // once.
  bool advance(Turn& turn) {
    switch (phase_) {
      case Phase::training:
        if (all_done_ || count_.is_over()) {
          phase_ = Phase::closing;
          return true;
        }
        for (std::uint32_t e = 0; e < exchangers_.size(); ++e) exchange(e, turn);
        return false;
      case Phase::closing: {
        if (!close_exchanges(turn)) return false;
        lanes_.clear();
        begin_mean(turn);
        return true;
      }
      case Phase::averaging:
        return end_with_mean(has_model_, turn);
      case Phase::entering:
        return enter(turn);
      default:
        return false;
    }
  }

  // Closes all exchanges. Returns false if the outcome of a push is not known yet.
  bool close_exchanges(Turn& turn) {
    using At = ElasticExchange::Phase;
    for (const Exchanger& one : exchangers_)
      for (const ElasticExchange& exchange : one.shards)
        if (exchange.phase() == At::pushed) return false;
    for (Exchanger& one : exchangers_) {
      for (std::uint32_t s = 0; s < shards_.size(); ++s) {
        if (one.shards[s].phase() == At::has_moved)
          one.shards[s].follow(part(s, turn), parameters_in(s));
        one.shards[s].forget();
      }
      one.is_open = false;
    }
    return true;
  }

  // Advances a round of exchanges at a step boundary. The next round starts where the last one
  // ends.
  void exchange(std::uint32_t e, Turn& turn) {
    using At = ElasticExchange::Phase;
    Exchanger& one = exchangers_[e];
    for (std::uint32_t s = 0; s < shards_.size(); ++s) {
      if (one.shards[s].phase() == At::has_moved) {
        one.shards[s].follow(part(s, turn), parameters_in(s));
        one.has_moved = true;
      } else if (one.shards[s].phase() == At::has_c) {
        push(e, s, turn);
      }
    }
    const auto is_idle = [](const ElasticExchange& x) { return x.phase() == At::idle; };
    if (one.is_open && std::ranges::all_of(one.shards, is_idle)) {
      one.is_open = false;
      if (std::exchange(one.has_moved, false))
        complete(e, turn);
      else if (!config_.is_foreground())
        one.steps = std::max(one.steps, 1u);  // without effect: ask again
    }
    if (one.is_open || phase_ != Phase::training || !may_ask(e, turn)) return;
    one.is_open = true;
    one.steps = 0;
    one.began = turn.now();
    one.computed = pace_.snapshot();
    for (std::uint32_t s = 0; s < shards_.size(); ++s) {
      one.shards[s].ask();
      send(shards_[s].server,
           {.kind = Kind::pull, .shard = s, .exchanger = e, .seq = one.shards[s].seq()}, turn);
    }
  }

  bool may_ask(std::uint32_t e, Turn& turn) {
    const Exchanger& one = exchangers_[e];
    if (pace_.is_done() || one.steps == 0 || count_.has_taken_all()) return false;
    if (config_.is_foreground()) return one.steps >= config_.steps;
    const Time due = one.began.value_or(Time::min() / 2) + from_seconds(config_.min_interval_s);
    if (turn.now() >= due) return true;
    if (!takes_steps()) turn.set_timer(*this, kNextExchange, due);
    return false;
  }

  void push(std::uint32_t e, std::uint32_t s, Turn& turn) {
    ElasticExchange& exchange = exchangers_[e].shards[s];
    std::vector<float> d = exchange.difference(part(s, turn), parameters_in(s), alpha_);
    if (!all_finite(d))
      return fail(not_finite("its parameters are not finite; lower [optimizer] rate"), turn);
    const Rank to = shards_[s].server;
    exchange.pushed(vectors_->as_received(d, shards_[s].range, to,
                                          {.coding = Coding::up, .group = group_of(to, s, e)}));
    send(to, {.kind = Kind::push, .shard = s, .exchanger = e, .seq = exchange.seq()}, turn,
         snapshot_of(std::move(d)));
  }

  void complete(std::uint32_t e, Turn& turn) {
    const Exchanger& one = exchangers_[e];
    if (!config_.is_foreground()) turn.record("gap", count_.own(), double(pace_.gap()));
    turn.record(config_.is_foreground() ? "wait_s" : "sync_s", count_.own(),
                seconds(turn.now() - *one.began));
    if (!place_.phantom) turn.record("train_loss", count_.own(), one.computed.loss);
    pace_.completed();
    count_.took(one.computed.samples, within(count_, turn));
  }

  // Starts the next steps. A lane that waits for its own exchange does not compute.
  void next_steps(Turn& turn) {
    if (takes_steps() && !all_done_ && !count_.is_over())
      for (std::uint32_t lane = 0; lane < lanes_.count(); ++lane) {
        const bool waits = config_.is_foreground() && exchangers_[lane].is_open;
        if (!waits && !lanes_.runs(lane)) lanes_.start(lane, turn);
      }
    else
      lanes_.clear();
    if (lanes_.none_runs()) {
      if (!paused_) paused_ = turn.now();
      return;
    }
    if (paused_ && !config_.is_foreground())
      turn.record("paused_s", count_.own(), seconds(turn.now() - *paused_));
    paused_.reset();
    computing_ =
        lanes_.compute(config_.is_foreground() ? config_.steps : 1, kNextSlot, *this, turn);
  }

  // --- returned nodes and shards -----------------------------------------------------------------
  void begin_outside() {
    for (Shard& shard : shards_) shard.is_known = false;
    has_model_ = !place_.me().is(Role::worker);
  }

  // Collects the nodes that must learn the server of a shard: nodes that returned with this view,
  // and every returned node if the shard has moved here.
  void follow_returned(const std::set<std::uint32_t>& moved, Turn& turn) {
    const View& view = turn.view();
    std::erase_if(owed_names_, [&](const auto& one) { return !view.has(one.second); });
    for (const auto& [rank, epoch] : view.returned) {
      if (rank == turn.self() || place_.member(rank).is(Role::witness)) continue;
      for (std::uint32_t s = 0; s < shards_.size(); ++s)
        if (serves(s) && (epoch == view.epoch || moved.contains(s))) owed_names_.insert({s, rank});
    }
    const auto is_unknown = [](const Shard& shard) { return !shard.is_known; };
    const auto has_stayed = [&](Rank rank) {
      return view.since(rank) == 0 && !place_.member(rank).is(Role::witness);
    };
    if (std::ranges::any_of(shards_, is_unknown) && std::ranges::none_of(view.live, has_stayed))
      fail(state_lost("all sites that knew the centre are lost; resume from a checkpoint"), turn);
  }

  // Called after on_view(), when the channel to the returned nodes has been reset.
  void tell_returned(Turn& turn) {
    for (const auto& [s, rank] : std::exchange(owed_names_, {})) {
      if (!serves(s)) continue;
      send(rank, {.kind = Kind::serving, .shard = s}, turn);
      if (s == 0 && told_end_ && place_.member(rank).is(Role::worker))
        send(rank, {.kind = Kind::end}, turn);
    }
  }

  void learn_server(Rank from, const ElasticHeader& header) {
    Shard& shard = shards_[header.shard];
    if (std::exchange(shard.is_known, true)) return;
    shard.server = from;
    shard.server_epoch = header.server_epoch;
  }

  // Sends initial values to servers without any. A trainer without a model is asked only if no node
  // has one.
  void send_seeds(Turn& turn) {
    if (!owed_seeds_.empty() && !has_model_)
      return fail(state_lost("all sites that knew the model are lost; resume from a checkpoint"),
                  turn);
    for (const std::uint32_t shard : std::exchange(owed_seeds_, {}))
      send(shards_[shard].server, {.kind = Kind::seed, .shard = shard}, turn, copy_of(shard, turn));
  }

  // Asks for the values of each shard as soon as its server is known, and starts with them. If the
  // run has ended meanwhile, this node needs no model.
  bool enter(Turn& turn) {
    using At = ElasticExchange::Phase;
    if (all_done_ || count_.is_over()) {
      for (ElasticExchange& exchange : exchangers_[0].shards) exchange.forget();
      phase_ = Phase::closing;
      return true;
    }
    for (std::uint32_t s = 0; s < shards_.size(); ++s) {
      ElasticExchange& exchange = exchangers_[0].shards[s];
      if (!shards_[s].is_known || has_values_.contains(s)) continue;
      if (exchange.phase() == At::has_c) {
        std::ranges::copy(exchange.centre(), part(s, turn).begin());
        exchange.forget();
        has_values_.insert(s);
      } else if (exchange.phase() == At::idle) {
        exchange.ask();
        send(shards_[s].server, {.kind = Kind::pull, .shard = s, .seq = exchange.seq()}, turn);
      }
    }
    if (has_values_.size() < shards_.size()) return false;
    has_model_ = true;
    phase_ = Phase::training;
    return true;
  }

  // Returns the shard's part of the model, parameters and buffers.
  std::span<float> part(std::uint32_t shard, Turn& turn) const {
    const auto w = turn.params();  // empty in a phantom job
    return w.empty() ? w : w.subspan(shards_[shard].range.offset, shards_[shard].range.length);
  }

  // Returns the group of vectors to a receiver. A codec has one open vector per group. With one
  // shard and one exchanger the group is the receiver's rank, which is the default.
  std::uint32_t group_of(Rank to, std::uint32_t shard, std::uint32_t exchanger) const {
    return to + place_.size() * (exchanger + std::uint32_t(exchangers_.size()) * shard);
  }

  std::size_t parameters_in(std::uint32_t shard) const {
    const Range& range = shards_[shard].range;
    const std::uint64_t all = parameter_count(place_);
    return std::min(range.length, all - std::min<std::uint64_t>(all, range.offset));
  }

  Snapshot copy_of(std::uint32_t shard, Turn& turn) const { return copied(part(shard, turn)); }

  bool is_idle() const {
    return std::ranges::none_of(exchangers_, [](const Exchanger& one) { return one.is_open; });
  }

  bool takes_steps() const { return pace_.may_step() && !count_.has_taken_all(); }

  const ShadowConfig config_;
  const Place place_;
  const std::vector<Rank> workers_;  // workers at the start
  const double alpha_;
  // Messages without a vector do not wait behind the vectors of other exchanges.
  std::unique_ptr<Channel> vectors_, requests_;
  gossip::StepCount count_;  // counts exchanges

  std::vector<Shard> shards_;
  std::set<Rank> done_;  // workers that are done; at the first shard's server
  // A trainer's round of exchanges: one with each shard, all started together.
  struct Exchanger {
    std::vector<ElasticExchange> shards;
    bool is_open = false;
    bool has_moved = false;     // an exchange has taken effect
    std::uint32_t steps = 0;    // since the last start; foreground: steps of the lane
    Computed computed;          // the trainer's work between the starts of two rounds
    std::optional<Time> began;  // start of the last round
    void state(Archive& ar) { ar(shards, is_open, has_moved, steps, computed, began); }
  };
  Pace pace_;
  Lanes lanes_;
  std::vector<Exchanger> exchangers_;  // foreground: one per lane; else one
  std::optional<Time> paused_;         // start of a pause without computation
  bool computing_ = false;
  std::set<std::uint32_t> owed_seeds_;  // shards that need initial values
  bool said_done_ = false;
  bool all_done_ = false;
  bool told_end_ = false;  // at the first shard's server
  // At a server: its shards, with the returned nodes that must learn who serves them.
  std::set<std::pair<std::uint32_t, Rank>> owed_names_;
  // At a returned trainer: shards whose values have arrived; whether all have arrived.
  std::set<std::uint32_t> has_values_;
  bool has_model_ = true;
};

}  // namespace longhaul::sync::shadow
