#include "longhaul/run/experiment.h"

#include <algorithm>
#include <thread>

#include <fmt/format.h>

#include "longhaul/run/atomic_file.h"
#include "longhaul/run/met_facts.h"
#include "longhaul/run/recording.h"
#include "longhaul/run/session.h"
#include "longhaul/run/simulation.h"

namespace longhaul::run {
namespace {

// Records all nodes of a world while it runs.
class Recordings {
 public:
  Status begin(const std::string& folder, const Job& job, Simulation& simulation,
               record::Mode mode) {
    for (Rank rank = 0; rank < simulation.world().size(); ++rank) {
      auto opened = Recording::open(folder, job, simulation.workload(),
                                    simulation.world().node(rank).place(), mode);
      if (!opened) return opened.error();
      all_.push_back(*std::move(opened));
      simulation.world().node(rank).tap(all_.back()->tap());
    }
    return Ok{};
  }
  Status finish() {
    Status first = Ok{};
    for (const auto& one : all_)
      if (Status status = one->finish(); !status && first) first = status;
    return first;
  }

 private:
  std::vector<std::unique_ptr<Recording>> all_;
};

}  // namespace

Result<Summary> simulate(const Job& job, const SimulateOptions& options) {
  const bool writes = !options.folder.empty();
  if (options.record && !writes) return invalid("a recording needs the folder of a run");
  if (!job.run.without.empty())
    return invalid(job.file +
                   ": [run] without is for site and launch; in a simulated job take the [[site]] "
                   "away, or say [[fault]] kind = \"crash\"");
  const ExistingFolder existing = RunFolder::resolve(options.folder, options.existing);
  if (writes) LH_TRY(RunFolder::check(options.folder, job, existing));
  if (writes && existing == ExistingFolder::resume) {
    LH_LET(over, nothing_left(options.folder, job));
    if (over) return *over;
  }
  auto workload = Workload::load(job, /*numbers=*/true, options.learners);
  if (!workload) return workload.error();
  // Before there are nodes: it takes memory for each key of each site.
  const Summary blank = summary_of(job);
  LH_LET(simulation, Simulation::make(job, *std::move(workload), options.threads));
  std::optional<RunFolder> folder;
  if (writes) {
    auto opened = RunFolder::open(options.folder, job, existing);
    if (!opened) return opened.error();
    folder = *std::move(opened);
  }
  Session session(job, blank, *simulation, folder ? &*folder : nullptr, options.progress,
                  options.stop);
  session.cut_at(options.until_s);
  if (existing == ExistingFolder::resume && folder) LH_TRY(session.resume());
  Recordings recordings;
  if (options.record) LH_TRY(recordings.begin(folder->path(), job, *simulation, *options.record));
  auto summary = session.run();
  if (const Status recorded = recordings.finish(); summary && !recorded)
    return Error{recorded.error().kind,
                 recorded.error().what + "; the recording ends there, the run itself is whole"};
  return summary;
}

Result<Score> evaluate(const std::string& run_folder) {
  LH_LET(job, job_of_run(run_folder));
  if (const std::string kind = job.kind("model"); kind == "phantom" || kind == "own")
    return invalid(run_folder + ": [model] kind = \"" + kind + "\" has no model.pt to score");
  const std::string file = run_folder + "/model.pt";
  if (auto there = read_file(file); !there)
    return unavailable(file + ": no such file; the run has not come to its end: resume it first");
  LH_LET(workload, workload_of_run(job, run_folder));
  LH_LET(model, workload.load_model(file));
  LH_LET(scorer, workload.make_scorer(std::max(1u, std::thread::hardware_concurrency())));
  LH_LET(evaluation, scorer(model));
  const auto exchanged = std::span(model).first(workload.layout()->size());
  return Score{evaluation.loss, evaluation.accuracy, evaluation.samples, params_hash(exchanged)};
}

Result<PartitionTable> partition_table(const Job& job) {
  const bool none = job.kind("data") == "none";
  if (none && job.kind("model") == "own") return PartitionTable{};
  LH_LET(workload, Workload::load(job, /*numbers=*/false));
  PartitionTable table;
  table.layout = workload.layout();
  table.parameters = table.layout->parameters().length;
  if (none) return table;
  for (const Member& member : job.members())
    if (member.is(Role::worker))
      table.workers.push_back(member.rank_in_site == 0
                                  ? member.site
                                  : fmt::format("{}/{}", member.site, member.rank_in_site));
  table.counts = workload.label_counts();
  table.absent.assign(workload.absent().begin(), workload.absent().end());
  table.absent_samples = workload.absent_samples();
  const learn::Split& data = workload.data();
  table.labels = data.train->names;
  table.columns = data.train->columns;
  table.standardised = !data.scales.empty();
  table.scales =
      table.standardised || table.columns.empty() ? data.scales : learn::column_scales(*data.train);
  return table;
}

std::string scale_hint(const PartitionTable& table) {
  constexpr double kFarApart = 30;
  const auto varies = [](const learn::ColumnScale& scale) { return scale.std > 0; };
  if (table.standardised || std::ranges::count_if(table.scales, varies) < 2) return "";
  std::size_t least = table.scales.size(), most = table.scales.size();
  for (std::size_t i = 0; i < table.scales.size(); ++i) {
    if (!varies(table.scales[i])) continue;
    if (least == table.scales.size() || table.scales[i].std < table.scales[least].std) least = i;
    if (most == table.scales.size() || table.scales[i].std > table.scales[most].std) most = i;
  }
  if (table.scales[most].std < kFarApart * table.scales[least].std) return "";
  return fmt::format(
      "column {} varies by {:.2g}, {} by {:.2g}, and the model gets both as they are: [data] "
      "standardise = true brings them to one scale",
      "'" + table.columns[most] + "'", table.scales[most].std, "'" + table.columns[least] + "'",
      table.scales[least].std);
}

std::string chance_hint(const Job& job, const Summary& summary) {
  if (job.kind("data") != "csv" || !summary.final_accuracy) return "";
  const auto table = partition_table(job);
  if (!table || table->counts.empty() || table->counts.front().size() < 2) return "";
  double all = 0, most = 0;
  for (std::size_t label = 0; label < table->counts.front().size(); ++label) {
    double count = 0;
    for (const auto& worker : table->counts) count += double(worker[label]);
    all += count;
    most = std::max(most, count);
  }
  constexpr double kBetter = 0.05;
  return *summary.final_accuracy > most / all + kBetter ? "" : scale_hint(*table);
}

}  // namespace longhaul::run
