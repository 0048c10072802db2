#include "longhaul/run/workload.h"

#include <algorithm>
#include <filesystem>
#include <numeric>

#include <fmt/format.h>

#include "longhaul/core/score_sum.h"
#include "longhaul/learn/models/registry.h"
#include "longhaul/run/atomic_file.h"
#include "longhaul/run/job/parts.h"
#include "longhaul/run/lane_learner.h"
#include "longhaul/run/model_trial.h"
#include "longhaul/run/torch_library.h"
#include "longhaul/sim/phantom.h"

namespace longhaul::run {
namespace {

constexpr std::uint64_t kPhantomShard = 1000;  // samples of a phantom without data

// A site that has workers and is not left out, with its workers by rank. Sites are in file order.
struct WorkerSite {
  std::size_t site = 0;  // index in Job::sites
  std::vector<Rank> ranks;
};

std::vector<WorkerSite> worker_sites(const Job& job) {
  std::vector<WorkerSite> sites;
  const Members members = job.members();
  for (std::size_t i = 0; i < job.sites.size(); ++i) {
    if (job.leaves_out(job.sites[i].name)) continue;
    WorkerSite site{i, {}};
    for (Rank rank = 0; rank < members.size(); ++rank)
      if (members[rank].site == job.sites[i].name && members[rank].is(Role::worker))
        site.ranks.push_back(rank);
    if (!site.ranks.empty()) sites.push_back(std::move(site));
  }
  return sites;
}

// Distributes the samples of a site to its nodes at random.
Status deal(const WorkerSite& site, const std::string& name, std::vector<std::uint32_t> shard,
            std::uint64_t seed, learn::Shards& by_rank) {
  const std::size_t nodes = site.ranks.size();
  if (shard.size() < nodes)
    return invalid("[site." + name + "] nodes: " + std::to_string(nodes) + " nodes but only " +
                   std::to_string(shard.size()) +
                   " samples; lower nodes or choose another [data] partition");
  if (nodes > 1)
    Random(seed, {Purpose::partition, 1, std::uint32_t(site.site)})
        .shuffle(std::span<std::uint32_t>(shard));
  for (std::size_t i = 0; i < shard.size(); ++i) by_rank[site.ranks[i % nodes]].push_back(shard[i]);
  for (Rank rank : site.ranks) std::sort(by_rank[rank].begin(), by_rank[rank].end());
  return Ok{};
}

// Extends a reader's error, which begins with the path of the file: names the key with that path,
// and the key's place.
Error at_key(const Job& job, Error error) {
  std::string prefix;
  std::size_t longest = 0;
  auto look = [&](const Settings& table, std::string_view key) {
    const auto path = table.text(key);
    if (!path || path->size() <= longest || !error.what.starts_with(*path)) return;
    longest = path->size();
    prefix = source_of(*table.find(key)) + ": [" + table.table + "] " + std::string(key) + ": ";
  };
  look(job.data, "path");
  look(job.data, "test_path");
  for (const Settings& table : job.written)
    if (table.table.starts_with("site")) look(table, "data");
  for (const learn::DataEntry& entry : learn::data_registry())
    if (prefix.empty() && entry.name == job.kind("data") && !entry.default_path.empty() &&
        !job.data.find("path") && error.what.starts_with(entry.default_path))
      prefix = job.file + ": [data] path (not set): ";
  if (!prefix.empty() && error.what.find(": no such file") != std::string::npos)
    error.what += "; it was looked for in the current folder, and beside the job file";
  error.what = prefix + error.what;
  return error;
}

}  // namespace

// Loads the data of one site. A server's site may have none.
Status Workload::load_own_data(const Job& job, const std::string& name, const std::string& path) {
  auto site = learn::load_site(data_, path);
  if (!site) return at_key(job, site.error());
  facts_ = learn::facts_of(site->train, site->test);
  own_train_ = std::make_shared<learn::DataSet>(std::move(site->train));
  own_test_ = std::make_shared<learn::DataSet>(std::move(site->test));
  split_ = {own_train_, own_test_};
  std::vector<std::uint32_t> rows(own_train_->size());
  std::iota(rows.begin(), rows.end(), 0u);
  for (const WorkerSite& one : worker_sites(job)) {
    if (job.sites[one.site].name != name) continue;
    if (own_tests()) test_rows_[one.ranks.front()] = {0, own_test_->size()};
    LH_TRY(deal(one, name, std::move(rows), job.job.seed, shards_));
  }
  return Ok{};
}

Status Workload::load_data(const Job& job, std::optional<Rank> only) {
  const std::vector<WorkerSite> sites = worker_sites(job);
  std::vector<std::string> names;
  for (const WorkerSite& site : sites) names.push_back(job.sites[site.site].name);
  learn::Shards by_site;
  if (data_.partition == "local") {
    std::vector<std::string> paths, here;  // sites with files on this host
    for (const WorkerSite& site : sites) {
      const SiteTable& table = job.sites[site.site];
      if (only && table.name != members_[*only].site) continue;
      if (table.data.empty())
        return invalid(job.file + ": [site." + table.name +
                       "] data: missing; [data] partition = \"local\" needs a path at every site");
      if (phantom_ && !std::filesystem::exists(table.data)) {
        absent_.insert(table.name);
        continue;
      }
      here.push_back(table.name);
      paths.push_back(table.data);
    }
    if (paths.empty() && !absent_.empty())
      return invalid(
          fmt::format("{}: [data] partition = \"local\": no site's file is here; the shape of "
                      "the data needs one of them",
                      job.file));
    if (only) {
      data_sites_ = names;
      if (paths.empty()) return Ok{};
      return load_own_data(job, members_[*only].site, paths.front());
    }
    data_sites_here_ = here.size();
    auto local = learn::load_local(data_, here, paths);
    if (!local) return at_key(job, local.error());
    split_ = local->split;
    warnings_ = local->warnings;
    by_site = with_absent(names, std::move(local->shards));
    for (std::size_t i = 0; i < local->tests.size(); ++i)
      if (const auto& rows = local->tests[i]; !rows.empty())
        test_rows_[sites[i].ranks.front()] = {rows.front(), rows.back() + 1};
  } else {
    auto split = learn::load_data(data_);
    if (!split) return at_key(job, split.error());
    split_ = *split;
    LH_LET(shards, learn::partition(*split_.train, sites.size(), data_, job.job.seed));
    by_site = std::move(shards);
  }
  for (std::size_t i = 0; i < sites.size(); ++i)
    LH_TRY(deal(sites[i], names[i], std::move(by_site[i]), job.job.seed, shards_));
  samples_ = split_.train->size();
  for (std::size_t i = 0; i < sites.size(); ++i)
    if (absent_.contains(names[i])) samples_ += absent_samples();
  return Ok{};
}

std::uint64_t Workload::absent_samples() const {
  return split_.train->size() / std::max<std::size_t>(1, data_sites_here_);
}

// Adds shards for sites whose files are elsewhere: a plan assumes the mean size of the others.
learn::Shards Workload::with_absent(const std::vector<std::string>& names,
                                    learn::Shards here) const {
  learn::Shards all;
  std::vector<std::uint32_t> usual(absent_samples());
  std::iota(usual.begin(), usual.end(), 0u);
  auto next = here.begin();
  for (const std::string& name : names)
    all.push_back(absent_.contains(name) ? usual : std::move(*next++));
  return all;
}

Status Workload::meet(const std::map<std::string, learn::TableFacts>& said) {
  std::vector<learn::SiteFacts> sites;
  for (const std::string& name : data_sites_) {
    const auto found = said.find(name);
    if (found == said.end())
      return unavailable("site " + name + " has not said what data it has; is it in the run?");
    sites.push_back({name, "", found->second});
  }
  LH_LET(all, learn::agree(data_, sites));
  samples_ = all.training;
  warnings_ = all.warnings;
  split_.scales = all.scales;
  split_.fills = all.means;
  split_.statistics = all.numbers;
  for (const auto& set : {own_train_, own_test_})
    if (set) learn::bring_in_line(*set, all);
  if (layout_) return Ok{};
  split_.train = std::make_shared<const learn::DataSet>(learn::empty_like(sites.front().facts));
  split_.test = split_.train;
  return find_layout();
}

Result<Workload> Workload::load(const Job& job, bool numbers, const OwnLearners* own,
                                std::optional<Rank> only) {
  if (job.focus)
    return invalid(job.file +
                   ": has [focus], which trains nothing: use longhaul serve, or simulate");
  Workload work;
  work.members_ = job.members();
  work.seed_ = job.job.seed;
  work.shards_.resize(work.members_.size());
  if (const std::string kind = job.kind("model"); own && kind != "own" && kind != "phantom")
    return invalid(fmt::format(
        "{}: [model] kind = \"{}\" is trained by `longhaul`; this program brings a learner of its "
        "own: leave [model] and [data] out, or say kind = \"own\"",
        job.file, kind));
  if (job.kind("model") == "own") {
    work.phantom_ = !numbers;
    work.own_tests_ = numbers && tests_at_sites(job);
    work.sums_sites_ = numbers && !only && job.kind("data") == "own";
    LH_TRY(work.load_own(job, own, only));
    return work;
  }
  LH_LET(model, learn::read_model(job.model));
  LH_LET(data, learn::read_data(job.data));
  LH_LET(optimizer, learn::read_optimizer(job.optimizer));
  work.model_ = model;
  work.data_ = data;
  work.optimizer_ = optimizer;
  for (const Member& member : work.members_) {
    const auto site = std::ranges::find(job.sites, member.site, &SiteTable::name);
    work.overrides_.push_back(
        {site->batch.value_or(work.data_.batch), site->rate.value_or(work.optimizer_.rate)});
  }
  const bool phantom_model = work.model_.kind == "phantom";
  work.phantom_ = phantom_model || !numbers;
  work.own_tests_ = !work.phantom_ && tests_at_sites(job);
  if (phantom_model && work.data_.kind == "none") {
    work.samples_ = kPhantomShard * job.workers();
  } else {
    LH_TRY(work.load_data(job, only));
  }
  const bool known = work.data_sites_.empty() || work.own_train_;  // else meet() finds it
  if (known) LH_TRY(work.find_layout());
  return work;
}

// Tries everything that can go wrong with a file, in a copy of this process. The file is loaded,
// and trained and scored on one batch if there are samples.
Status Workload::try_script() const {
  LH_LET(torch, torch_library());
  const auto trial = [&]() -> Status {
    const learn::DataShape shape = split_.train ? split_.train->shape : learn::DataShape{};
    LH_LET(outline, torch->outline_of(model_, shape));
    if (phantom_ || !split_.train || split_.train->size() == 0) return Ok{};
    std::vector<std::uint32_t> rows(std::min<std::size_t>(split_.train->size(), data_.batch));
    std::iota(rows.begin(), rows.end(), 0u);
    const auto learner = make_learner(std::move(rows), /*origin=*/0);
    return learner ? Status(Ok{}) : Status(learner.error());
  };
  return try_in_copy("[model] path = \"" + model_.path + "\"", {model_.trial_s, model_.trial_mb},
                     trial);
}

Status Workload::find_layout() {
  const learn::DataShape shape = split_.train ? split_.train->shape : learn::DataShape{};
  if (model_.kind == "script") {  // layout from the file
    LH_TRY(try_script());
    LH_LET(torch, torch_library());
    LH_LET(outline, torch->outline_of(model_, shape));
    whole_layout_ = outline.layout;
    layout_ = learn::exchanged_layout(model_, whole_layout_);
    code_digest_ = outline.code_digest;
    return Ok{};
  }
  LH_LET(spec, learn::model_spec(model_, shape));
  whole_layout_ = learn::layout_of(spec);
  layout_ = learn::exchanged_layout(model_, whole_layout_);
  return Ok{};
}

Workload::SharedSets Workload::shared_sets() const {
  const auto entry = learn::find_data(data_.kind);
  if (own_ || !entry || (*entry)->place == learn::DataEntry::Place::none) return {};
  if (data_.partition != "local") return {split_.train, split_.test};
  return {nullptr, own_tests() ? nullptr : split_.test};
}

Result<Workload::ThreadSetup> Workload::set_up_threads() const {
  if (phantom_ || (own_ && !own_->uses_libtorch)) return ThreadSetup();
  LH_LET(torch, torch_library());
  torch->use_one_thread_per_learner();
  return ThreadSetup(torch->prepare_compute_thread);
}

Status Workload::load_own(const Job& job, const OwnLearners* own, std::optional<Rank> only) {
  if (!own)
    return invalid(job.file +
                   ": [model] kind = \"own\": only for programs that bring their own "
                   "learners (examples/embed); choose another kind");
  const SyncTraits traits = entry_with(*job.sync.entry, job.sync.settings).traits;
  const std::string_view asks = traits.asks;
  if (own->can && !asks.empty() && !own->can(asks))
    return invalid(fmt::format(
        "{}: [sync] kind = \"{}\" asks the learner for what a loop of one's own cannot give{}: {}",
        job.file, job.sync.entry->name,
        asks == "score" ? " without a score()" : "; choose another kind", asks));
  own_ = own;
  samples_ = own->training_samples;
  if (job.stop.max_epochs > 0 && samples_ == 0)
    return invalid(job.file +
                   ": [stop] max_epochs (compare --epochs): how many samples this program's loop "
                   "has is not known; use max_rounds or max_hours (compare --hours)");
  if (!phantom_ && !own->score && (job.stop.target_accuracy || job.stop.target_loss()))
    return invalid(job.file +
                   ": [stop] target_accuracy: this program gives no score that could reach it; in "
                   "Python longhaul.main(train, score)");
  const auto server =
      std::ranges::find_if(members_, [](auto& one) { return one.is(Role::server); });
  const bool by_sites = own->score && job.kind("data") == "own";
  if (only && by_sites && traits.served && server != members_.end())
    warnings_.push_back(fmt::format(
        "[sync] kind = \"{}\": scores are of the samples of site {} alone, where the server is; "
        "`simulate` adds up those of all sites",
        job.sync.entry->name, server->site));
  if (own->begin) own->begin(job);
  Rank rank = only.value_or(0);
  while (!only && !members_[rank].is(Role::worker)) ++rank;  // a job has a worker
  if (phantom_ && own->layout) {
    LH_LET(layout, own->layout(rank, members_[rank], seed_));
    layout_ = whole_layout_ = std::move(layout);
    return Ok{};
  }
  LH_LET(learner, own->make(rank, members_[rank], seed_));
  layout_ = whole_layout_ = learner->layout();
  if (!phantom_ && members_[rank].is(Role::worker))
    first_ = std::make_shared<std::pair<Rank, std::unique_ptr<Learner>>>(rank, std::move(learner));
  return Ok{};
}

Result<std::unique_ptr<Learner>> Workload::make_learner(Rank rank) const {
  if (!own_ || phantom_) return make_learner(shards_.at(rank), rank);
  if (first_ && first_->first == rank && first_->second) return std::move(first_->second);
  return own_->make(rank, members_[rank], seed_);
}

Result<std::unique_ptr<Learner>> Workload::make_lanes(Rank rank, std::uint32_t lanes) const {
  if (own_) return invalid("[sync] lane_threads: expected false with [model] kind = \"own\"");
  if (model_.bn == "local")
    return invalid("[sync] lane_threads: expected false with [model] bn = \"local\"");
  LH_LET(setup, set_up_threads());
  LH_LET(shared, make_learner(rank));
  const std::vector<std::uint32_t>& shard = shards_.at(rank);
  if (!shard.empty() && shard.size() < lanes)
    return invalid(
        fmt::format("[sync] lanes: expected at most {} with lane_threads = true, a "
                    "sample each of rank {}",
                    shard.size(), rank));
  std::vector<std::unique_ptr<Learner>> learners;
  for (std::uint32_t lane = 0; lane < lanes; ++lane) {
    std::vector<std::uint32_t> part;
    for (std::size_t i = lane; i < shard.size(); i += lanes) part.push_back(shard[i]);
    const auto origin = std::uint32_t(rank + members_.size() * (lane + 1));  // unique
    LH_LET(learner, make_learner(std::move(part), origin));
    learners.push_back(std::move(learner));
  }
  return std::unique_ptr<Learner>(
      std::make_unique<LaneLearner>(std::move(shared), std::move(learners), std::move(setup)));
}

Result<std::unique_ptr<Learner>> Workload::make_learner(std::vector<std::uint32_t> shard,
                                                        std::uint32_t origin) const {
  const std::size_t rank = origin % members_.size();  // also of a lane
  const Override own = own_ ? Override{data_.batch, 0} : overrides_.at(rank);
  if (phantom_)
    return std::unique_ptr<Learner>(std::make_unique<sim::PhantomLearner>(
        layout_, own.batch, shard.empty() ? kPhantomShard : shard.size(),
        own_ ? own_->can : nullptr));
  LH_LET(torch, torch_library());
  learn::OptimizerConfig optimizer = optimizer_;
  optimizer.rate = own.rate;
  return torch->make_learner({.model = model_,
                              .optimizer = optimizer,
                              .data = split_.train,
                              .shard = std::move(shard),
                              .batch = own.batch,
                              .seed = seed_,
                              .origin = origin,
                              .class_weights = data_.class_weights});
}

Result<Workload::Score> Workload::make_scorer(unsigned threads) const {
  auto score = make_node_scorer(threads);
  if (!score) return score.error();
  if (!*score) return Score();
  return Score([score = *std::move(score)](std::span<const float> model) {
    return score(kEveryTest, model);
  });
}

Result<Workload::NodeScore> Workload::make_node_scorer(unsigned threads) const {
  if (phantom_ || (own_ && !own_->score)) return NodeScore();
  if (own_)
    return NodeScore(
        [this, all = sums_sites_ && !own_tests_](Rank rank, std::span<const float> model) {
          return all || rank == kEveryTest ? score_all_sites(model) : own_->score(rank, model);
        });
  LH_LET(torch, torch_library());
  LH_LET(made, torch->make_scorer(model_, split_.test));
  const std::shared_ptr<learn::Scorer> scorer = std::move(made);
  return NodeScore([scorer, threads, own = own_tests(), rows = test_rows_](
                       Rank rank, std::span<const float> model) -> Result<Evaluation> {
    if (!own || rank == kEveryTest) return scorer->score(model, threads);
    const auto share = rows.find(rank);
    if (share == rows.end()) return Evaluation{};
    return scorer->score(model, threads, {share->second.first, share->second.second});
  });
}

// Returns the own learner's score: that of the first worker, or if sites have tests of their own
// the sum over every site's first worker.
Result<Evaluation> Workload::score_all_sites(std::span<const float> model) const {
  std::map<Rank, Evaluation> scores;
  std::set<std::string> scored;
  for (Rank rank = 0; rank < members_.size(); ++rank) {
    if (!members_[rank].is(Role::worker) || !scored.insert(members_[rank].site).second) continue;
    LH_LET(score, own_->score(rank, model));
    if (!sums_sites_) return score;
    scores.emplace(rank, score);
  }
  return ScoreSum::sum(scores);
}

Status Workload::save(const std::string& file, std::span<const float> model) const {
  if (phantom_) return Ok{};
  if (own_) return write_atomically(file, std::as_bytes(model));
  LH_LET(torch, torch_library());
  const auto bytes = torch->model_file(model_, split_.train->shape, model);
  return bytes ? write_atomically(file, *bytes) : Status(bytes.error());
}

Result<std::vector<float>> Workload::load_model(const std::string& path) const {
  LH_LET(torch, torch_library());
  return torch->load_model(path, *whole_layout_);
}

std::vector<std::vector<std::uint64_t>> Workload::label_counts() const {
  if (!split_.train) return {};
  learn::Shards workers;
  for (Rank rank = 0; rank < members_.size(); ++rank)
    if (members_[rank].is(Role::worker))
      workers.push_back(absent_.contains(members_[rank].site) ? std::vector<std::uint32_t>()
                                                              : shards_[rank]);
  return learn::label_counts(*split_.train, workers);
}

}  // namespace longhaul::run
