#include <filesystem>
#include <functional>
#include <mutex>
#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "longhaul/core/action.h"
#include "longhaul/net/event_loop.h"
#include "longhaul/net/task_thread.h"
#include "longhaul/run/atomic_file.h"
#include "longhaul/run/focus/api.h"
#include "longhaul/run/focus/parts.h"
#include "longhaul/run/focus/serve.h"
#include "longhaul/run/interrupt.h"
#include "longhaul/run/job/dump.h"
#include "longhaul/run/job/json.h"
#include "longhaul/run/job/parts.h"
#include "longhaul/run/nodes.h"
#include "longhaul/store/log_file.h"

namespace longhaul::run {
namespace {

// A writer of a node's log with its own thread. All waiting records are one transaction.
class LogWriter {
 public:
  // `stored`: records up to that number are durable; called by that thread.
  LogWriter(std::unique_ptr<store::LogFile> log, std::function<void(std::uint64_t)> stored)
      : log_(std::move(log)),
        stored_(std::move(stored)),
        thread_(std::make_unique<net::TaskThread>()) {}

  // Closes, without a report of errors.
  ~LogWriter() { (void)close(); }

  // Writes the waiting records. Returns the Error of the first failed write, after which nothing is
  // appended.
  Status close() {
    thread_.reset();  // no other thread from here on
    Status written = failure_ ? Status(*failure_) : Status(Ok{});
    if (written && !waiting_.empty()) written = log_->append(waiting_);
    if (written && checkpoint_) written = log_->write_checkpoint(*checkpoint_);
    waiting_.clear();
    checkpoint_.reset();
    if (!written) failure_ = written.error();
    return written;
  }

  // Can be called from any thread.
  void append(const Append& append) {
    const std::lock_guard lock(mutex_);
    waiting_.push_back({append.number, append.record});
    if (waiting_.size() == 1) thread_->submit([this] { write(); });
  }

  // Writes a checkpoint after earlier records. Can be called from any thread.
  void checkpoint(std::uint64_t number, Buffer state) {
    const std::lock_guard lock(mutex_);
    checkpoint_ = {number, share(std::move(state))};
    thread_->submit([this] { write(); });
  }

  // Returns the failed write, if any; nothing is written after it.
  std::optional<Error> failure() const {
    const std::lock_guard lock(mutex_);
    return failure_;
  }

 private:
  void write() {
    std::vector<store::LogFile::Record> records;
    std::optional<store::LogFile::Checkpoint> checkpoint;
    {
      const std::lock_guard lock(mutex_);
      if (failure_) return;
      records.swap(waiting_);
      checkpoint.swap(checkpoint_);
    }
    Status written = Ok{};
    if (!records.empty()) {
      written = log_->append(records);
      if (written) stored_(records.back().number);
    }
    if (written && checkpoint) written = log_->write_checkpoint(*checkpoint);
    if (written) return;
    const std::lock_guard lock(mutex_);
    failure_ = written.error();
  }

  std::unique_ptr<store::LogFile> log_;
  std::function<void(std::uint64_t)> stored_;
  mutable std::mutex mutex_;
  std::vector<store::LogFile::Record> waiting_;
  std::optional<store::LogFile::Checkpoint> checkpoint_;
  std::optional<Error> failure_;
  std::unique_ptr<net::TaskThread> thread_;
};

// A checkpoint is written when the index has twice the objects of the last one, and at the end.
constexpr std::uint64_t kCheckpointObjects = 100'000;

// Accepts changes to an index that continues: all keys that do not define the index.
Status follow_job(const std::string& folder, const Job& job) {
  if (!std::filesystem::exists(folder + "/job.toml")) return Ok{};
  LH_LET(before, job_of_run(folder));
  if (!before.focus) return Ok{};  // RunFolder reports it
  focus::Config& then = *before.focus;
  const focus::Config& now = *job.focus;
  if (then.gt != now.gt)
    return invalid(folder +
                   ": [focus] gt is another model than the one that this index was made "
                   "with: give it a folder of its own (--out)");
  then.gt_version = now.gt_version;
  then.gt_batch = now.gt_batch;
  then.gt_place = now.gt_place;
  then.hub = now.hub;
  then.thumb_kb = now.thumb_kb;
  then.queue_items = now.queue_items;
  then.trial_s = now.trial_s;
  then.trial_mb = now.trial_mb;
  then.answer_timeout_s = now.answer_timeout_s;
  then.duration_s = now.duration_s;
  then.objects = now.objects;
  before.queries = job.queries;
  before.given = job.given;
  if (difference(before, job)) return Ok{};  // RunFolder names it
  return write_atomically(folder + "/job.toml", to_toml(job));
}

class ServingSite {
 public:
  static Result<std::unique_ptr<ServingSite>> make(const Job& job, const ServeOptions& options,
                                                   NodeSockets sockets) {
    std::unique_ptr<ServingSite> site(new ServingSite(job, options));
    LH_TRY(site->build(std::move(sockets)));
    return site;
  }

