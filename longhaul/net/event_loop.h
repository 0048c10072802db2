#pragma once
// EventLoop is the Host of real runs: it carries out the actions of one node over sockets.
//
// Threads: all methods and callbacks on the caller's thread; learner steps on a compute thread,
// scores on another. The loop never waits for them.
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

// Settings of consistent checkpoints (see link.h). A run resumes from the newest that all nodes
// have.
struct CheckpointConfig {
  Round every = 0;  // rounds between checkpoints; 0: only before a stop
  // A worker at the end of the run, or any node after this round, keeps no checkpoint. A run that
  // resumes with more rounds needs a state in which all nodes continue.
  Round last_round = Round(-1);
  std::uint64_t newest = 0;   // number on this node's disk; 0: none, start from the beginning
  View view = {};             // view in that checkpoint
  bool has_before = false;    // the previous checkpoint is on disk, too
  std::uint32_t members = 0;  // nodes of the job in that checkpoint; 0: as many as now
  // Time that a node which must stop waits for the other nodes' checkpoint. Its own disk writes do
  // not count.
  Time stop_within = std::chrono::seconds(5);
  // Called on the caller's thread. The returned function writes the state to disk on another
  // thread, and is called again after an Error such as a full disk.
  std::function<std::function<Status()>(std::uint64_t number, Buffer state)> save = {};
  // Returns the state of `number`, from which all nodes resume, and discards later ones. 0: no
  // state.
  std::function<Result<Buffer>(std::uint64_t number)> load = {};
};

// Votes of this node's membership (Host::keep), kept for the node's next process.
struct KeptVotes {
  Rank rank = 0;           // owner of the votes
  std::uint64_t life = 0;  // run of the votes; they count in no other
  std::vector<std::uint8_t> votes;
  LONGHAUL_FIELDS(rank, life, votes)
};

struct EventLoopConfig {
  PeersConfig peers;
  CheckpointConfig checkpoints = {};
  std::optional<KeptVotes> votes = {};  // votes of the previous process
  // Makes votes durable, on its own thread; empty: they are lost with the process.
  std::function<Status(const KeptVotes&)> keep = {};
  std::function<void()> on_thread_start = {};  // called on each computing thread
  Pace::Duration step_time = {};               // duration of steps; see pace.h
  // Returns the digest of this node's final model, for comparison by other nodes; empty: no digest.
  std::function<std::uint64_t()> model_digest = {};
};

class EventLoop final : public longhaul::Host, private Peers::Events {
 public:
  using Scorer = std::function<Result<Evaluation>(std::span<const float>)>;
  struct Observer {
    // Called when a report of this node is scored; with Place::own_tests, by its own part.
    std::function<void(Time, Round, const Snapshot&, const Evaluation&)> on_report = {};
    // Called with the score of a report of `from`; with Place::own_tests, with the sum on all
    // nodes.
    std::function<void(Time, Rank from, Round, const Evaluation&)> on_score = {};
    std::function<void(Time, const Record&)> on_record = {};
    // Called with the values of other nodes' loops.
    std::function<void(Rank from, Round, double norm)> on_contributed = {};
    std::function<void(const std::string&)> on_warning = {};
    std::function<void(const std::string&)> on_note = {};  // one line for the user
    std::function<void(Time, const View&)> on_view = {};   // the members have changed
    // For strategies that index growing data, see Host. Answers arrive by give(). Empty: refused.
    std::function<void(const Append&)> on_append = {};
    std::function<void(const Reply&)> on_reply = {};
    std::function<void()> on_tick = {};  // periodically
    // Called at each tick of the run. Returns true to take a checkpoint as soon as possible.
    std::function<bool()> checkpoint = {};
    // Called at each tick. Returns true to end the run with an Error after a last checkpoint
    // (CheckpointConfig::stop_within).
    std::function<bool()> stop = {};
  };
  static constexpr Time kShutdownTimeout = std::chrono::seconds(5);
  struct Counters {
    Time time{0}, computing{0};                     // since all nodes were connected
    std::uint64_t wan_bytes = 0, wan_messages = 0;  // sent to other sites
    Pace::Figures pace;
  };

  // `learner`: nullptr if the node has none. The learner must outlive this object.
  EventLoop(EventLoopConfig, Place, Learner* learner, Scorer, Observer);
  ~EventLoop() override;

