#include "longhaul/focus/focus_node.h"

#include <cmath>

#include "longhaul/core/cheap_models.h"

namespace longhaul::focus {
namespace {

constexpr TimerId kOver{2};

ResampleConfig::Model resampled(const GivenModel& model, std::uint32_t number,
                                std::uint32_t classes) {
  const auto own = std::uint32_t(model.classes.size());
  return {model.seconds, own > 0 ? own : classes, number, model.version, model.classes};
}

void archive_models(Archive& ar, KeptModels& models) {
  std::vector<LoggedModel> list;
  if (!ar.loading())
    for (const auto& [number, model] : models) list.push_back({number, *model});
  ar(list);
  if (!ar.loading()) return;
  models.clear();
  for (LoggedModel& one : list)
    models[one.number] = std::make_shared<const GivenModel>(std::move(one.model));
}

}  // namespace

NodeConfig node_config(const Config& config, std::uint32_t classes, Rank hub) {
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
  // Every object is OTHER, so all are candidates of every query.
  node.at_ingest = NodeConfig::AtIngest::nothing;
  node.index.specialised = 0;
  node.uses_known_verdicts = false;
  if (config.baseline == "ship_all") node.gt_place = NodeConfig::Place::querier;
  return node;
}

FocusNode::FocusNode(const NodeConfig& config)
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

Status FocusNode::restore(std::span<const Bytes> log, Rank self) {
  LH_LET(records, replay(log, self, index_, verdicts_, kept_));
  appended_ = records;
  restored();
  return Ok{};
}

void FocusNode::restored() {
  acknowledged_ = index_.asof();
  ingest_.begin_after(index_.asof(), index_.asof_ns());
}

// The learner gets the models again that were given before.
Status FocusNode::put_kept() {
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

Status FocusNode::restore_checkpoint(std::span<const std::byte> bytes) {
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

Status FocusNode::restore_record(std::uint64_t number, std::span<const std::byte> record,
                                 Rank self) {
  LH_TRY(replay_record(record, number, self, index_, verdicts_, kept_));
  appended_ = number;
  restored();
  return Ok{};
}

Buffer FocusNode::checkpoint() {
  Archive ar;
  std::uint32_t version = verdicts_.version();
  ar(appended_);
  index_.state(ar);
  ar(version);
  verdicts_.state(ar);
  archive_models(ar, kept_);
  return ar.take();
}

void FocusNode::on_start(Turn& turn) {
  if (config_.duration) turn.set_timer(*this, kOver, *config_.duration);
  if (const Status put = put_kept(); !put) return turn.fail(put.error());
  models_.on_start(turn);
}

void FocusNode::on_arrived(std::vector<Item> items, Turn& turn) {
  ingest_.arrived(std::move(items));
  advance(turn);
}

void FocusNode::on_requested(std::uint64_t client, const Bytes& request, Turn& turn) {
  const auto refuse = [&](std::string why) {
    turn.reply(client, to_wire(Answer{.kind = Answer::Kind::refused, .why = std::move(why)}), true);
  };
  if (!request) {
    querier_.cancel(client, turn);
    models_.cancel(client);
    return advance(turn);
  }
  auto wanted = from_wire<Request>(*request);
  if (!wanted) return refuse("the request " + wanted.error().what);
  if (wanted->query.size() + wanted->model.size() != 1)
    return refuse("expected one query or one model");
  if (!wanted->query.empty())
    querier_.on_requested(client, wanted->query.front(), turn);
  else
    models_.on_requested(client, std::move(wanted->model.front()), turn);
  advance(turn);
}

void FocusNode::on_stored(std::uint64_t number, Turn& turn) {
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

Status FocusNode::on_message(Rank from, const Message& message, Turn& turn) {
  struct Take {
    FocusNode& node;
    Rank from;
    const Message& message;
    Turn& turn;
    Status operator()(const Query& m) const { return node.take(from, m, turn); }
    Status operator()(const Found& m) const { return node.querier_.take(from, m, turn); }
    Status operator()(const End& m) const { return node.querier_.take(from, m, turn); }
    Status operator()(const Cancel& m) const {
      return node.site_queries_.take(from, m, node.checks_);
    }
    Status operator()(const Check& m) const {
      return node.verifier_.take(from, m, message.body, turn.now());
    }
    Status operator()(const Verdict& m) const { return node.take(from, m, turn); }
    Status operator()(const StillChecking& m) const {
      node.checks_.take(from, m, turn.now());
      return Ok{};
    }
    Status operator()(const NewestModel& m) const { return node.models_.take(from, m, turn); }
    Status operator()(const FetchModel& m) const { return node.models_.take(from, m); }
    Status operator()(const ModelPart& m) const {
      return node.models_.take(from, m, message.body, turn);
    }
    Status operator()(const ModelTaken& m) const { return node.models_.take(from, m, turn); }
  };
  const Status status = dispatch(Messages{}, message, Take{*this, from, message, turn});
  advance(turn);
  return status;
}

Rank FocusNode::verifier_for(Rank querier, const Turn& turn) const {
  const Rank wanted = config_.gt_place == NodeConfig::Place::site      ? turn.self()
                      : config_.gt_place == NodeConfig::Place::querier ? querier
                                                                       : config_.hub;
  return turn.view().has(wanted) ? wanted : turn.self();
}

Status FocusNode::take(Rank from, const Query& query, Turn& turn) {
  return site_queries_.take(from, query, verifier_for(from, turn), index_, verdicts_, checks_,
                            turn);
}

Status FocusNode::take(Rank from, const Verdict& verdict, Turn& turn) {
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

void FocusNode::append(const LogRecord& record, Turn& turn) {
  turn.append(++appended_, to_wire(record));
}

void FocusNode::on_timer(TimerId id, Turn& turn) {
  if (id == kOver) over_ = true;
  if (id == Querier::kTimer) querier_.on_timer(turn);
  if (id == Models::kTimer) models_.on_timer(turn);
  advance(turn);
}

void FocusNode::on_writable(Rank, Turn& turn) { advance(turn); }

void FocusNode::on_view(const View&, Turn& turn) {
  verifier_.on_view(turn);
  checks_.on_view(turn);
  site_queries_.on_view(checks_, turn);
  querier_.on_view(turn);
  models_.on_view(turn);
  advance(turn);
}

// What no learner has to look at. Bounded, too: every model is a generation of the index.
Status FocusNode::check_given(const GivenModel& model) const {
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

// The number that does not index now.
std::uint32_t FocusNode::free_number() const {
  return config_.own_models + (index_.config().cheap == config_.own_models ? 1 : 0);
}

void FocusNode::check_candidate(Turn& turn) {
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

// Clusters of before stay as they are. Where T is chosen on a sample, so is the model.
void FocusNode::keep(const std::shared_ptr<const GivenModel>& model, std::uint32_t number,
                     Turn& turn) {
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

// The models take turns where both have work.
void FocusNode::compute(Turn& turn) {
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

void FocusNode::resample(const StepResult& result, Turn& turn) {
  resampler_->done(result.outputs, result.samples, index_.config());
  const auto chosen = resampler_->take();
  if (!chosen || !*chosen) return;  // without a choice that reaches the targets things stay
  index_.adopt(**chosen);
  append(LogRecord{.models = {}, .adopted = {**chosen}, .gaps = {}, .items = {}, .verdicts = {}},
         turn);
}

void FocusNode::on_step(const StepResult& result, Turn& turn) {
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

void FocusNode::on_progress(Turn& turn) { advance(turn); }

// What the model, if any, said of the batch's object number `at`.
Seen FocusNode::seen(const Item& item, std::size_t at, std::span<const float> outputs) const {
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

void FocusNode::index_batch(std::span<const float> outputs, Turn& turn) {
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

void FocusNode::advance(Turn& turn) {
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

std::string FocusNode::waiting_for() const {
  if (const std::string query = querier_.waiting_for(); !query.empty()) return query;
  if (const std::string model = models_.waiting_for(); !model.empty()) return model;
  if (finished_) return "";
  return config_.duration ? "the end of its time" : "objects and queries, until it is interrupted";
}

void FocusNode::state(Archive& ar) {
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

}  // namespace longhaul::focus
