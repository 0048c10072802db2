#pragma once
// FocusNode is the strategy of a node of `longhaul serve`; there is one node at each site. It
// indexes the objects of its site with a cheap model as they arrive, and answers queries over all
// sites. For a query the accurate model checks one object of each candidate cluster. It trains
// nothing.
//
// Source: Hsieh et al., OSDI 2018, for one machine. Messages, sites and failures are our own
// additions. When a peer is lost, the node continues: answers are partial and name the missing
// site.
#include <cmath>
#include <functional>

#include "longhaul/base/overloaded.h"
#include "longhaul/core/cheap_models.h"
#include "longhaul/core/strategy.h"
#include "longhaul/focus/checks.h"
#include "longhaul/focus/config.h"
#include "longhaul/focus/ingest.h"
#include "longhaul/focus/models.h"
#include "longhaul/focus/queries.h"
#include "longhaul/focus/resampler.h"

namespace longhaul::focus {

// The complete configuration of a node.
struct NodeConfig {
  enum class AtIngest : std::uint8_t { cheap, accurate, nothing };
  enum class Place : std::uint8_t { site, querier, hub };
  IndexConfig index;
  AtIngest at_ingest = AtIngest::cheap;
  bool uses_known_verdicts = true;
  Place gt_place = Place::site;
  Rank hub = 0;
  std::uint32_t gt_batch = 32, gt_version = 1, object_bytes = 12000;
  std::size_t queue_items = 10000;
  Time patience = std::chrono::seconds(30);
  std::optional<Time> duration = {};            // absent: it never finishes
  std::optional<ResampleConfig> resample = {};  // absent: fixed parameters
  // Puts a model that the site receives while it runs into the learner, under number own_models or
  // own_models + 1. Null: such models are refused. Lives as long as the node's learner.
  using PutModel = std::function<Status(std::uint32_t number, const GivenModel&)>;
  PutModel put_model = nullptr;
  // Tries such a model elsewhere first, while this node continues. Returns nothing until the result
  // is known; called again at the next input, which comes with the result. Null: no trial.
  using TryModel = std::function<std::optional<Status>(const std::shared_ptr<const GivenModel>&)>;
  TryModel try_model = nullptr;
  bool no_clusters = false;      // T stays 0
  std::uint32_t length = 0;      // values of an object; 0: peers may send any
  std::uint32_t own_models = 1;  // number of the job's models; their numbers are below it
};
// Returns the configuration with the changes of the baseline. `hub`: the rank of the node that
// Config::hub names. Config::T must be set.
inline NodeConfig node_config(const Config& config, std::uint32_t classes, Rank hub) {
  LH_CHECK(config.T.has_value());
  NodeConfig node;
  node.index = {.top = config.K,
                .threshold = *config.T,
                .most_active = config.M,
                .specialised = std::min(config.Ls.value_or(classes), classes),
                .classes = classes,
                .vote_mean = config.vote == "mean",
                .interval_gap_ns = from_seconds(config.interval_gap_s).count()};
  node.gt_place = config.gt_place == "site"      ? NodeConfig::Place::site
                  : config.gt_place == "querier" ? NodeConfig::Place::querier
                                                 : NodeConfig::Place::hub;
  node.hub = hub;
  node.gt_batch = config.gt_batch;
  node.gt_version = config.gt_version;
  node.object_bytes = std::uint32_t(std::llround(config.thumb_kb * 1000));
  node.queue_items = config.queue_items;
  node.patience = from_seconds(config.answer_timeout_s);
  if (config.duration_s) node.duration = from_seconds(*config.duration_s);
  if (config.baseline == "none") return node;
  node.index.threshold = 0;
  node.no_clusters = true;
  if (config.baseline == "no_cluster") return node;
  node.index.top = 1;
  if (config.baseline == "ingest_all") {
    node.at_ingest = NodeConfig::AtIngest::accurate;
    node.index.specialised = classes;
    return node;
  }
  // Every object is OTHER, so each is a candidate of every query.
  node.at_ingest = NodeConfig::AtIngest::nothing;
  node.index.specialised = 0;
  node.uses_known_verdicts = false;
  if (config.baseline == "ship_all") node.gt_place = NodeConfig::Place::querier;
  return node;
}

class FocusNode final : public Strategy {
 public:
  using Messages = focus::Messages;
  explicit FocusNode(const NodeConfig& config)
      : config_(config),
        index_(config.index),
        verdicts_(config.gt_version),
        ingest_(config.queue_items),
        checks_(*this, config.gt_batch, config.object_bytes, config.patience),
        verifier_(*this, config.gt_version, config.length, config.patience),
        site_queries_(*this, config.uses_known_verdicts, config.patience),
        querier_(*this, config.patience, config.index.classes),
        models_(*this, config.patience) {
    if (config.resample) resampler_.emplace(*config.resample);
  }

