#pragma once
// EventLoop is the Host of real runs: it carries out the actions of one node over sockets.
//
// Threads: all methods and callbacks on the caller's thread; steps of the learner on a compute
// thread, scores on another. The loop never waits for them.
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "longhaul/base/archive.h"
#include "longhaul/core/node.h"
#include "longhaul/net/pace.h"
#include "longhaul/net/peers.h"
#include "longhaul/net/task_thread.h"

namespace longhaul::net {

struct Contributed;
struct Ends;
struct Leaves;
struct Warns;

// Consistent checkpoints of all nodes (see link.h); a run resumes from the newest that all have.
struct CheckpointConfig {
  Round every = 0;  // rounds between two; 0: only before a stop
  // None is kept of a worker that is through with the run, or of any node that has done this round:
  // who resumes with more rounds needs a state in which all go on.
  Round last_round = Round(-1);
  std::uint64_t newest = 0;   // on this node's disk; 0: none, start from the beginning
  View view = {};             // in it
  bool has_before = false;    // and the one before it is there, too
  std::uint32_t members = 0;  // nodes of the job that it is of; 0: as many as now
  // How long a node that must stop waits for the other nodes' checkpoint. The time in which its own
  // disk writes does not count.
  Time stop_within = std::chrono::seconds(5);
  // Called on the caller's thread; the returned function writes the state to disk on another. After
  // an Error, as of a full disk, it is called again.
  std::function<std::function<Status()>(std::uint64_t number, Buffer state)> save = {};
  // All nodes resume from `number`: returns its state and discards later ones. 0: no state.
  std::function<Result<Buffer>(std::uint64_t number)> load = {};
};

// What the membership of this node must not forget (Host::keep), for its next process.
struct KeptVotes {
  Rank rank = 0;           // whose they are
  std::uint64_t life = 0;  // of the run; they count in no other
  std::vector<std::uint8_t> votes;
  LONGHAUL_FIELDS(rank, life, votes)
};

struct EventLoopConfig {
  PeersConfig peers;
  CheckpointConfig checkpoints = {};
  std::optional<KeptVotes> votes = {};  // of the process before
  // Makes them durable, on a thread of its own; empty: they are lost with the process.
  std::function<Status(const KeptVotes&)> keep = {};
  std::function<void()> on_thread_start = {};  // on each thread that computes
  Pace::Duration step_time = {};               // duration of steps; see pace.h
  // Of the model that this node ends with, for the others to compare; empty: nothing is told.
  std::function<std::uint64_t()> model_digest = {};
};

class EventLoop final : public longhaul::Host, private Peers::Events {
 public:
  using Scorer = std::function<Result<Evaluation>(std::span<const float>)>;
  struct Observer {
    // A report of this node is scored; with Place::own_tests by its own part.
    std::function<void(Time, Round, const Snapshot&, const Evaluation&)> on_report = {};
    // What `from` has had scored; with Place::own_tests the sum, which all hear.
    std::function<void(Time, Rank from, Round, const Evaluation&)> on_score = {};
    std::function<void(Time, const Record&)> on_record = {};
    // What other loops tell.
    std::function<void(Rank from, Round, double norm)> on_contributed = {};
    std::function<void(const std::string&)> on_warning = {};
    std::function<void(const std::string&)> on_note = {};  // for the user, one line
    std::function<void(Time, const View&)> on_view = {};   // the members have changed
    // Of strategies that index growing data: see Host. Answers come by give(). Empty: refused.
    std::function<void(const Append&)> on_append = {};
    std::function<void(const Reply&)> on_reply = {};
    std::function<void()> on_tick = {};  // periodically
    // Asked at each tick of the run: true takes a checkpoint as soon as it can be.
    std::function<bool()> checkpoint = {};
    // Asked at each tick: true ends the run with an Error, after a last checkpoint
    // (CheckpointConfig::stop_within).
    std::function<bool()> stop = {};
  };
  static constexpr Time kShutdownTimeout = std::chrono::seconds(5);
  struct Counters {
    Time time{0}, computing{0};                     // since all nodes were connected
    std::uint64_t wan_bytes = 0, wan_messages = 0;  // sent to other sites
    Pace::Figures pace;
  };

