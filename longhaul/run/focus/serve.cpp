#include "longhaul/run/focus/serve.h"

#include <filesystem>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "longhaul/net/event_loop.h"
#include "longhaul/run/atomic_file.h"
#include "longhaul/run/focus/api.h"
#include "longhaul/run/focus/api_token.h"
#include "longhaul/run/focus/log_writer.h"
#include "longhaul/run/focus/parts.h"
#include "longhaul/run/interrupt.h"
#include "longhaul/run/job/dump.h"
#include "longhaul/run/job/parts.h"
#include "longhaul/run/nodes.h"
#include "longhaul/run/sockets.h"

namespace longhaul::run {
namespace {

// A checkpoint is written when the index has twice the objects of the last one, and at the end.
constexpr std::uint64_t kCheckpointObjects = 100'000;

// What may change while an index is continued: all that does not make the index.
Status follow_job(const std::string& folder, const Job& job) {
  if (!std::filesystem::exists(folder + "/job.toml")) return Ok{};
  auto before = job_of_run(folder);
  if (!before) return before.error();
  if (!before->focus) return Ok{};  // RunFolder says so
  focus::Config& then = *before->focus;
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
  before->queries = job.queries;
  before->given = job.given;
  if (difference(*before, job)) return Ok{};  // RunFolder names it
  return write_atomically(folder + "/job.toml", to_toml(job));
}

class ServingSite {
 public:
  static Result<std::unique_ptr<ServingSite>> make(const Job&, const ServeOptions&, NodeSockets);
  Result<ServeSummary> run();
  ~ServingSite();

 private:
  ServingSite(const Job& job, const ServeOptions& options) : job_(job), options_(options) {}
  Status build(NodeSockets);
  Status open_log();
  Status announce();
  net::EventLoop::Observer observer();
  void tick();
  void write_checkpoint();
  std::string api_file() const { return folder_->file("api.json"); }
  ServeSummary summary() const;

