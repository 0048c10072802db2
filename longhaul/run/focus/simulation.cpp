#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "longhaul/flow/relays.h"
#include "longhaul/run/focus/parts.h"
#include "longhaul/run/focus/simulation.h"
#include "longhaul/run/interrupt.h"
#include "longhaul/run/job/json.h"
#include "longhaul/run/job/parts.h"
#include "longhaul/run/network.h"
#include "longhaul/run/nodes.h"
#include "longhaul/sim/world.h"

namespace longhaul::run {
namespace {

constexpr Time kTick = std::chrono::milliseconds(10);  // objects nearer than this come together

class FocusSimulation {
 public:
  static Result<std::unique_ptr<FocusSimulation>> make(const Job& job) {
    std::unique_ptr<FocusSimulation> simulation(new FocusSimulation(job));
    LH_TRY(simulation->set_duration());
    LH_TRY(simulation->build());
    return simulation;
  }

  Result<FocusResult> run() {
    const InterruptGuard guard;
    ask();
    LH_TRY(give_models());
    constexpr Time kWindow = std::chrono::seconds(1);
    for (Time until = kWindow;; until += kWindow) {
      if (interrupted()) return unavailable("interrupted");
      feed(until);
      LH_LET(ended, world_->run(until));
      if (ended == sim::World::Ended::finished) return result();
    }
  }

 private:
  explicit FocusSimulation(const Job& job) : job_(job) {}
  Status build();
  Status set_duration();
  void ask() {
    for (const focus::QueryConfig& query : job_.queries) {
      const Rank rank = rank_of(query.site);
      const focus::Wanted wanted{query.cls,
                                 {from_seconds(query.from_s).count(),
                                  query.to_s ? from_seconds(*query.to_s).count()
                                             : std::numeric_limits<std::int64_t>::max()},
                                 query.limit};
      world_->give(rank, std::max(from_seconds(query.at_s), Time{1}),
                   Requested{queries_.size(), focus::request_of(wanted)});
      FocusQueryResult& result = queries_.emplace_back();
      result.site = (*members_)[rank].site;
      result.cls = query.cls;
      result.asked_s = query.at_s;
    }
  }

  Status give_models() {
    for (const focus::ModelConfig& config : job_.given) {
      const Rank rank = rank_of(config.site);
      LH_LET(model, given_model(job_, config));
      world_->give(rank, std::max(from_seconds(config.at_s), Time{1}),
                   Requested{queries_.size() + models_.size(),
                             share(to_wire(focus::Request{.query = {}, .model = {model}}))});
      FocusModelResult& result = models_.emplace_back();
      result.site = (*members_)[rank].site;
      result.given_s = config.at_s;
    }
    return Ok{};
  }

  void answered_model(double now_s, const focus::Answer& answer, FocusModelResult& model) const {
    using Kind = focus::Answer::Kind;
    if (answer.kind == Kind::taken && answer.why.empty())
      model.taken.push_back(node_name((*members_)[answer.site]));
    if (!answer.why.empty()) model.why = answer.why;
    if (answer.kind == Kind::taken) return;
    model.version = answer.model;
    model.latency_s = now_s - model.given_s;
    for (const focus::MissingSite& site : answer.missing)
      model.missing.push_back(node_name((*members_)[site.site]));
  }

  // What the sources see until then.
  void feed(Time until) {
    for (Rank rank = 0; rank < sources_.size(); ++rank)
      for (auto at = sources_[rank].next_at(); at && *at <= until; at = sources_[rank].next_at()) {
        std::vector<Item> items = sources_[rank].due(std::min(*at + kTick, until));
        const Time last = items.back().at;
        world_->give(rank, std::max({last, world_->now(), Time{1}}), Arrived{std::move(items)});
      }
  }

  void answered(Time at, const Reply& reply) {
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
    query.latency_s = after;
    for (const focus::SiteEnd& end : answer->ends) {
      query.checked += end.checked;
      query.cached += end.cached;
      query.asof += end.asof;
    }
    for (const focus::MissingSite& site : answer->missing)
      query.missing.push_back(node_name((*members_)[site.site]));
  }

  FocusResult result();
  Rank rank_of(const std::string& site) const {
    Rank rank = 0;
    while (!site.empty() && (*members_)[rank].site != site) ++rank;
    return rank;
  }

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
  LH_LET(parts, FocusParts::load(job_));
  parts_ = std::move(parts);
  LH_LET(network, make_network(job_, *members_));
  world_ = std::make_unique<sim::World>(
      sim::WorldConfig{.threads = 0,
                       .relayed = flow::relayed_pairs(job_.network),
                       .wire_scale = job_.wan.wire_scale,
                       .repeat = fmt::format("longhaul simulate {} --set job.seed={}", job_.file,
                                             job_.job.seed)},
      std::move(network), parts_->times());
  sim::Observer observer;
  observer.on_reply = [this](Time at, Rank, const Reply& reply) { answered(at, reply); };
  world_->observe(std::move(observer));
  for (Rank rank = 0; rank < members_->size(); ++rank) {
    LH_LET(learner, parts_->make_learner(rank));
    learners_.push_back(std::move(learner));
    LH_LET(config, parts_->node_config(rank, *learners_.back()));
    config.duration = duration_;
    auto node = std::make_unique<focus::FocusNode>(config);
    nodes_.push_back(node.get());
    sources_.emplace_back(job_, parts_->stream(rank));
    world_->add(place_of(job_, rank, members_, learners_.back()->layout(), false), std::move(node),
                learners_.back().get());
  }
  return Ok{};
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
  Json json = {{"name", result.name},      {"baseline", result.baseline},
               {"time_s", result.time_s},  {"wan_bytes", result.wan_bytes},
               {"queries", Json::array()}, {"sites", json_of(result.sites)}};
  for (const FocusQueryResult& one : result.queries) {
    Json& query = json["queries"].emplace_back(Json{{"site", one.site}, {"class", one.cls}});
    query.update(json_of(one));
  }
  if (!result.models.empty()) json["models"] = json_of(result.models);
  return json;
}

Result<FocusResult> simulate_focus(const Job& job) {
  LH_LET(simulation, FocusSimulation::make(job));
  return simulation->run();
}

}  // namespace longhaul::run
