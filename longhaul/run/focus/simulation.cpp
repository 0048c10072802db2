#include "longhaul/run/focus/simulation.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "longhaul/flow/relays.h"
#include "longhaul/run/focus/parts.h"
#include "longhaul/run/interrupt.h"
#include "longhaul/run/job/parts.h"
#include "longhaul/run/network.h"
#include "longhaul/run/nodes.h"
#include "longhaul/sim/world.h"

namespace longhaul::run {
namespace {

constexpr Time kTick = std::chrono::milliseconds(10);  // objects nearer than this come together

class FocusSimulation {
 public:
  static Result<std::unique_ptr<FocusSimulation>> make(const Job&);
  Result<FocusResult> run();

 private:
  explicit FocusSimulation(const Job& job) : job_(job) {}
  Status build();
  Status set_duration();
  void ask();
  Status give_models();
  void answered_model(double now_s, const focus::Answer&, FocusModelResult&) const;
  void feed(Time until);
  void answered(Time, const Reply&);
  FocusResult result();
  Rank rank_of(const std::string& site) const;

  const Job& job_;
  Time duration_{0};
  std::shared_ptr<const Members> members_;
  std::optional<FocusParts> parts_;
  std::vector<std::unique_ptr<Learner>> learners_;
  std::vector<TrackSource> sources_;
  std::vector<const focus::FocusNode*> nodes_;
  std::vector<FocusQueryResult> queries_;
  std::vector<FocusModelResult> models_;  // clients behind those of the queries
  std::unique_ptr<sim::World> world_;
};

Result<std::unique_ptr<FocusSimulation>> FocusSimulation::make(const Job& job) {
  std::unique_ptr<FocusSimulation> simulation(new FocusSimulation(job));
  LH_TRY(simulation->set_duration());
  LH_TRY(simulation->build());
  return simulation;
}

Status FocusSimulation::set_duration() {
  const focus::Config& config = *job_.focus;
  if (!config.duration_s && !config.objects && job_.queries.empty())
    return invalid(job_.file +
                   ": [focus] duration_s: missing; expected when the simulated sites end, or "
                   "objects, or a [[focus.query]]");
  double end = config.objects ? double(*config.objects) / config.rate : 0;
  for (const focus::QueryConfig& query : job_.queries) end = std::max(end, query.at_s);
  for (const focus::ModelConfig& model : job_.given) end = std::max(end, model.at_s);
  duration_ = from_seconds(config.duration_s.value_or(end));
  return Ok{};
}

Status FocusSimulation::build() {
  members_ = std::make_shared<const Members>(job_.members());
  auto parts = FocusParts::load(job_);
  if (!parts) return parts.error();
  parts_ = *std::move(parts);
  auto network = make_network(job_, *members_);
  if (!network) return network.error();
  world_ = std::make_unique<sim::World>(
      sim::WorldConfig{.threads = 0,
                       .relayed = flow::relayed_pairs(job_.network),
                       .wire_scale = job_.wan.wire_scale,
                       .repeat = fmt::format("longhaul simulate {} --set job.seed={}", job_.file,
                                             job_.job.seed)},
      *std::move(network), parts_->times());
  sim::Observer observer;
  observer.on_reply = [this](Time at, Rank, const Reply& reply) { answered(at, reply); };
  world_->observe(std::move(observer));
  for (Rank rank = 0; rank < members_->size(); ++rank) {
    auto learner = parts_->make_learner(rank);
    if (!learner) return learner.error();
    learners_.push_back(*std::move(learner));
    auto config = parts_->node_config(rank, *learners_.back());
    if (!config) return config.error();
    config->duration = duration_;
    auto node = std::make_unique<focus::FocusNode>(*config);
    nodes_.push_back(node.get());
    sources_.emplace_back(job_, parts_->stream(rank));
    world_->add(place_of(job_, rank, members_, learners_.back()->layout(), false), std::move(node),
                learners_.back().get());
  }
  return Ok{};
}

Rank FocusSimulation::rank_of(const std::string& site) const {
  Rank rank = 0;
  while (!site.empty() && (*members_)[rank].site != site) ++rank;
  return rank;
}

void FocusSimulation::ask() {
  for (const focus::QueryConfig& query : job_.queries) {
    const Rank rank = rank_of(query.site);
    const focus::Wanted wanted{
        query.cls,
        {from_seconds(query.from_s).count(),
         query.to_s ? from_seconds(*query.to_s).count() : std::numeric_limits<std::int64_t>::max()},
        query.limit};
    world_->give(rank, std::max(from_seconds(query.at_s), Time{1}),
                 Requested{queries_.size(), focus::request_of(wanted)});
    FocusQueryResult& result = queries_.emplace_back();
    result.site = (*members_)[rank].site;
    result.cls = query.cls;
    result.asked_s = query.at_s;
  }
}

Status FocusSimulation::give_models() {
  for (const focus::ModelConfig& config : job_.given) {
    const Rank rank = rank_of(config.site);
    auto model = given_model(job_, config);
    if (!model) return model.error();
    world_->give(rank, std::max(from_seconds(config.at_s), Time{1}),
                 Requested{queries_.size() + models_.size(),
                           share(to_wire(focus::Request{.query = {}, .model = {*model}}))});
    FocusModelResult& result = models_.emplace_back();
    result.site = (*members_)[rank].site;
    result.given_s = config.at_s;
  }
  return Ok{};
}

void FocusSimulation::answered_model(double now_s, const focus::Answer& answer,
                                     FocusModelResult& model) const {
  using Kind = focus::Answer::Kind;
  if (answer.kind == Kind::taken && answer.why.empty())
    model.taken.push_back(node_name((*members_)[answer.site]));
  if (!answer.why.empty()) model.why = answer.why;
  if (answer.kind == Kind::taken) return;
  model.version = answer.model;
  model.ended_s = now_s - model.given_s;
  for (const focus::MissingSite& site : answer.missing)
    model.missing.push_back(node_name((*members_)[site.site]));
}

// What the sources see until then.
void FocusSimulation::feed(Time until) {
  for (Rank rank = 0; rank < sources_.size(); ++rank)
    for (auto at = sources_[rank].next_at(); at && *at <= until; at = sources_[rank].next_at()) {
      std::vector<Item> items = sources_[rank].due(std::min(*at + kTick, until));
      const Time last = items.back().at;
      world_->give(rank, std::max({last, world_->now(), Time{1}}), Arrived{std::move(items)});
    }
}

void FocusSimulation::answered(Time at, const Reply& reply) {
  const auto answer = from_wire<focus::Answer>(*reply.answer);
  LH_CHECK(answer);
  if (reply.client >= queries_.size())
    return answered_model(seconds(at), *answer, models_.at(reply.client - queries_.size()));
  FocusQueryResult& query = queries_.at(reply.client);
  const double after = seconds(at) - query.asked_s;
  for (const focus::FoundCluster& cluster : answer->clusters) {
    query.clusters += cluster.count > 0;
    query.objects += cluster.count;
    if (!query.first_s) query.first_s = after;
  }
  if (!reply.last) return;
  query.ended_s = after;
  for (const focus::SiteEnd& end : answer->ends) {
    query.checked += end.checked;
    query.cached += end.cached;
    query.asof += end.asof;
  }
  for (const focus::MissingSite& site : answer->missing)
    query.missing.push_back(node_name((*members_)[site.site]));
}

Result<FocusResult> FocusSimulation::run() {
  const InterruptGuard guard;
  ask();
  LH_TRY(give_models());
  constexpr Time kWindow = std::chrono::seconds(1);
  for (Time until = kWindow;; until += kWindow) {
    if (interrupted()) return unavailable("interrupted");
    feed(until);
    const auto ended = world_->run(until);
    if (!ended) return ended.error();
    if (*ended == sim::World::Ended::finished) return result();
  }
}

FocusResult FocusSimulation::result() {
  FocusResult result{job_.job.name,
                     job_.focus->baseline,
                     seconds(world_->now()),
                     world_->counters().wan_bytes,
                     queries_,
                     models_,
                     {}};
  for (Rank rank = 0; rank < nodes_.size(); ++rank) {
    const focus::FocusNode& node = *nodes_[rank];
    result.sites.push_back({node_name((*members_)[rank]), node.index().objects(),
                            node.index().clusters(), node.counters().cheap,
                            node.counters().accurate, node.dropped(),
                            seconds(world_->figures(rank).computing), node.index().config().cheap,
                            node.samples(), node.index().config().model.number});
  }
  return result;
}

}  // namespace

nlohmann::ordered_json to_json(const FocusResult& result) {
  using Json = nlohmann::ordered_json;
  const auto optional = [](const std::optional<double>& value) {
    return value ? Json(*value) : Json(nullptr);
  };
  Json json = {{"name", result.name},      {"baseline", result.baseline},
               {"time_s", result.time_s},  {"wan_bytes", result.wan_bytes},
               {"queries", Json::array()}, {"sites", Json::array()}};
  for (const FocusQueryResult& q : result.queries)
    json["queries"].push_back({{"site", q.site},
                               {"class", q.cls},
                               {"asked_s", q.asked_s},
                               {"first_s", optional(q.first_s)},
                               {"latency_s", optional(q.ended_s)},
                               {"clusters", q.clusters},
                               {"objects", q.objects},
                               {"checked", q.checked},
                               {"cached", q.cached},
                               {"asof", q.asof},
                               {"missing", q.missing}});
  for (const FocusModelResult& m : result.models)
    json["models"].push_back({{"site", m.site},
                              {"given_s", m.given_s},
                              {"version", m.version},
                              {"latency_s", optional(m.ended_s)},
                              {"taken", m.taken},
                              {"missing", m.missing},
                              {"why", m.why}});
  for (const FocusSiteResult& s : result.sites)
    json["sites"].push_back({{"site", s.site},
                             {"objects", s.objects},
                             {"clusters", s.clusters},
                             {"cheap_objects", s.cheap},
                             {"accurate_objects", s.accurate},
                             {"dropped", s.dropped},
                             {"computing_s", s.computing_s},
                             {"cheap_model", s.cheap_model},
                             {"samples", s.samples},
                             {"model", s.model}});
  return json;
}

Result<FocusResult> simulate_focus(const Job& job) {
  auto simulation = FocusSimulation::make(job);
  if (!simulation) return simulation.error();
  return (*simulation)->run();
}

}  // namespace longhaul::run