  // Restores the index from this node's log before the start. Appending continues after the log.
  Status restore(std::span<const Bytes> log, Rank self) {
    LH_LET(records, replay(log, self, index_, verdicts_, kept_));
    appended_ = records;
    restored();
    return Ok{};
  }

  // Restores it step by step: a checkpoint, then the records after it. Returns an Error if the
  // checkpoint is of another index.
  Status restore_checkpoint(std::span<const std::byte> bytes) {
    Archive ar(bytes);
    ar(appended_);
    index_.state(ar);
    std::uint32_t version = 0;
    ar(version);
    verdicts_.state(ar);
    archive_models(ar, kept_);
    if (const Status read = ar.finish(); !read)
      return malformed("the index: " + read.error().what +
                       "; it is of another job, or damaged: start anew with --force");
    if (version != verdicts_.version()) verdicts_ = Verdicts(verdicts_.version());
    restored();
    return Ok{};
  }

  Status restore_record(std::uint64_t number, std::span<const std::byte> record, Rank self) {
    LH_TRY(replay_record(record, number, self, index_, verdicts_, kept_));
    appended_ = number;
    restored();
    return Ok{};
  }

  // Returns index and verdicts, which replace all records up to appended().
  Buffer checkpoint() {
    Archive ar;
    std::uint32_t version = verdicts_.version();
    ar(appended_);
    index_.state(ar);
    ar(version);
    verdicts_.state(ar);
    archive_models(ar, kept_);
    return ar.take();
  }

  std::uint64_t appended() const { return appended_; }

  void on_start(Turn& turn) override {
    if (config_.duration) turn.set_timer(*this, kOver, *config_.duration);
    if (const Status put = put_kept(); !put) return turn.fail(put.error());
    models_.on_start(turn);
  }

  void on_arrived(std::vector<Item> items, Turn& turn) override {
    ingest_.arrived(std::move(items));
    advance(turn);
  }

  void on_requested(std::uint64_t client, const Bytes& request, Turn& turn) override {
    if (!request) {
      querier_.cancel(client, turn);
      models_.cancel(client);
      return advance(turn);
    }
    auto wanted = from_wire<Request>(*request);
    if (!wanted) return refuse(client, "the request " + wanted.error().what, turn);
    if (wanted->query.size() + wanted->model.size() != 1)
      return refuse(client, "expected one query or one model", turn);
    if (!wanted->query.empty())
      querier_.on_requested(client, wanted->query.front(), turn);
    else
      models_.on_requested(client, std::move(wanted->model.front()), turn);
    advance(turn);
  }

  void on_stored(std::uint64_t number, Turn& turn) override {
    if (kept_in_ > 0 && number >= kept_in_) {
      kept_in_ = 0;
      models_.stored(turn);
      advance(turn);
    }
    for (auto it = acknowledges_.begin(); it != acknowledges_.end() && it->first <= number;) {
      acknowledged_ = it->second;
      it = acknowledges_.erase(it);
    }
  }

  Status on_message(Rank from, const Message& message, Turn& turn) override {
    const auto take = Overloaded{
        [&](const Query& m) { return this->take(from, m, turn); },
        [&](const Found& m) { return querier_.take(from, m, turn); },
        [&](const End& m) { return querier_.take(from, m, turn); },
        [&](const Cancel& m) { return site_queries_.take(from, m, checks_); },
        [&](const Check& m) { return verifier_.take(from, m, message.body, turn.now()); },
        [&](const Verdict& m) { return this->take(from, m, turn); },
        [&](const StillChecking& m) { return checks_.take(from, m, turn.now()); },
        [&](const NewestModel& m) { return models_.take(from, m, turn); },
        [&](const FetchModel& m) { return models_.take(from, m); },
        [&](const ModelPart& m) { return models_.take(from, m, message.body, turn); },
        [&](const ModelTaken& m) { return models_.take(from, m, turn); }};
    const Status status = dispatch(Messages{}, message, take);
    advance(turn);
    return status;
  }

  void on_timer(TimerId id, Turn& turn) override {
    if (id == kOver) over_ = true;
    if (id == Querier::kTimer) querier_.on_timer(turn);
    if (id == Models::kTimer) models_.on_timer(turn);
    advance(turn);
  }

