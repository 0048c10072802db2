#include "longhaul/sync/shadow/elastic_node.h"

#include <algorithm>

#include "longhaul/sync/flat.h"
#include "longhaul/sync/relay.h"
#include "longhaul/sync/server/server_strategy.h"

namespace longhaul::sync::shadow {
namespace {

constexpr TimerId kNextExchange{0};
// Training comes first, whatever else a site sends.
constexpr Service kBackground{.priority = 0};
// Of one peer: a vector and what is said without one.
constexpr std::uint32_t kModelsOnTheWay = 4;

std::vector<Rank> workers_at_the_start(const Place& place) {
  std::vector<Rank> workers;
  for (Rank rank = 0; rank < place.size(); ++rank)
    if (place.member(rank).is(Role::worker)) workers.push_back(rank);
  return workers;
}

double share_of(const ShadowConfig& config, std::size_t workers) {
  return config.alpha.value_or(std::min(0.5, 0.9 / double(workers)));
}

// With its buffers.
Snapshot parameters_of(Turn& turn) {
  const auto w = turn.params();
  return std::make_shared<const std::vector<float>>(w.begin(), w.end());
}

Coding coding_of(ElasticHeader::Kind kind) {
  if (kind == ElasticHeader::Kind::push) return Coding::up;
  return kind == ElasticHeader::Kind::data ? Coding::down : Coding::exact;
}

}  // namespace

ElasticNode::ElasticNode(const ShadowConfig& config, SyncParts parts, const Place& place)
    : config_(config),
      place_(place),
      workers_(workers_at_the_start(place)),
      alpha_(share_of(config, workers_.size())),
      final_(std::move(parts.overlay)),
      count_(parts.stop, place),
      server_(server::server_of(parts.server, place)),
      pace_(config.is_foreground() ? 0 : config.max_gap, config.epochs) {
  own(final_.overlay(), kOverlayChild);
  channel_ = std::make_unique<Channel>(
      place,
      ChannelConfig{.stream = "shadowsync",
                    .limits = ChannelLimits::models(kModelsOnTheWay, *place.layout),
                    .service = kBackground},
      std::move(parts.transfer), parts.make_codec(false),
      parts.codes_down ? parts.make_codec(false) : nullptr,
      [this](Rank from, const ElasticHeader& header, const ContentShape& shape) {
        return admit(from, header, shape);
      });
  own(*channel_, {1, "channel"});
  if (place.me().is(Role::worker)) own(count_, {2, "exchange count"});
}

Result<bool> ElasticNode::admit(Rank from, const ElasticHeader& header,
                                const ContentShape& shape) const {
  const bool is_model =
      shape.kind == ContentKind::values && shape.range == Range{0, place_.layout->size()};
  if (header.carries() ? !is_model : shape.kind != ContentKind::none)
    return malformed("a vector that is no model, or a header without the vector it has");
  if (header.is_for_server()) {
    if (!is_server() || !place_.member(from).is(Role::worker))
      return malformed("what only a worker says, to its server");
    if (header.kind == Kind::seed && asked_ != from)
      return malformed("values to begin with, which nobody asked for");
    if (header.kind == Kind::push && !centre_.has_values())
      return malformed("a push into a centre that nobody has read");
    return true;
  }
  if (from != server_ || !place_.me().is(Role::worker))
    return malformed("what only the server says, to a worker");
  const auto phase = exchange_.phase();
  const bool waits = header.kind == Kind::data ? phase == ElasticExchange::Phase::asked
                                               : phase == ElasticExchange::Phase::pushed;
  if (header.kind >= Kind::ask_seed) return true;
  if (header.seq > exchange_.seq()) return malformed("an answer to no exchange");
  return waits && header.seq == exchange_.seq();  // else it was forgotten
}

void ElasticNode::send(Rank to, Kind kind, std::uint64_t seq, Turn& turn, Snapshot values) {
  VectorContent content;
  if (values) content = VectorContent::values(std::move(values), {0, place_.layout->size()});
  Turn below = within(*channel_, turn);
  channel_->send({to}, {kind, server_epoch_, seq}, std::move(content), {.coding = coding_of(kind)},
                 below);
}

void ElasticNode::on_start(Turn& turn) {
  if (is_server()) follow_workers(turn);
  if (!turn.has_learner()) return turn.finish();  // it serves until all workers have finished
  phase_ = Phase::training;
}

// The server of a view is the first live node from the one at the start on, in the order of ranks;
// its epoch is how far that is.
void ElasticNode::on_view(const View&, Turn& turn) {
  if (!turn.has_learner() && live_with(Role::worker, place_, turn.view()).empty())
    return turn.fail("all workers are lost: nobody is left to train; restart them and resume");
  const Status enough = enough_sites(config_.min_sites, place_, turn.view());
  if (turn.has_learner() && !enough && phase_ != Phase::ended) return fail(enough.error(), turn);
  const Rank before = server_;
  while (!turn.view().has(server_)) {
    server_ = (server_ + 1) % place_.size();
    ++server_epoch_;
  }
  if (server_ != before) {
    exchange_.forget();
    owes_seed_ = false;
    said_done_ = false;  // to this one
  }
  if (is_server()) follow_workers(turn);
}

void ElasticNode::on_step(const StepResult& result, Turn& turn) {
  pace_.stepped(result);
  if (!pace_.may_step()) turn.stop_computing();
}

void ElasticNode::on_computed(const Computed&, Turn&) { computing_ = false; }

void ElasticNode::on_timer(TimerId, Turn& turn) { on_progress(turn); }

// Until nobody has anything to say: a trainer beside the server tells itself, too.
void ElasticNode::on_progress(Turn& turn) {
  receive(turn);
  do {
    train(turn);
  } while (receive(turn));
}

void ElasticNode::train(Turn& turn) {
  if (phase_ == Phase::unstarted) return;
  if (computing_) {
    if (all_done_ || count_.is_over()) turn.stop_computing();
    return;
  }
  if (std::exchange(owes_seed_, false)) send(server_, Kind::seed, 0, turn, parameters_of(turn));
  while (phase_ != Phase::ended && advance(turn)) {
  }
  // Also at its end: a server that follows a lost one has to hear it of all.
  const bool is_idle = exchange_.phase() == ElasticExchange::Phase::idle;
  if (pace_.is_done() && is_idle && !std::exchange(said_done_, true))
    send(server_, Kind::done, 0, turn);
  if (count_.due() && phase_ != Phase::ended) {
    Turn below = within(count_, turn);
    count_.report(parameters_of(turn), below);
  }
  if (phase_ == Phase::training) next_steps(turn);
}

bool ElasticNode::receive(Turn& turn) {
  bool any = false;
  Turn below = within(*channel_, turn);
  while (channel_->lost()) {
  }  // worker and server follow the view
  while (auto one = channel_->poll(below)) {
    any = true;
    const Snapshot values = one->header.carries() ? one->content.values() : nullptr;
    if (one->header.is_for_server()) {
      serve(one->from, one->header, values, turn);
    } else {
      take(one->header, values);
    }
  }
  return any;
}

// --- the server

void ElasticNode::serve(Rank from, const ElasticHeader& header, const Snapshot& values,
                        Turn& turn) {
  const bool same_epoch = header.server_epoch == server_epoch_;
  switch (header.kind) {
    case Kind::pull:
      pulls_[from] = header.seq;
      break;
    case Kind::seed:
      if (!centre_.has_values()) centre_.begin(*values);
      break;
    case Kind::push: {
      const auto taken =
          centre_.push(from, same_epoch, header.seq, *values, parameter_count(place_), alpha_);
      send(from, taken == Centre::Taken::other_epoch ? Kind::nak : Kind::ack, header.seq, turn);
      if (taken == Centre::Taken::moved && !all_finite(*centre_.values()))
        return fail(not_finite("the centre has values that are not finite after a push of rank " +
                               std::to_string(from) + "; lower [optimizer] rate"),
                    turn);
      break;
    }
    default:  // done
      done_.insert(from);
      follow_workers(turn);
  }
  answer_pulls(turn);
}

// Asks for values, if there are none; ends the run, if all are done.
void ElasticNode::follow_workers(Turn& turn) {
  const std::vector<Rank> live = live_with(Role::worker, place_, turn.view());
  for (const Rank rank : workers_) {
    if (turn.view().has(rank)) continue;
    centre_.drop(rank);
    pulls_.erase(rank);
    done_.erase(rank);
    if (asked_ == rank) asked_.reset();
  }
  if (live.empty()) return;
  if (!centre_.has_values() && !asked_) {
    asked_ = live.front();
    send(*asked_, Kind::ask_seed, 0, turn);
  }
  if (std::ranges::includes(done_, live))
    for (const Rank rank : live) send(rank, Kind::end, 0, turn);
}

void ElasticNode::answer_pulls(Turn& turn) {
  if (!centre_.has_values()) return;
  for (const auto& [rank, seq] : std::exchange(pulls_, {}))
    send(rank, Kind::data, seq, turn, centre_.values());
}

// --- the trainer

void ElasticNode::take(const ElasticHeader& header, const Snapshot& values) {
  switch (header.kind) {
    case Kind::data:
      exchange_.on_data(header.seq, values);
      break;
    case Kind::ack:
      exchange_.on_ack(header.seq);
      break;
    case Kind::nak:
      exchange_.forget();
      break;
    case Kind::ask_seed:
      owes_seed_ = true;
      break;
    default:  // end
      all_done_ = true;
  }
}

// One move at a step boundary, if one can be made now that another may follow.
bool ElasticNode::advance(Turn& turn) {
  using At = ElasticExchange::Phase;
  switch (phase_) {
    case Phase::training:
      if (all_done_ || count_.is_over()) {
        phase_ = Phase::closing;
        return true;
      }
      exchange(turn);
      return false;
    case Phase::closing: {
      if (exchange_.phase() == At::pushed) return false;
      if (exchange_.phase() == At::has_moved)
        exchange_.follow(turn.params(), parameter_count(place_));
      exchange_.forget();
      phase_ = Phase::averaging;
      const Status begun = final_.begin(turn, within(final_.overlay(), turn));
      if (!begun) fail(begun.error(), turn);
      return true;
    }
    case Phase::averaging:
      if (!final_.take(turn)) return false;
      phase_ = Phase::ended;
      turn.finish();
      return false;
    case Phase::unstarted:
    case Phase::ended:
      return false;
  }
  return false;
}

// The boundary's part of an exchange; the next one begins where the last has ended.
void ElasticNode::exchange(Turn& turn) {
  using At = ElasticExchange::Phase;
  if (exchange_.phase() == At::has_moved) complete(turn);
  if (exchange_.phase() == At::has_c) return push(turn);
  if (exchange_.phase() != At::idle) return;
  if (pace_.is_done() || pace_.steps() == 0 || count_.has_taken_all()) return;
  const Time due = began_.value_or(Time::min() / 2) + from_seconds(config_.min_interval_s);
  if (!config_.is_foreground() && turn.now() < due) {
    if (!takes_steps()) turn.set_timer(kNextExchange, due);
    return;
  }
  began_ = turn.now();
  computed_ = pace_.snapshot();
  exchange_.ask();
  send(server_, Kind::pull, exchange_.seq(), turn);
}

void ElasticNode::push(Turn& turn) {
  std::vector<float> d = exchange_.difference(turn.params(), parameter_count(place_), alpha_);
  if (!all_finite(d))
    return fail(not_finite("its parameters are not finite; lower [optimizer] rate"), turn);
  const Range all{0, place_.layout->size()};
  exchange_.pushed(channel_->as_received(d, all, server_, {.coding = Coding::up}));
  send(server_, Kind::push, exchange_.seq(), turn,
       std::make_shared<const std::vector<float>>(std::move(d)));
}

void ElasticNode::complete(Turn& turn) {
  exchange_.follow(turn.params(), parameter_count(place_));
  if (!config_.is_foreground()) turn.record("gap", count_.own(), double(pace_.gap()));
  turn.record(config_.is_foreground() ? "wait_s" : "sync_s", count_.own(),
              seconds(turn.now() - *began_));
  if (!place_.phantom) turn.record("train_loss", count_.own(), computed_.loss);
  pace_.completed();
  Turn below = within(count_, turn);
  count_.took(computed_.samples, below);
}

void ElasticNode::next_steps(Turn& turn) {
  const bool waits = config_.is_foreground() && exchange_.phase() != ElasticExchange::Phase::idle;
  if (waits || !takes_steps() || all_done_ || count_.is_over()) {
    if (!paused_) paused_ = turn.now();
    return;
  }
  if (paused_ && !config_.is_foreground())
    turn.record("paused_s", count_.own(), seconds(turn.now() - *paused_));
  paused_.reset();
  computing_ = true;
  turn.compute(LocalStep{}, config_.is_foreground() ? config_.steps : 1);
}

void ElasticNode::fail(const Error& error, Turn& turn) {
  phase_ = Phase::ended;
  turn.fail({error.kind, server::who("shadowsync", place_) + error.what});
}

std::string ElasticNode::waiting_for() const {
  if (phase_ == Phase::averaging) return final_.waiting_for();
  if (phase_ == Phase::unstarted || phase_ == Phase::ended || computing_) return "";
  const std::string server = "of the sync server, rank " + std::to_string(server_);
  if (pace_.is_done() && exchange_.phase() == ElasticExchange::Phase::idle)
    return "the others to be done with their data, which the sync server, rank " +
           std::to_string(server_) + ", tells";
  if (exchange_.phase() == ElasticExchange::Phase::idle)
    return "the end of the run, which the senior worker tells";
  return (exchange_.phase() == ElasticExchange::Phase::asked ? "the centre " : "the answer ") +
         server + ", in exchange " + std::to_string(exchange_.seq());
}

void ElasticNode::state(Archive& ar) {
  ar.expect("shadowsync easgd");
  ar(server_, server_epoch_, centre_, asked_, pulls_, done_);
  ar(phase_, pace_, exchange_, computed_, began_, paused_);
  ar(computing_, owes_seed_, said_done_, all_done_);
}

}  // namespace longhaul::sync::shadow