  Result<ServeSummary> run() {
    const InterruptGuard guard;
    const Status ended = loop_->run(*node_);
    const ServeSummary done = summary();
    api_.reset();
    if (!log_->failure() && done.objects > at_checkpoint_) write_checkpoint();
    LH_TRY(log_->close());  // writes all appended records
    if (!loop_->peers().listening()) folder_->discard();
    if (api_failure_) return *api_failure_;
    if (!ended && !done.interrupted) return ended.error();
    return done;
  }

  ~ServingSite() {
    std::error_code none;
    if (announced_) std::filesystem::remove(api_file(), none);
    if (folder_) std::filesystem::remove(token_file(options_.folder), none);
  }

 private:
  ServingSite(const Job& job, const ServeOptions& options) : job_(job), options_(options) {}
  Status build(NodeSockets);
  Status open_log() {
    LH_LET(log, store::LogFile::open(folder_->file("index.sqlite")));
    LH_TRY((log)->claim(fmt::format("site {}, stream {} of seed {}",
                                    job_.members()[options_.rank].site, job_.focus->stream,
                                    job_.job.seed)));
    LH_LET(checkpoint, (log)->checkpoint());
    if (checkpoint.number > 0) LH_TRY(made_->restore_checkpoint(*checkpoint.state));
    LH_TRY((log)->each([this](std::uint64_t number, const Bytes& record) {
      return made_->restore_record(number, *record, options_.rank);
    }));
    at_checkpoint_ = made_->index().objects();
    if (options_.note && made_->appended() > 0)
      options_.note(fmt::format("continues an index of {} objects in {} clusters",
                                made_->index().objects(), made_->index().clusters()));
    log_ = std::make_unique<LogWriter>(
        std::move(log), [this](std::uint64_t number) { loop_->give(Stored{number}); });
    source_.emplace(job_, parts_->stream(options_.rank));
    source_->begin_after(made_->index().asof());
    if (made_->index().asof() > 0) source_ahead_ = source_->next_at().value_or(Time{0});
    return Ok{};
  }

  // Opens the interface to users, once all sites are connected.
  Status announce() {
    announced_ = true;
    LH_LET(port, api_->start(options_.port));
    port_ = port;
    const nlohmann::ordered_json json = {{"address", fmt::format("127.0.0.1:{}", port_)}};
    LH_TRY(write_atomically(api_file(), json.dump() + "\n"));
    if (options_.note) options_.note(fmt::format("serves http://127.0.0.1:{}/query", port_));
    return Ok{};
  }

  net::EventLoop::Observer observer() {
    return {.on_note = options_.note,
            .on_append = [this](const Append& append) { log_->append(append); },
            .on_reply = [this](const Reply& reply) { api_->reply(reply); },
            .on_tick = [this] { tick(); },
            .stop = [this] { return interrupted() || log_->failure() || api_failure_; }};
  }

  void tick();
  void write_checkpoint() {
    at_checkpoint_ = strategy_->index().objects();
    Buffer state = strategy_->checkpoint();
    if (state.size() <= store::LogFile::kMostState)
      log_->checkpoint(strategy_->appended(), std::move(state));
  }

  std::string api_file() const { return folder_->file("api.json"); }
  ServeSummary summary() const {
    const net::EventLoop::Counters counters = loop_->counters();
    return {node_name((*members_)[options_.rank]),
            fmt::format("127.0.0.1:{}", port_),
            seconds(counters.time),
            strategy_->index().objects(),
            strategy_->index().clusters(),
            strategy_->counters().cheap,
            strategy_->counters().accurate,
            strategy_->dropped(),
            strategy_->acknowledged(),
            counters.wan_bytes,
            strategy_->models().newest() ? strategy_->models().newest()->version.number : 0,
            strategy_->index().config().model.number,
            strategy_->open_queries(),
            interrupted()};
  }