  void on_writable(Rank, Turn& turn) override { advance(turn); }

  void on_view(const View&, Turn& turn) override {
    verifier_.on_view(turn);
    checks_.on_view(turn);
    site_queries_.on_view(checks_, turn);
    querier_.on_view(turn);
    models_.on_view(turn);
    advance(turn);
  }

  void on_step(const StepResult& result, Turn& turn) override {
    last_ = std::exchange(running_, Running::nothing);
    const bool labels = last_ == Running::resample &&
                        resampler_->work(config_.gt_batch).model == Infer::Model::accurate;
    const bool accurate =
        last_ == Running::check || labels || config_.at_ingest == NodeConfig::AtIngest::accurate;
    (accurate ? counters_.accurate : counters_.cheap) += result.samples;
    for (const float value : result.outputs) {
      if (!std::isfinite(value))
        return turn.fail(not_finite("a model answered a number that is not finite"));
      if (accurate && (value < 0 || value >= float(config_.index.classes)))
        return turn.fail("the accurate model answered a class that the job does not have");
    }
    if (last_ == Running::resample)
      resample(result, turn);
    else if (last_ == Running::check)
      verifier_.verdicts(result.outputs, turn);
    else
      index_batch(result.outputs, turn);
  }

  void on_progress(Turn& turn) override { advance(turn); }

  void state(Archive& ar) override {
    index_.state(ar);
    verdicts_.state(ar);
    ingest_.state(ar);
    checks_.state(ar);
    verifier_.state(ar);
    site_queries_.state(ar);
    querier_.state(ar);
    if (resampler_) resampler_->state(ar);
    models_.state(ar);
    archive_models(ar, kept_);
    if (ar.loading() && !ar.failed() && config_.put_model)
      for (const auto& [number, model] : kept_)
        if (const Status put = config_.put_model(number, *model); !put) ar.fail(put.error().what);
    ar(kept_in_, running_, last_, batch_, appended_, acknowledged_, acknowledges_, over_, finished_,
       counters_);
  }

  Round rounds_done() const override { return index_.objects(); }
  bool lets_return() const override { return true; }
  std::string waiting_for() const override {
    if (const std::string query = querier_.waiting_for(); !query.empty()) return query;
    if (const std::string model = models_.waiting_for(); !model.empty()) return model;
    if (finished_) return "";
    return config_.duration ? "the end of its time"
                            : "objects and queries, until it is interrupted";
  }

  const Index& index() const { return index_; }
  const Verdicts& verdicts() const { return verdicts_; }
  const Models& models() const { return models_; }
  // Returns the last seq that the source does not send again if the node crashes now.
  std::uint64_t acknowledged() const { return acknowledged_; }
  struct Counters {
    std::uint64_t cheap = 0, accurate = 0;  // objects that the models have seen
    void state(auto& ar) { ar(cheap, accurate); }
  };
  const Counters& counters() const { return counters_; }
  std::uint64_t samples() const { return resampler_ ? resampler_->samples() : 0; }
  std::uint64_t dropped() const { return ingest_.dropped(); }
  std::size_t open_queries() const { return site_queries_.open(); }  // from all sites, at this one

 private:
  static constexpr TimerId kOver{2};

  static ResampleConfig::Model resampled(const GivenModel& model, std::uint32_t number,
                                         std::uint32_t classes) {
    const auto own = std::uint32_t(model.classes.size());
    return {model.seconds, own > 0 ? own : classes, number, model.version, model.classes};
  }

  static void archive_models(Archive& ar, KeptModels& models) {
    std::vector<LoggedModel> list;
    if (!ar.loading())
      for (const auto& [number, model] : models) list.push_back({number, *model});
    ar(list);
    if (!ar.loading()) return;
    models.clear();
    for (LoggedModel& one : list)
      models[one.number] = std::make_shared<const GivenModel>(std::move(one.model));
  }

  enum class Running : std::uint8_t { nothing, ingest, check, resample };
  Status take(Rank from, const Query& query, Turn& turn) {
    return site_queries_.take(from, query, verifier_for(from, turn), index_, verdicts_, checks_,
                              turn);
  }