  // `learner`: nullptr for a node without one. Both outlive this.
  EventLoop(EventLoopConfig, Place, Learner* learner, Scorer, Observer);
  ~EventLoop() override;

  Peers& peers() { return peers_; }
  // Connects to all, so that words() are known before there is a node; run() does it where nobody
  // has. Errors: as run()'s.
  Status meet();
  // After meet(), where no node can run for that reason: all that are there hear it.
  void part(const Error& why) { peers_.leave(why, kShutdownTimeout); }
  const Words& words() const { return peers_.words(); }  // see PeersConfig
  // Runs the node to its end. Errors: a peer that could not be reached or was lost, with the
  // reason; a failure of the strategy or the learner.
  Status run(Node&);
  // After run(): the run goes on without this process, whose node may rejoin it, and only that is
  // why run() has failed.
  bool left_out() const { return left_out_; }
  // No run is there that this node could be in, or nobody alive has its state: it should resume, as
  // the others do.
  bool must_resume() const { return must_resume_; }
  // After run(), with EventLoopConfig::model_digest: what the others have ended with, of those
  // heard.
  const std::map<Rank, std::uint64_t>& ends() const { return ends_; }
  // What all have agreed to resume cannot be gone on with: another try would end the same.
  bool cannot_go_on() const { return cannot_go_on_; }

  // While the run lasts, to other loops: the norm of what this node contributes, to the senior
  // worker, the largest of 50 ms; a warning for their users, to all.
  void tell_contributed(Round, double norm);
  void warn_all(const std::string& text);
  // From any thread, while the run lasts: an input of the node's source, users or disk
  // (core/input.h). Dropped before the node has started and after its end.
  void give(Input);
  std::size_t held() const { return held_.size(); }  // for tests: messages that wait for a disk
  // For tests, from any thread: breaks every connection.
  void break_connections();
  Time now() const { return loop_.now() - started_; }
  Counters counters() const;  // up to now, or to the end of the run
  // Before run(): what an earlier process of this node has sent and computed counts, too, unless
  // the run resumes a state, which has counts of its own, or begins anew.
  void count_on(const Counters& before);
  // What the node does now, for whoever asks why nothing happens.
  struct Doing {
    std::string state;                          // meeting, computing, waiting, writing, parting
    std::string waits_for;                      // what, while it waits
    std::vector<Rank> awaited;                  // whom, while it meets or parts
    std::vector<std::pair<Rank, Time>> silent;  // members not heard for so long
  };
  Doing doing() const;

 private:
  // Host
  void send(Rank from, Send) override;
  void set_timer(Rank, const SetTimer&) override;
  void cancel_timer(Rank, const CancelTimer&) override;
  void compute(Rank, ComputeStep) override;
  void report(Rank, Report) override;
  void summed(Rank, Rank senior, Round, const Evaluation&) override;
  void record(Rank, const Record&) override;
  void append(Rank, const Append&) override;
  void reply(Rank, const Reply&) override;
  void finish(Rank) override { finished_ = true; }
  void fail(Rank, const Error&) override;
  void follow(Rank, const View& before, const View& now) override;
  void keep(Rank, const Buffer& votes) override;
  // Peers::Events
  void on_message(Rank from, const Message&) override;
  void on_writable(Rank peer, unsigned service_class) override;
  void on_silent(Rank peer, bool silent, const std::string& trouble) override;
  bool on_checkpoint(Rank peer, std::uint64_t number) override;
  void on_refused(const Error&) override;
  void on_left_out(const Error&, bool lost) override;
  void on_resumes(const Error&) override;
  void on_rejoin_request(Rank) override;
  void on_note(const std::string& text) override;