  const Job& job_;
  const ServeOptions& options_;
  std::shared_ptr<const Members> members_;
  std::optional<FocusParts> parts_;
  std::optional<RunFolder> folder_;
  std::unique_ptr<Learner> learner_;
  std::optional<TrackSource> source_;
  Time source_ahead_{0};  // lead of the stream over the clock; the stream stops with its site
  bool announced_ = false;
  std::unique_ptr<net::EventLoop> loop_;
  focus::FocusNode* strategy_ = nullptr;
  std::uint64_t at_checkpoint_ = 0;  // objects in the newest checkpoint
  std::unique_ptr<focus::FocusNode> made_;
  std::unique_ptr<Node> node_;
  std::unique_ptr<LogWriter> log_;
  std::unique_ptr<QueryApi> api_;
  std::uint16_t port_ = 0;
  std::optional<Error> api_failure_;
  std::optional<GivenTrials> trials_;  // ends before the object that it notifies
};

Status ServingSite::build(NodeSockets sockets) {
  Members members = job_.members();
  members[options_.rank].incarnation = options_.rejoin ? 1 : 0;
  members_ = std::make_shared<const Members>(std::move(members));
  LH_LET(parts, FocusParts::load(job_));
  parts_ = std::move(parts);
  LH_LET(learner, parts_->make_learner(options_.rank));
  learner_ = std::move(learner);
  LH_LET(config, parts_->node_config(options_.rank, *learner_));
  if (parts_->has_real_models() && !options_.program.empty()) {
    trials_.emplace(
        [this](const focus::GivenModel& model, std::stop_token stop) {
          return parts_->try_given(model, options_.program, std::move(stop));
        },
        [this] { loop_->give(Arrived{}); });
    config.try_model = [this](const auto& model) { return trials_->result(model); };
  }
  made_ = std::make_unique<focus::FocusNode>(config);
  strategy_ = made_.get();
  if (!options_.force) LH_TRY(follow_job(options_.folder, job_));
  LH_LET(folder,
         RunFolder::open(options_.folder, job_,
                         options_.force ? ExistingFolder::force : ExistingFolder::resume_or_begin));
  folder_ = std::move(folder);
  LH_TRY(open_log());
  const Place place = place_of(job_, options_.rank, members_, learner_->layout(), false);
  const auto times = std::shared_ptr<const sim::ComputeTime>(parts_->times());
  net::EventLoopConfig loop{peers_config(job_, options_.rank, std::move(sockets), job_hash(job_))};
  if (!parts_->has_real_models())
    loop.step_time = [times, rank = options_.rank](std::uint64_t step, Time at, const Work& work) {
      return times->duration(rank, step, at, work);
    };
  loop_ = std::make_unique<net::EventLoop>(std::move(loop), place, learner_.get(),
                                           net::EventLoop::Scorer{}, observer());
  node_ = std::make_unique<Node>(place, std::move(made_), learner_.get(), *loop_);
  LH_LET(token, make_token(token_file(options_.folder)));
  api_ = std::make_unique<QueryApi>(members_, std::move(token),
                                    [this](Input input) { loop_->give(std::move(input)); });
  return Ok{};
}

void ServingSite::tick() {
  const Time now = loop_->counters().time;
  if (now == Time{0}) return;  // not all are connected
  if (!announced_)
    if (const Status can = announce(); !can) api_failure_ = can.error();
  if (auto items = source_->due(now + source_ahead_); !items.empty())
    loop_->give(Arrived{std::move(items)});
  if (strategy_->index().objects() >= std::max(kCheckpointObjects, 2 * at_checkpoint_))
    write_checkpoint();
  api_->set_status(json_of(summary()).dump());
}

}  // namespace

Result<ServeSummary> serve_site(const Job& job, const ServeOptions& options) {
  LH_LET(sockets,
         node_sockets(job, options.rank, options.addresses, options.listening, options.security));
  LH_LET(site, ServingSite::make(job, options, std::move(sockets)));
  return site->run();
}

Result<std::string> api_address(const std::string& folder) {
  const auto bytes = read_file(folder + "/api.json");
  if (!bytes) return unavailable(folder + ": no site serves there (it has no api.json)");
  const auto json = nlohmann::json::parse(bytes->begin(), bytes->end(), nullptr, false);
  if (!json.is_object() || !json.contains("address") || !json["address"].is_string())
    return malformed(folder + "/api.json: cannot be read");
  return json["address"].get<std::string>();
}

}  // namespace longhaul::run