  Status take(Rank from, const Verdict& verdict, Turn& turn) {
    LH_LET(decided, checks_.take(from, verdict, config_.index.classes));
    Status status = Ok{};
    LogRecord record;
    for (auto& [cluster, cls] : decided) {
      if (config_.uses_known_verdicts) {
        const auto put = verdicts_.put(cluster, verdict.version, cls);
        if (!put) status = put.error();
        if (put && *put) record.verdicts.push_back({cluster, verdict.version, cls});
        cls = verdicts_.find(cluster).value_or(cls);
      }
      site_queries_.decided(cluster, cls);
    }
    if (!record.verdicts.empty()) append(record, turn);
    return status;
  }

  // Starts the next computation. The models take turns if both have work.
  void compute(Turn& turn) {
    if (running_ != Running::nothing) return;
    const bool check = verifier_.has_work() && (last_ != Running::check || !ingest_.has_work());
    if (check) {
      running_ = Running::check;
      return turn.compute(Infer{Infer::Model::accurate, verifier_.items()});
    }
    while (ingest_.has_work()) {
      batch_ = ingest_.take();
      if (config_.at_ingest == NodeConfig::AtIngest::nothing) {
        index_batch({}, turn);
        continue;
      }
      running_ = Running::ingest;
      const bool cheap = config_.at_ingest == NodeConfig::AtIngest::cheap;
      return turn.compute(
          Infer{cheap ? cheap_model(index_.config().cheap) : Infer::Model::accurate, batch_.items});
    }
    if (!resampler_ || !resampler_->has_work()) return;
    running_ = Running::resample;
    turn.compute(resampler_->work(config_.gt_batch));
  }

  void resample(const StepResult& result, Turn& turn) {
    resampler_->done(result.outputs, result.samples, index_.config());
    const auto chosen = resampler_->take();
    if (!chosen || !*chosen) return;  // no choice reaches the targets: parameters stay
    index_.adopt(**chosen);
    append(LogRecord{.models = {}, .adopted = {**chosen}, .gaps = {}, .items = {}, .verdicts = {}},
           turn);
  }

  // Checks a model as far as possible without a learner. Also limits the number of models, because
  // each is a generation of the index.
  Status check_given(const GivenModel& model) const {
    constexpr std::size_t kMostGenerations = 1000;
    if (!config_.put_model || config_.at_ingest != NodeConfig::AtIngest::cheap)
      return invalid("this job indexes without a cheap model that could be replaced");
    if (index_.generations() >= kMostGenerations)
      return invalid("this index has had " + std::to_string(kMostGenerations) +
                     " models and choices: begin a new one with --force");
    std::set<std::uint32_t> classes(model.classes.begin(), model.classes.end());
    if (classes.size() != model.classes.size()) return invalid("classes: one is named twice");
    if (!classes.empty() && *classes.rbegin() >= config_.index.classes)
      return invalid("classes: " + std::to_string(*classes.rbegin()) + ": expected 0 to " +
                     std::to_string(config_.index.classes - 1));
    if (model.file.empty()) return invalid("the model's file is empty");
    return Ok{};
  }

  void check_candidate(Turn& turn) {
    if (running_ != Running::nothing) return;  // the learner computes
    models_.drop_stale();
    const auto candidate = models_.candidate();
    if (!candidate) return;
    const std::uint32_t number = free_number();
    Status good = check_given(*candidate);
    if (good && config_.try_model) {
      const auto tried = config_.try_model(candidate);
      if (!tried) return;
      good = *tried;
    }
    if (good) good = config_.put_model(number, *candidate);
    if (const auto model = models_.checked(good ? "" : good.error().what, turn))
      keep(model, number, turn);
  }

  // Keeps a checked model. Existing clusters stay unchanged. If T is chosen on a sample, so is the
  // model.
  void keep(const std::shared_ptr<const GivenModel>& model, std::uint32_t number, Turn& turn) {
    kept_[number] = model;
    LogRecord record;
    record.models.push_back({number, *model});
    const bool is_chosen = resampler_ && model->T < 0;
    const ResampleConfig::Model sampled = resampled(*model, number, config_.index.classes);
    if (resampler_) resampler_->add(sampled, is_chosen);
    if (!is_chosen) {
      const IndexConfig& now = index_.config();
      const Chosen chosen{number,
                          model->K > 0 ? model->K : now.top,
                          sampled.specialised,
                          model->T >= 0 && !config_.no_clusters ? model->T : now.threshold,
                          model->version,
                          model->classes};
      index_.adopt(chosen);
      record.adopted.push_back(chosen);
    }
    append(record, turn);
    kept_in_ = appended_;
  }

  // Returns a model number that does not index now.
  std::uint32_t free_number() const {
    return config_.own_models + (index_.config().cheap == config_.own_models ? 1 : 0);
  }

