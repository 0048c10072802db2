// ElasticNode, of nodes that have come back, and of shards.
#include <algorithm>

#include "longhaul/sync/flat.h"
#include "longhaul/sync/shadow/elastic_node.h"

namespace longhaul::sync::shadow {

// --- at the servers

// Whoever has come back with this view, and whoever may not have heard it of a lost server, is to
// be told who serves.
void ElasticNode::follow_returned(const std::set<std::uint32_t>& moved, Turn& turn) {
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

// After the view: then the channel has begun anew with them.
void ElasticNode::tell_returned(Turn& turn) {
  for (const auto& [s, rank] : std::exchange(owed_names_, {})) {
    if (!serves(s)) continue;
    send(rank, {.kind = Kind::serving, .shard = s}, turn);
    if (s == 0 && told_end_ && place_.member(rank).is(Role::worker))
      send(rank, {.kind = Kind::end}, turn);
  }
}

// --- at the node that has come back

// To a server that has no values. A trainer without a model is only asked if nobody has one.
void ElasticNode::send_seeds(Turn& turn) {
  if (!owed_seeds_.empty() && !has_model_)
    return fail(state_lost("all sites that knew the model are lost; resume from a checkpoint"),
                turn);
  for (const std::uint32_t shard : std::exchange(owed_seeds_, {}))
    send(shards_[shard].server, {.kind = Kind::seed, .shard = shard}, turn, copy_of(shard, turn));
}

void ElasticNode::begin_outside() {
  for (Shard& shard : shards_) shard.is_known = false;
  has_model_ = !place_.me().is(Role::worker);
}

void ElasticNode::learn_server(Rank from, const ElasticHeader& header) {
  Shard& shard = shards_[header.shard];
  if (std::exchange(shard.is_known, true)) return;
  shard.server = from;
  shard.server_epoch = header.server_epoch;
}

// Asks for the values of each shard as soon as its server is known, and begins with them. A run
// that is over meanwhile needs no model of this node.
bool ElasticNode::enter(Turn& turn) {
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

Result<bool> ElasticNode::take_final(Turn& turn) {
  if (!turn.place().comes_back()) return final_.take(turn);
  Turn below = within(final_return_, turn);
  return final_return_.follow(has_model_, below, within(final_.overlay(), turn));
}

// --- shards

std::span<float> ElasticNode::part(std::uint32_t shard, Turn& turn) const {
  const auto w = turn.params();  // of a phantom nothing
  return w.empty() ? w : w.subspan(shards_[shard].range.offset, shards_[shard].range.length);
}

std::size_t ElasticNode::parameters_in(std::uint32_t shard) const {
  const Range& range = shards_[shard].range;
  const std::uint64_t all = parameter_count(place_);
  return std::min(range.length, all - std::min<std::uint64_t>(all, range.offset));
}

Snapshot ElasticNode::copy_of(std::uint32_t shard, Turn& turn) const {
  const auto w = part(shard, turn);
  return std::make_shared<const std::vector<float>>(w.begin(), w.end());
}

}  // namespace longhaul::sync::shadow
