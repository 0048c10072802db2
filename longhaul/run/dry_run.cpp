// Dry runs: a few rounds of the same nodes, network and speeds, with phantoms for learners.
#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "longhaul/run/experiment.h"
#include "longhaul/run/explanation.h"
#include "longhaul/run/nodes.h"
#include "longhaul/run/plan.h"
#include "longhaul/run/simulation.h"

namespace longhaul::run {
namespace {

Job first_rounds(const Job& job, Round rounds) {
  Job few = job;
  few.stop = {.target_accuracy = {},
              .target_bits_per_byte = {},
              .max_rounds = rounds,
              .max_hours = {},
              .max_epochs = 0};
  return few;
}

Result<std::unique_ptr<Simulation>> without_numbers(const Job& job, const OwnLearners* own) {
  LH_LET(workload, Workload::load(job, /*numbers=*/false, own));
  return Simulation::make(job, std::move(workload), 1);
}

struct Sample {
  Round rounds = 0;
  double time_s = 0, bytes = 0, utilisation = 0;
  std::uint64_t parameters = 0;
};

Result<Sample> sample(const Job& job, Round rounds, const OwnLearners* own) {
  const Job few = first_rounds(job, rounds);
  LH_LET(simulation, without_numbers(few, own));
  sim::World& world = simulation->world();
  LH_TRY(world.run());
  return Sample{rounds, seconds(world.now()), double(world.counters().wan_bytes),
                world.compute_utilisation(), simulation->workload().layout()->size()};
}

// Larger jobs take too long to explain, and have too many rows to read.
constexpr std::size_t kMostExplained = 64;

// The data that nodes send, by sender, part of its strategy and round of the slowest worker.
class SentValues final : public sim::Watcher {
 public:
  SentValues(Round rounds, double wire_scale) : rounds_(rounds), wire_scale_(wire_scale) {}

  void watch(Simulation& simulation) {
    simulation_ = &simulation;
    simulation.world().watch(*this);
  }

  void acted(Time, Rank from, const Action& action) override {
    const auto* send = std::get_if<Send>(&action);
    if (!send || !send->message.is_bulk()) return;
    const Strategy& strategy = simulation_->world().node(from).strategy();
    const Round round = rounds_of_all();
    Sent& sent = sent_[{from, strategy.name_of(send->message.machine.tail())}][round];
    sent.bytes += send->message.body.size();
    sent.to.insert(send->to);
    pairs_[{from, send->to}] += send->message.body.size();
  }

  // Rounds that are alike share a row.
  std::vector<std::vector<std::string>> rows() const {
    std::vector<std::vector<std::string>> rows;
    for (const auto& [source, by_round] : sent_) {
      std::map<Sent, std::vector<std::string>> alike;
      std::vector<Sent> order;
      for (const auto& [round, sent] : by_round) {
        std::vector<std::string>& rounds = alike[sent];
        if (rounds.empty()) order.push_back(sent);
        rounds.push_back(round < rounds_ ? std::to_string(round + 1) : "end");
      }
      for (const Sent& sent : order)
        rows.push_back({node_name(node(source.first)), source.second,
                        fmt::format("{}", fmt::join(alike.at(sent), " ")),
                        fmt::format("{:.4g}", double(sent.bytes) * wire_scale_ / 1e6),
                        names(sent.to)});
    }
    return rows;
  }

  // All in all, between sites.
  std::vector<SentBytes> between_sites() const {
    std::vector<SentBytes> all;
    std::map<std::pair<std::string, std::string>, double> sites;
    for (const auto& [way, bytes] : pairs_)
      sites[{node(way.first).site, node(way.second).site}] += double(bytes) * wire_scale_;
    for (const auto& [way, bytes] : sites)
      all.push_back({way.first, way.second, std::uint64_t(bytes)});
    return all;
  }

 private:
  struct Sent {
    std::uint64_t bytes = 0;
    std::set<Rank> to;
    auto operator<=>(const Sent&) const = default;
  };

  // Returns the number of rounds that all workers have done.
  Round rounds_of_all() const {
    Round least = rounds_;
    for (Rank rank = 0; rank < simulation_->members().size(); ++rank)
      if (node(rank).is(Role::worker))
        least = std::min(least, simulation_->world().node(rank).strategy().rounds_done());
    return least;
  }

  const Member& node(Rank rank) const { return simulation_->members()[rank]; }

  std::string names(const std::set<Rank>& nodes) const {
    std::vector<std::string> names;
    for (const Rank rank : nodes) names.push_back(node_name(node(rank)));
    return fmt::format("{}", fmt::join(names, " "));
  }

  Simulation* simulation_ = nullptr;
  const Round rounds_;
  const double wire_scale_;
  std::map<std::pair<Rank, std::string>, std::map<Round, Sent>> sent_;
  std::map<std::pair<Rank, Rank>, std::uint64_t> pairs_;
};

}  // namespace

Result<Prediction> predict(const Job& job, const OwnLearners* own) {
  constexpr Round kFew = 2, kMore = 8;
  const Round all = job.stop.max_rounds;
  LH_LET(more, sample(job, std::min(all, kMore), own));
  Prediction p{.rounds = all,
               .simulated = more.rounds,
               .time_s = more.time_s,
               .round_s = more.time_s / double(more.rounds),
               .wan_bytes = more.bytes,
               .round_bytes = more.bytes / double(more.rounds),
               .compute_utilisation = more.utilisation,
               .parameters = more.parameters};
  if (all <= kMore) return p;
  LH_LET(few, sample(job, kFew, own));
  // Start-up and end are in both samples, so their difference is the pace of rounds alone.
  p.round_s = (more.time_s - few.time_s) / double(kMore - kFew);
  p.round_bytes = (more.bytes - few.bytes) / double(kMore - kFew);
  p.time_s += p.round_s * double(all - kMore);
  p.wan_bytes += p.round_bytes * double(all - kMore);
  return p;
}

Result<Explanation> explanation_of(const Job& job, std::optional<double> mbytes,
                                   const OwnLearners* own) {
  constexpr Round kRounds = 4;
  const SyncEntry& entry = *job.sync.entry;
  Explanation said{{fmt::format("{}.", entry.sends.empty() ? entry.summary : entry.sends)}};
  if (job.members().size() > kMostExplained) {
    said.lines.push_back(
        fmt::format("Jobs of more than {} nodes are not simulated here.", kMostExplained));
    return said;
  }
  Job few = first_rounds(job, std::min(job.stop.max_rounds, kRounds));
  few.faults.clear();
  if (mbytes) {
    few.model.entries = {{"kind", {std::string("phantom")}}, {"mbytes", {*mbytes}}};
    few.data.entries = {{"kind", {std::string("none")}}};
  }
  SentValues sent(few.stop.max_rounds, few.wan.wire_scale);
  LH_LET(simulation, without_numbers(few, own));
  sent.watch(*simulation);
  LH_TRY(simulation->world().run());
  said.lines.push_back(busiest_text(plan_of_sent(few, sent.between_sites())));
  said.title = fmt::format("Who sends what to whom in the first {} rounds; MB of encoded values",
                           few.stop.max_rounds);
  said.head = {"from", "part", "round", "MB", "to"};
  said.rows = sent.rows();
  return said;
}

nlohmann::ordered_json to_json(const Explanation& said) {
  nlohmann::ordered_json tables = nlohmann::ordered_json::array();
  if (!said.rows.empty())
    tables.push_back({{"title", said.title}, {"head", said.head}, {"rows", said.rows}});
  return {{"lines", said.lines}, {"tables", tables}};
}

}  // namespace longhaul::run