  Peers& peers() { return peers_; }
  // Connects to all nodes, so that words() is complete before the node is built. run() calls it if
  // the caller has not. Errors: as run()'s.
  Status meet();
  // Sends all connected nodes the reason why no node can run. Must be called after meet().
  void part(const Error& why) { peers_.leave(why, kShutdownTimeout); }
  const Words& words() const { return peers_.words(); }  // see PeersConfig
  // Runs the node to its end. Errors: an unreachable or lost peer, with the reason; a failure of
  // the strategy or the learner.
  Status run(Node&);
  // Returns true if run() failed only because the run continues without this process. The node may
  // rejoin.
  bool left_out() const { return left_out_; }
  // Returns true if this node can be in no run, or no live node has the state. The node should
  // resume as the others do.
  bool must_resume() const { return must_resume_; }
  // Returns the digests of other nodes' final models, as far as received. Requires
  // EventLoopConfig::model_digest; valid after run().
  const std::map<Rank, std::uint64_t>& ends() const { return ends_; }
  // Returns true if the agreed checkpoint cannot be resumed. Another attempt would fail in the same
  // way.
  bool cannot_go_on() const { return cannot_go_on_; }

  // Sends to other loops during the run. tell_contributed(): the norm of this node's contribution,
  // to the senior worker, the largest of 50 ms. warn_all(): a warning for the users of all nodes.
  void tell_contributed(Round, double norm);
  void warn_all(const std::string& text);
  // Passes an input of the node's source, users or disk (core/input.h) to the node. Can be called
  // from any thread. Inputs before the node's start and after its end are dropped.
  void give(Input);
  std::size_t held() const { return held_.size(); }  // for tests: messages that wait for a disk
  // Breaks every connection. For tests; can be called from any thread.
  void break_connections();
  Time now() const { return loop_.now() - started_; }
  Counters counters() const;  // until now, or the end of the run
  // Adds the traffic and computing time of an earlier process of this node. Must be called before
  // run(). Ignored if the run resumes a state, which has its own counts, or begins again.
  void count_on(const Counters& before);
  // Current activity of the node, for diagnosis.
  struct Doing {
    std::string state;                          // meeting, computing, waiting, writing, parting
    std::string waits_for;                      // cause of the wait, if any
    std::vector<Rank> awaited;                  // nodes that it waits for while it meets or parts
    std::vector<std::pair<Rank, Time>> silent;  // members with their time of silence
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
  void deliver_step();  // passes the finished step to the node
  void score(Round, Snapshot);
  void hold(Send);
  void write_votes();
  void kept(const Status&);
  void lose_state(const Error&);
  // Messages between loops.
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
  // Checkpoints. Must be called from the loop itself: while a link delivers messages, those already
  // count as received.
  void checkpoint_if_due();
  bool take_checkpoint(std::uint64_t number);
  void note_request();
  // Shared, because the write can be retried.
  using Write = std::shared_ptr<const std::function<Status()>>;
  void write_checkpoint(std::uint64_t number, Write);
  void checkpoint_written(std::uint64_t number, Write, const Status&);
  bool at_end() const {
    return (place_.me().is(Role::worker) && node_->at_end()) ||
           node_->strategy().rounds_done() >= checkpoints_.last_round;
  }
  // Returns false if it only waits to repeat a failed write.
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
  std::map<Rank, std::optional<Round>> scores_of_;  // newest round by rank, from other nodes
  bool leaves_ = false;                             // this node has failed
  bool stepping_ = false;                           // the learner computes
  Pace pace_;
  Timer step_timer_;           // fires when the finished step is due
  bool in_step_turn_ = false;  // the node is in the turn in which a step ends
  std::optional<StepResult>
      undelivered_step_;        // finished, but not yet delivered; part of a checkpoint
  Time started_{0}, ended_{0};  // started_ may be before the loop's zero in a resumed run
  Counters counters_;
  CheckpointConfig checkpoints_;
  CheckpointProgress own_checkpoints_;
  std::uint64_t wanted_checkpoint_ = 0;  // checkpoint to take as soon as the learner rests
  Round rounds_at_checkpoint_ = 0;
  std::uint64_t last_checkpoint_ = 0;   // last checkpoint before this node stops
  bool checkpoint_asked_ = false;       // by Observer::checkpoint
  std::uint64_t asked_checkpoint_ = 0;  // newest checkpoint that answers the request
  std::uint32_t writes_ = 0;            // checkpoints being written
  std::optional<Timer> save_again_;     // retry of a failed write
  std::optional<Time> stopping_;        // latest time to stop
  bool met_ = false, connected_ = false, running_ = false, finished_ = false, left_out_ = false;
  bool cannot_go_on_ = false;
  bool must_resume_ = false;
  std::optional<Error> failure_;
  std::map<Rank, std::string> troubles_;  // reason why a peer is silent
  std::optional<KeptVotes> votes_;
  const std::function<Status(const KeptVotes&)> keep_;
  bool keeping_ = false;              // votes are being written
  std::optional<KeptVotes> to_keep_;  // newest votes, while older ones are being written
  std::deque<Send> held_;             // messages of membership that wait for the votes; see hold()
  bool cannot_keep_ = false;
  Round contributed_round_ = 0;
  double contributed_norm_ = -1;                              // not sent yet; below 0: none
  std::unique_ptr<TaskThread> keeper_, scoring_, computing_;  // last: tasks use the members above
};

}  // namespace longhaul::net
