#include "longhaul/sync/ssp.h"

#include "longhaul/sync/server/entry.h"

namespace longhaul::sync {

SyncEntry Ssp::entry() {
  return server::strategy_entry<Ssp>(
      {.name = "ssp",
       .summary = "step on copies of the server's model, the fastest a few steps ahead of the "
                  "slowest",
       .traits = {.when_lost =
                      "leaves the minimum that others wait for, its updates stay; without the "
                      "server the run ends, unless [server] standby_every gives it a follower",
                  .lets_return = true},
       .costs = {{.rounds = "every step",
                  .sent = "S; receives S every s steps",
                  .waits_for = "who is s behind",
                  .staleness = "s clocks",
                  .memory = "S, (s+1) S queued",
                  .when_lost = "goes on"}}});
}

void SspWorker::begin(Turn& turn) {
  const auto x = parameters(turn);
  before_.assign(x.begin(), x.end());
  compute(LocalStep{}, 1, turn);
}

// u = (x' - x) / n; cache <- x + u. Asked for with a push, the model that comes has all own
// updates; and with staleness 0 all workers are given the same one, when the last has pushed.
void SspWorker::computed(const Computed& done, Turn& turn) {
  const auto n = double(live_with(Role::worker, turn.place(), turn.view()).size());
  const auto x = parameters(turn);
  std::vector<float> u(x.size());
  for (std::size_t i = 0; i < u.size(); ++i) {
    u[i] = float((double(x[i]) - double(before_[i])) / n);
    x[i] = float(double(before_[i]) + double(u[i]));
  }
  const bool goes_on = server::within_bound(clock() + 1, minimum_, config_.staleness);
  push(u, done, /*asks=*/!goes_on, turn);
  if (goes_on) begin(turn);
}

Status SspWorker::check_extension(const server::ServerHeader& header) const {
  if (header.kind != server::ServerHeader::Kind::model)
    return ParameterServerWorker::check_extension(header);
  const auto model = server::from_extension<SspModel>(header.extension);
  return model ? Status(Ok{}) : model.error();
}

void SspWorker::read(const server::ServerHeader& header, const Snapshot& model, Turn& turn) {
  const auto said = *server::from_extension<SspModel>(header.extension);
  minimum_ = said.clock;
  set_clock(said.own);  // another one only after a takeover, in which updates were lost
  ParameterServerWorker::read(header, model, turn);
}

void SspWorker::state(Archive& ar) {
  ParameterServerWorker::state(ar);
  ar(before_, minimum_);
}

// x <- x + u; completed[w] <- c + 1
server::ParameterServer::Taken SspServer::commit(Rank from, const server::ServerHeader&,
                                                 std::span<const float> values, Turn& turn) {
  mix_buffers(values, turn);
  const auto x = store().change().first(parameters().length);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = float(double(x[i]) + double(values[i]));
  clocks_.complete(from);
  return Taken::committed;
}

// Its pushes come before it asks, so what it has completed is its clock.
bool SspServer::may_read(Rank rank) const {
  return server::within_bound(clocks_.of(rank), clocks_.minimum(), config_.staleness);
}

void SspServer::state(Archive& ar) {
  ParameterServer::state(ar);
  ar(clocks_);
}

}  // namespace longhaul::sync
