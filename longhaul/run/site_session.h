#pragma once
// Internal to run/: one session of one node over sockets. site.h is what others call.
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "longhaul/net/event_loop.h"
#include "longhaul/run/interrupt.h"
#include "longhaul/run/model_files.h"
#include "longhaul/run/node_activity.h"
#include "longhaul/run/recording.h"
#include "longhaul/run/run_log.h"
#include "longhaul/run/site.h"
#include "longhaul/run/site_status.h"
#include "longhaul/run/sockets.h"
#include "longhaul/run/status_file.h"

namespace longhaul::run {

// One run of one node.
class SiteSession {
 public:
  static Result<std::unique_ptr<SiteSession>> make(const Job&, const SiteOptions&, NodeSockets);
  Result<Summary> run();
  // The run goes on without this process, and lets its node rejoin.
  bool left_out() const { return loop_->left_out(); }
  bool must_resume() const { return loop_->must_resume(); }
  void note(const std::string& text) { log_->note(text); }

 private:
  SiteSession(const Job& job, const SiteOptions& options, Workload workload)
      : job_(job),
        options_(options),
        workload_(std::move(workload)),
        models_(job_, workload_, options_.folder) {}
  Status build(NodeSockets);
  void discard_folder() const {
    if (folder_) folder_->discard();
  }
  Status prepare();
  Status meet();
  net::EventLoop::Observer observer();
  Result<net::PeersConfig> peers_of(NodeSockets) const;
  net::Words words() const;
  std::uint64_t live(const View&) const;
  void note_samples(const View&);
  std::optional<BestScore> best_before() const;
  Result<net::CheckpointConfig> checkpoints(bool lets_return);
  net::Pace::Duration pace() const;
  std::function<Status()> save(std::uint64_t number, Buffer state);
  Result<Buffer> load(std::uint64_t number);
  Status keep_facts();
  void compare_ends();
  void warn_others();
  void progress();
  NodeStatus status(bool ended);
  Result<Summary> summary(const Status&);
  Status conclude(Summary&);
  Status conclude(const Evaluation&, Summary&);
  Status keep_summary(const Summary&, bool ended);
  std::span<const float> params() const {
    return learner_ ? learner_->params() : std::span<const float>{};
  }

  const Job& job_;
  const SiteOptions options_;
  Workload workload_;
  ModelFiles models_;
  Workload::NodeScore score_;
  std::shared_ptr<const Members> members_;
  std::vector<bool> lost_;  // by rank, as the view has it
  std::unique_ptr<Learner> learner_;
  std::optional<RunFolder> folder_;
  std::uint64_t newest_ = 0;  // checkpoint there
  CheckpointRequests requests_;
  std::size_t warned_ = 0;  // of the log's warnings, those that others know
  enum class Facts : std::uint8_t { none, unwritten, written } facts_ = Facts::none;  // facts.bin
  bool had_summary_ = false;  // of an earlier session
  std::optional<RunLog> log_;
  std::optional<StatusFile> status_;
  WaitClock wait_clock_;
  std::unique_ptr<net::EventLoop> loop_;
  std::unique_ptr<Node> node_;
  std::unique_ptr<Recording> recording_;
  std::unique_ptr<NodeActivity> activity_;  // if there is a folder
};

}  // namespace longhaul::run
