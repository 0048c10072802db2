#include "longhaul/sync/asp.h"

#include <cmath>

#include "longhaul/sync/server/entry.h"

namespace longhaul::sync {

SyncEntry Asp::entry() {
  return server::strategy_entry<Asp>(
      {.name = "asp",
       .summary = "add every worker's step to the server's model as it comes (ASP, DC-ASGD)",
       .traits = {.when_lost = "goes on without it, its updates stay; without the server the run "
                               "ends, unless [server] standby_every gives it a follower",
                  .lets_return = true},
       .costs = {{.rounds = "every step",
                  .sent = "S, and receives S",
                  .waits_for = "the server: 2 (L + T)",
                  .staleness = "n - 1 at equal speeds",
                  .memory = "a step: S",
                  .when_lost = "goes on"},
                 {.variant = "compensated",
                  .settings = {{"compensation", {std::string("constant")}}},
                  .rounds = "every step",
                  .sent = "the same",
                  .waits_for = "the same",
                  .staleness = "the same",
                  .memory = "the server n S more",
                  .when_lost = "goes on"}},
       // g is squared: what was lost before must not be in it, and it must be near each time.
       .adapt = [](const Settings& settings, SyncTraits& traits) {
         if (settings.text("compensation").value_or("none") == "none") return;
         traits.no_feedback = "squares what it gets, which must not hold what was lost before";
         traits.takes_unbiased = false;
       }});
}

Status Asp::check(const Config& config, const server::Setup& setup) {
  if (config.compensation == "none" || setup.rate > 0) return Ok{};
  return invalid("[sync] compensation = \"" + config.compensation +
                 "\" needs to know [optimizer] rate, which this job does not tell");
}

void AspWorker::begin(Turn& turn) {
  local_.anchor(turn);
  compute(LocalStep{}, 1, turn);
}

// u = x' - x of one step
void AspWorker::computed(const Computed& done, Turn& turn) {
  push(local_.update(turn), done, /*asks=*/true, turn);
}

void AspWorker::state(Archive& ar) {
  ParameterServerWorker::state(ar);
  ar(local_);
}

// x <- x + u - eta lambda_t g^2 (x - bak)
server::ParameterServer::Taken AspServer::commit(Rank from, const server::ServerHeader&,
                                                 std::span<const float> values, Turn& turn) {
  mix_buffers(values, turn);
  const auto x = store().change().first(parameters().length);
  if (compensates() && config_.compensation == "adaptive") mean_square_.resize(x.size());
  const auto bak = bak_.find(from);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double u = double(values[i]);
    const double apart = bak == bak_.end() ? 0 : double(x[i]) - double((*bak->second)[i]);
    x[i] = float(double(x[i]) + u - (compensates() ? compensation(i, u, apart) : 0));
  }
  return Taken::committed;
}

double AspServer::compensation(std::size_t i, double u, double apart) {
  const double g = -u / setup().rate;
  double lambda_t = config_.lambda;
  if (!mean_square_.empty()) {
    mean_square_[i] = 0.95 * mean_square_[i] + 0.05 * g * g;
    lambda_t /= std::sqrt(mean_square_[i] + 1e-7);
  }
  return setup().rate * lambda_t * g * g * apart;
}

void AspServer::on_model_sent(Rank rank, Turn&) {
  if (compensates()) bak_[rank] = store().snapshot();
}

void AspServer::state(Archive& ar) {
  ParameterServer::state(ar);
  std::map<Rank, std::vector<float>> bak;
  for (const auto& [rank, model] : bak_) bak[rank] = *model;
  ar(bak, mean_square_);
  if (!ar.loading()) return;
  bak_.clear();
  const std::size_t size = setup().place.phantom ? 0 : setup().place.layout->size();
  for (auto& [rank, model] : bak) {
    if (model.size() != size) return ar.fail("holds a model of another size");
    bak_[rank] = std::make_shared<const std::vector<float>>(std::move(model));
  }
}

}  // namespace longhaul::sync