  void tick();
  void drop_lost();
  Status resume_run();
  void rejoin();
  void remember();
  void on_step_done(Result<StepResult>);
  void deliver_step_when_due();
  void deliver_step();  // tells the node of the step that is done
  void score(Round, Snapshot);
  void hold(Send);
  void write_votes();
  void kept(const Status&);
  void lose_state(const Error&);
  // What loops say to each other.
  template <MessageStruct M>
  void tell(Rank, const M&);
  template <MessageStruct M>
  void tell_all(const M&);
  void say_why_it_leaves();
  void tell_contributed();
  Status take(Rank from, const Message&);
  void take(Rank from, const ScoreSum::Total&);
  void take(Rank from, const Contributed&);
  void take(Rank from, const Warns&);
  void take(Rank from, const Leaves&);
  void take(Rank from, const Ends&);
  void start_timer(std::pair<std::uint32_t, TimerId>, Time at);
  // Checkpoints. Only from the loop itself, not while a link delivers messages: these
  // count as received already.
  void checkpoint_if_due();
  bool take_checkpoint(std::uint64_t number);
  void note_request();
  // Shared: it may be tried again.
  using Write = std::shared_ptr<const std::function<Status()>>;
  void write_checkpoint(std::uint64_t number, Write);
  void checkpoint_written(std::uint64_t number, Write, const Status&);
  bool at_end() const {
    return (place_.me().is(Role::worker) && node_->at_end()) ||
           node_->strategy().rounds_done() >= checkpoints_.last_round;
  }
  // Not while it only tries again what has failed.
  bool disk_is_at_work() const { return writes_ > 0 && !save_again_; }
  void stop_if_asked();
  void state(Archive&);
  bool saved_by_all() const {
    return own_checkpoints_.saved == own_checkpoints_.taken &&
           peers_.saved_by_all(own_checkpoints_.taken);
  }
  bool over() const { return finished_ || failure_; }
  bool running() const { return running_ && !over(); }
  std::string name(Rank) const;

  Loop loop_;
  const Place place_;
  Learner* learner_;
  Scorer scorer_;
  Observer observer_;
  Peers peers_;
  Node* node_ = nullptr;
  Timer tick_;
  struct Due {
    Time at{0};
    Timer timer;
  };
  std::map<std::pair<std::uint32_t, TimerId>, Due> timers_;
  std::vector<std::pair<Round, Snapshot>> scorings_;  // pending, in order
  const std::function<std::uint64_t()> model_digest_;
  std::map<Rank, std::uint64_t> ends_;
  std::map<Rank, std::optional<Round>> scores_of_;  // told by other nodes: the newest
  bool leaves_ = false;                             // this node itself has failed
  bool stepping_ = false;                           // the learner computes
  Pace pace_;
  Timer step_timer_;           // until the finished step is due
  bool in_step_turn_ = false;  // the node is in the turn in which a step ends
  std::optional<StepResult>
      undelivered_step_;        // done, but the node has not been told: inside a checkpoint
  Time started_{0}, ended_{0};  // started_ may be before the loop's zero in a resumed run
  Counters counters_;
  CheckpointConfig checkpoints_;
  CheckpointProgress own_checkpoints_;
  std::uint64_t wanted_checkpoint_ = 0;  // the checkpoint to be taken as soon as the learner rests
  Round rounds_at_checkpoint_ = 0;
  std::uint64_t last_checkpoint_ = 0;   // before this node stops
  bool checkpoint_asked_ = false;       // by Observer::checkpoint
  std::uint64_t asked_checkpoint_ = 0;  // the newest that answers it
  std::uint32_t writes_ = 0;            // checkpoints that are being written
  std::optional<Timer> save_again_;     // a checkpoint that could not be written
  std::optional<Time> stopping_;        // at the latest
  bool met_ = false, connected_ = false, running_ = false, finished_ = false, left_out_ = false;
  bool cannot_go_on_ = false;
  bool must_resume_ = false;
  std::optional<Error> failure_;
  std::map<Rank, std::string> troubles_;  // why there is no contact
  std::optional<KeptVotes> votes_;
  const std::function<Status(const KeptVotes&)> keep_;
  bool keeping_ = false;              // votes are being written
  std::optional<KeptVotes> to_keep_;  // the newest, while older ones are being written
  std::deque<Send> held_;             // messages of membership that wait for that; see hold()
  bool cannot_keep_ = false;
  Round contributed_round_ = 0;
  double contributed_norm_ = -1;                              // not told yet; below 0: none
  std::unique_ptr<TaskThread> keeper_, scoring_, computing_;  // last: they end before what they use
};

}  // namespace longhaul::net