  // Puts the models given earlier into the learner again.
  Status put_kept() {
    for (const auto& [number, model] : kept_) {
      models_.restore(model);
      if (!config_.put_model || number < config_.own_models)
        return malformed("the log holds a cheap model where none can be given");
      const Status put = config_.put_model(number, *model);
      if (!put)
        return malformed("the cheap model of version " + std::to_string(model->version.number) +
                         " that this index was made with: " + put.error().what);
      if (resampler_) resampler_->add(resampled(*model, number, config_.index.classes), false);
    }
    return Ok{};
  }

  void index_batch(std::span<const float> outputs, Turn& turn) {
    LogRecord record;
    for (const LoggedGap& gap : batch_.gaps) {
      index_.add_gap(gap.last_seq, gap.interval);
      record.gaps.push_back(gap);
    }
    for (std::size_t i = 0; i < batch_.items.size(); ++i) {
      const Item& item = batch_.items[i];
      LoggedItem logged{.seen = seen(item, i, outputs), .values = {}};
      const auto added = index_.add(logged.seen, item.source, item.values);
      if (!added) continue;
      if (resampler_) resampler_->indexed(item, logged.seen);
      logged.cluster = added->cluster;
      logged.feature = halves_of(logged.seen.feature);
      if (added->begun)
        logged.values = item.values;
      else if (!index_.config().vote_mean)
        logged.seen.scores.clear();
      if (config_.at_ingest == NodeConfig::AtIngest::accurate) {
        const auto cls = std::uint32_t(outputs[i]);
        LH_CHECK(verdicts_.put(added->cluster, config_.gt_version, cls));
        record.verdicts.push_back({added->cluster, config_.gt_version, cls});
      }
      record.items.push_back(std::move(logged));
      site_queries_.posted(*added, index_, verdicts_, checks_);
    }
    batch_ = {};
    append(record, turn);
    acknowledges_[appended_] = index_.asof();
  }

  // Returns the model's output, if any, for object number `at` of the batch.
  Seen seen(const Item& item, std::size_t at, std::span<const float> outputs) const {
    const std::size_t classes = index_.config().specialised + 1, items = batch_.items.size();
    if (config_.at_ingest == NodeConfig::AtIngest::cheap)
      return seen_by_cheap(item, at, items, outputs, index_.config().specialised);
    Seen seen{item.seq, item.at.count(), {}, {}};
    seen.scores.resize(classes);
    if (config_.at_ingest == NodeConfig::AtIngest::accurate) {
      LH_CHECK(outputs.size() == items);
      seen.scores[std::min<std::size_t>(std::size_t(outputs[at]), classes - 1)] = 1;
    }
    return seen;
  }

  void restored() {
    acknowledged_ = index_.asof();
    ingest_.begin_after(index_.asof(), index_.asof_ns());
  }

  void append(const LogRecord& record, Turn& turn) { turn.append(++appended_, to_wire(record)); }

  Rank verifier_for(Rank querier, const Turn& turn) const {
    const Rank wanted = config_.gt_place == NodeConfig::Place::site      ? turn.self()
                        : config_.gt_place == NodeConfig::Place::querier ? querier
                                                                         : config_.hub;
    return turn.view().has(wanted) ? wanted : turn.self();
  }

  void advance(Turn& turn) {
    site_queries_.advance(checks_, turn);
    checks_.advance(index_, turn);
    verifier_.advance(turn);
    check_candidate(turn);
    models_.advance(turn);
    compute(turn);
    if (over_) querier_.stop_following(turn);
    if (!over_ || finished_ || !querier_.idle()) return;
    finished_ = true;
    turn.finish();
  }

  const NodeConfig config_;
  Index index_;
  Verdicts verdicts_;
  Ingest ingest_;
  Checks checks_;
  Verifier verifier_;
  SiteQueries site_queries_;
  Querier querier_;
  std::optional<Resampler> resampler_;
  Models models_;
  KeptModels kept_;
  std::uint64_t kept_in_ = 0;  // record of the newest of them; 0: it is stored

  Running running_ = Running::nothing;
  Running last_ = Running::nothing;  // the two take turns
  Ingest::Batch batch_;              // being computed
  std::uint64_t appended_ = 0, acknowledged_ = 0;
  std::map<std::uint64_t, std::uint64_t> acknowledges_;  // seq by record
  bool over_ = false, finished_ = false;
  Counters counters_;
};

}  // namespace longhaul::focus
