#include "longhaul/sync/easgd.h"

#include "longhaul/sync/server/entry.h"

namespace longhaul::sync {

namespace {

bool is_in_rounds(const Settings& settings) { return config_of<EasgdConfig>(settings).synchronous; }

}  // namespace

SyncEntry Easgd::entry() {
  return server::strategy_entry<Easgd>(
      {.name = "easgd",
       .summary = "workers' models and the server's centre pull each other (elastic averaging)",
       .traits = {.no_feedback = "keeps what was not sent by itself",
                  .when_lost =
                      "continues without it, its moves of the centre stay; without the server the "
                      "others wait, unless [server] standby_every gives it a follower",
                  .lets_return = true},
       .costs = {{.rounds = "every H steps (10)",
                  .sent = "S, and receives S",
                  .waits_for = "the server: 2 L + T",
                  .staleness = "pulls between",
                  .memory = "S while it pulls",
                  .when_lost = "continues"},
                 {.variant = "in rounds",
                  .settings = {{"synchronous", {true}}},
                  .rounds = "every H steps (10)",
                  .sent = "an exchange of S",
                  .waits_for = "all, every H steps",
                  .staleness = "0",
                  .memory = "centre: S"}},
       // In rounds it is a strategy over overlays, like others.
       .adapt =
           [](const Settings& settings, SyncTraits& traits) {
             if (is_in_rounds(settings))
               traits = {
                   .takes_outer = false,
                   .when_lost = "continues without it; the centre moves by the mean of those left"};
           }},
      [](const Settings& settings, SyncParts parts, const Place& place) {
        const auto make = is_in_rounds(settings) ? sync::make_strategy<SynchronousEasgd>
                                                 : server::make_strategy<Easgd>;
        return make(settings, std::move(parts), place);
      });
}

void EasgdWorker::begin(Turn& turn) { compute(LocalStep{}, config_.steps, turn); }

void EasgdWorker::computed(const Computed& done, Turn& turn) {
  done_ = done;
  ask(turn);
}

// d = alpha (x - c); x <- x - d, as the server reads it; push d
void EasgdWorker::read(const server::ServerHeader&, const Snapshot& centre, Turn& turn) {
  // One that has returned begins from the centre.
  if (centre && done_.steps == 0) return ParameterServerWorker::read({}, centre, turn);
  if (centre) {
    const double alpha = config_.beta / double(setup().workers.size());
    const auto x = parameters(turn);
    std::vector<float> d(x.size());
    for (std::size_t i = 0; i < d.size(); ++i)
      d[i] = float(alpha * (double(x[i]) - double((*centre)[i])));
    const std::vector<float> read =
        setup().channel->as_received(d, {0, d.size()}, setup().server, {});
    push(d, done_, /*asks=*/false, turn);
    for (std::size_t i = 0; i < d.size(); ++i) x[i] = float(double(x[i]) - double(read[i]));
  }
  begin(turn);
}

void EasgdWorker::state(Archive& ar) {
  ParameterServerWorker::state(ar);
  ar(done_);
}

// c <- c + d; running statistics move by the same share
server::ParameterServer::Taken EasgdServer::commit(Rank, const server::ServerHeader&,
                                                   std::span<const float> d, Turn&) {
  const auto c = store().change();
  const std::size_t length = parameters().length;
  for (std::size_t i = 0; i < length; ++i) c[i] = float(double(c[i]) + double(d[i]));
  mix(c.subspan(length), d.subspan(length), config_.beta / double(setup().workers.size()));
  return Taken::committed;
}

}  // namespace longhaul::sync
