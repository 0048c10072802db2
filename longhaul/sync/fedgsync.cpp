#include "longhaul/sync/fedgsync.h"

#include "longhaul/sync/grouping/sketch.h"
#include "longhaul/sync/server/entry.h"

namespace longhaul::sync {

SyncEntry FedGSync::entry() {
  return server::strategy_entry<FedGSync>(
      {.name = "fedgsync",
       .summary = "workers grouped by their data: a round waits for a quota of each group",
       .traits = {.when_lost = "what it gave counts, quotas are of who is left; without the server "
                               "the run ends, unless [server] standby_every gives it a follower",
                  .lets_return = true},
       // Groups are made anew within a few rounds.
       .small = {{"regroup", {std::int64_t{3}}}},
       .costs = {{.rounds = "a round of H steps (10)",
                  .sent = "S, and receives S",
                  .waits_for = "some of each group",
                  .staleness = "at most 16",
                  .memory = "server 2 n S",
                  .when_lost = "goes on"}}});
}

// g = mean gradient over `sketch_batches` batches at W_0, nothing applied. A phantom has none.
bool FedGSyncWorker::prepares(Turn& turn) {
  if (turn.place().phantom) return false;
  compute(Gradient{}, 1, turn);
  return true;
}

void FedGSyncWorker::profile(const Computed& done, Turn& turn) {
  const Range layer = grouping::output_layer(*turn.place().layout);
  const auto g = turn.grads().subspan(layer.offset, layer.length);
  profile_.resize(g.size());
  for (std::size_t k = 0; k < g.size(); ++k) profile_[k] += g[k] / float(config_.sketch_batches);
  shard_ = done.shard_size;
  if (++batches_ < config_.sketch_batches) return compute(Gradient{}, 1, turn);
  sketch_ = grouping::sketch_of(profile_, config_.sketch, turn.place().seed);
  profile_.clear();
  ask(turn);
}

// x = W_r; H local steps
void FedGSyncWorker::begin(Turn& turn) {
  local_.anchor(turn);
  compute(LocalStep{}, config_.steps, turn);
}

// UPDATE(r, x - W_r), with a sketch of it. One that is not finite is not given: the worker begins
// again from the server's model, unless that does not help.
void FedGSyncWorker::computed(const Computed& done, Turn& turn) {
  if (!turn.place().phantom && batches_ < config_.sketch_batches) return profile(done, turn);
  if (std::exchange(resetting_, false)) return ask(turn);
  const std::vector<float> update = local_.update(turn);
  shard_ = done.shard_size;
  if (!all_finite(turn.params()) && resets_ < kMostResets) {
    ++resets_;
    resetting_ = true;
    turn.record("not_finite", clock(), double(resets_));
    return compute(ResetOptimizer{}, 1, turn);
  }
  resets_ = 0;
  sketch(update, turn);
  push(update, done, /*asks=*/true, turn);
}

// g = -delta
void FedGSyncWorker::sketch(std::span<const float> update, Turn& turn) {
  if (turn.place().phantom) return;
  const Range layer = grouping::output_layer(*turn.place().layout);
  std::vector<float> g;
  for (float v : update.subspan(layer.offset, layer.length)) g.push_back(-v);
  sketch_ = grouping::sketch_of(g, config_.sketch, turn.place().seed);
}

Status FedGSyncWorker::check_extension(const server::ServerHeader& header) const {
  const auto model = server::from_extension<FedGSyncModel>(header.extension);
  return model ? Status(Ok{}) : model.error();
}

void FedGSyncWorker::read(const server::ServerHeader& header, const Snapshot& model, Turn& turn) {
  const auto said = server::from_extension<FedGSyncModel>(header.extension);
  urgency_ = said->urgency;
  if (said->refused) turn.record("refused", clock(), 1);
  ParameterServerWorker::read(header, model, turn);
}

void FedGSyncWorker::on_notice(const server::ServerHeader& header, Turn&) {
  urgency_ = server::from_extension<FedGSyncModel>(header.extension)->urgency;
}

server::Extension FedGSyncWorker::pull_extension() const {
  return server::to_extension(FedGSyncUpdate{shard_, sketch_});
}

void FedGSyncWorker::state(Archive& ar) {
  ParameterServerWorker::state(ar);
  ar(local_, batches_, profile_, sketch_, shard_, resets_, resetting_, urgency_);
}

}  // namespace longhaul::sync