  const Job& job_;
  const ServeOptions& options_;
  std::shared_ptr<const Members> members_;
  std::optional<FocusParts> parts_;
  std::optional<RunFolder> folder_;
  std::unique_ptr<Learner> learner_;
  std::optional<TrackSource> source_;
  Time source_ahead_{0};  // of the stream, before the clock: it stops while its site is down
  bool announced_ = false;
  std::unique_ptr<net::EventLoop> loop_;
  focus::FocusNode* strategy_ = nullptr;
  std::uint64_t at_checkpoint_ = 0;  // objects in the last one
  std::unique_ptr<focus::FocusNode> made_;
  std::unique_ptr<Node> node_;
  std::unique_ptr<LogWriter> log_;
  std::unique_ptr<QueryApi> api_;
  std::uint16_t port_ = 0;
  std::optional<Error> api_failure_;
  std::optional<GivenTrials> trials_;  // ends before what it tells the end of a trial
};

Result<std::unique_ptr<ServingSite>> ServingSite::make(const Job& job, const ServeOptions& options,
                                                       NodeSockets sockets) {
  std::unique_ptr<ServingSite> site(new ServingSite(job, options));
  LH_TRY(site->build(std::move(sockets)));
  return site;
}

ServingSite::~ServingSite() {
  std::error_code none;
  if (announced_) std::filesystem::remove(api_file(), none);
  if (folder_) std::filesystem::remove(token_file(options_.folder), none);
}

Status ServingSite::open_log() {
  auto log = store::LogFile::open(folder_->file("index.sqlite"));
  if (!log) return log.error();
  LH_TRY(
      (*log)->claim(fmt::format("site {}, stream {} of seed {}", job_.members()[options_.rank].site,
                                job_.focus->stream, job_.job.seed)));
  const auto checkpoint = (*log)->checkpoint();
  if (!checkpoint) return checkpoint.error();
  if (checkpoint->number > 0) LH_TRY(made_->restore_checkpoint(*checkpoint->state));
  LH_TRY((*log)->each([this](std::uint64_t number, const Bytes& record) {
    return made_->restore_record(number, *record, options_.rank);
  }));
  at_checkpoint_ = made_->index().objects();
  if (options_.note && made_->appended() > 0)
    options_.note(fmt::format("continues an index of {} objects in {} clusters",
                              made_->index().objects(), made_->index().clusters()));
  log_ = std::make_unique<LogWriter>(*std::move(log),
                                     [this](std::uint64_t number) { loop_->give(Stored{number}); });
  source_.emplace(job_, parts_->stream(options_.rank));
  source_->begin_after(made_->index().asof());
  if (made_->index().asof() > 0) source_ahead_ = source_->next_at().value_or(Time{0});
  return Ok{};
}

Status ServingSite::build(NodeSockets sockets) {
  Members members = job_.members();
  members[options_.rank].incarnation = options_.rejoin ? 1 : 0;
  members_ = std::make_shared<const Members>(std::move(members));
  auto parts = FocusParts::load(job_);
  if (!parts) return parts.error();
  parts_ = *std::move(parts);
  auto learner = parts_->make_learner(options_.rank);
  if (!learner) return learner.error();
  learner_ = *std::move(learner);
  auto config = parts_->node_config(options_.rank, *learner_);
  if (!config) return config.error();
  if (parts_->has_real_models() && !options_.program.empty()) {
    trials_.emplace(
        [this](const focus::GivenModel& model, std::stop_token stop) {
          return parts_->try_given(model, options_.program, std::move(stop));
        },
        [this] { loop_->give(Arrived{}); });
    config->try_model = [this](const auto& model) { return trials_->result(model); };
  }
  made_ = std::make_unique<focus::FocusNode>(*config);
  strategy_ = made_.get();
  if (!options_.force) LH_TRY(follow_job(options_.folder, job_));
  auto folder =
      RunFolder::open(options_.folder, job_,
                      options_.force ? ExistingFolder::force : ExistingFolder::resume_or_begin);
  if (!folder) return folder.error();
  folder_ = *std::move(folder);
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
  auto token = make_token(token_file(options_.folder));
  if (!token) return token.error();
  api_ = std::make_unique<QueryApi>(members_, *std::move(token),
                                    [this](Input input) { loop_->give(std::move(input)); });
  return Ok{};
}

net::EventLoop::Observer ServingSite::observer() {
  return {.on_note = options_.note,
          .on_append = [this](const Append& append) { log_->append(append); },
          .on_reply = [this](const Reply& reply) { api_->reply(reply); },
          .on_tick = [this] { tick(); },
          .stop = [this] { return interrupted() || log_->failure() || api_failure_; }};
}

// Users may ask once all sites are connected.
Status ServingSite::announce() {
  announced_ = true;
  auto port = api_->start(options_.port);
  if (!port) return port.error();
  port_ = *port;
  const nlohmann::ordered_json json = {{"address", fmt::format("127.0.0.1:{}", port_)}};
  LH_TRY(write_atomically(api_file(), json.dump() + "\n"));
  if (options_.note) options_.note(fmt::format("serves http://127.0.0.1:{}/query", port_));
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
  api_->set_status(to_json(summary()).dump());
}

void ServingSite::write_checkpoint() {
  at_checkpoint_ = strategy_->index().objects();
  Buffer state = strategy_->checkpoint();
  if (state.size() <= store::LogFile::kMostState)
    log_->checkpoint(strategy_->appended(), std::move(state));
}

ServeSummary ServingSite::summary() const {
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

Result<ServeSummary> ServingSite::run() {
  const InterruptGuard guard;
  const Status ended = loop_->run(*node_);
  const ServeSummary done = summary();
  api_.reset();
  if (!log_->failure() && done.objects > at_checkpoint_) write_checkpoint();
  LH_TRY(log_->close());  // what was appended is written
  if (!loop_->peers().listening()) folder_->discard();
  if (api_failure_) return *api_failure_;
  if (!ended && !done.interrupted) return ended.error();
  return done;
}

}  // namespace

nlohmann::ordered_json to_json(const ServeSummary& s) {
  return {{"site", s.site},
          {"address", s.address},
          {"time_s", s.time_s},
          {"objects", s.objects},
          {"clusters", s.clusters},
          {"cheap_objects", s.cheap},
          {"accurate_objects", s.accurate},
          {"dropped", s.dropped},
          {"acknowledged", s.acknowledged},
          {"wan_bytes", s.wan_bytes},
          {"model", s.model},
          {"indexes_with", s.indexes_with},
          {"open_queries", s.open_queries}};
}

Result<ServeSummary> serve_site(const Job& job, const ServeOptions& options) {
  auto sockets =
      node_sockets(job, options.rank, options.addresses, options.listening, options.security);
  if (!sockets) return sockets.error();
  auto site = ServingSite::make(job, options, *std::move(sockets));
  if (!site) return site.error();
  return (*site)->run();
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
