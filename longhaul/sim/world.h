#pragma once
// A World is a Host whose clock jumps to the next event. It owns the nodes and the network. Real
// steps run on a thread pool while virtual time passes; the World waits for each at its virtual
// end. So a run is a function of (job, seed), whatever the number of threads.
//
// Events at one time happen in this order: network events, then the events requested first. One
// thread; the learners' steps and the scorer run on the pool.
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "longhaul/core/node.h"
#include "longhaul/sim/compute_time.h"
#include "longhaul/sim/event_queue.h"
#include "longhaul/sim/faults.h"
#include "longhaul/sim/network.h"
#include "longhaul/sim/thread_pool.h"
#include "longhaul/sim/watcher.h"

namespace longhaul::sim {

struct WorldConfig {
  unsigned threads = 1;  // besides the caller's, which takes steps while it waits for one
  std::set<std::pair<std::uint32_t, std::uint32_t>> relayed = {};  // site pairs whose traffic
                                                                   // passes a third site
  double wire_scale = 1;  // factor on bulk bytes on the wire, not on control messages; > 0
  Time detect = std::chrono::seconds(10);  // from a break to the report to both nodes
  // The run is stuck if it has no step, no bulk in flight and no completed round for this long.
  // Nodes may still exchange messages (timers that repeat requests).
  Time patience = std::chrono::hours(1);
  std::string repeat;  // the seed and the command that repeats the run, printed with every failure
  Time disk = std::chrono::milliseconds(1);  // from Host::append until the record is durable
  // A crash leaves the first half of the oldest record that was not durable yet; else none of it.
  bool tears_writes = false;
  std::function<void()> on_thread_start = {};  // on each thread of the pool
};

// Callbacks to the embedding program, on its own thread. Each may be empty.
struct Observer {
  // Called when a report is scored; with Place::own_tests, by the node's own part, before on_sum.
  std::function<void(Time, Rank, Round, const Snapshot&, const Evaluation&)> on_report = {};
  std::function<void(Time, Rank, Rank senior, Round, const Evaluation&)> on_sum = {};
  std::function<void(Time, Rank, const Record&)> on_record = {};
  std::function<void(Time, Rank, Round done)> on_round = {};  // rounds_done() has grown
  std::function<void(Time, Rank at, Rank from, const Error&)> on_bad_message = {};
  std::function<void(Time, Rank, const Reply&)> on_reply = {};
  // Called when the node changes to a view with other members.
  std::function<void(Time, Rank, const View&)> on_view = {};
  // Called when the node has left the run; the others continue.
  std::function<void(Time, Rank, const std::string& why)> on_lost = {};
};

struct Counters {
  std::uint64_t events = 0;
  std::uint64_t messages = 0;   // between nodes; a run of phantom chunks counts each chunk
  std::uint64_t wan_bytes = 0;  // between sites, without retransmissions
  std::uint64_t wan_messages = 0;
  std::uint64_t lan_bytes = 0;  // between nodes of a site
  std::uint64_t bad_messages = 0;
  void state(auto& ar) { ar(events, messages, wan_bytes, wan_messages, lan_bytes, bad_messages); }
};

struct NodeFigures {
  std::uint64_t steps = 0;     // started steps
  Time computing{0};           // in steps that have ended
  std::uint64_t wan_sent = 0;  // bytes
  std::uint64_t wan_received = 0;
  std::optional<Time> finished_at = {};
  bool crashed = false;
  void state(auto& ar) { ar(steps, computing, wan_sent, wan_received, finished_at, crashed); }
};

class World final : public Host {
 public:
  // Scores a whole flat vector on the test set of a node. Runs on the pool, never two calls at
  // once. Empty: every score is the default Evaluation.
  using Scorer = std::function<Result<Evaluation>(Rank, std::span<const float>)>;
  enum class Ended : std::uint8_t { finished, until, stopped };

  World(WorldConfig, std::unique_ptr<Network>, std::unique_ptr<ComputeTime>, Scorer scorer = {});
  ~World() override;  // waits for running steps

  // Adds a node. Ranks must ascend from 0, and all nodes must be added before the run. The learner
  // may be nullptr and must outlive the world.
  void add(Place, std::unique_ptr<Strategy>, Learner*);
  void observe(Observer observer) { observer_ = std::move(observer); }
  void watch(Watcher& watcher) { watchers_.push_back(&watcher); }  // must outlive the world
  // Schedules an input of the node's source or its users (core/input.h: Arrived, Requested). `at`
  // must not be in the past.
  void give(Rank, Time at, Input);
  // Returns the log on the node's disk; after a crash, the records that survived it.
  const std::vector<Bytes>& durable(Rank) const;
  void inject(const Fault&);  // before or during the run; not into the past
  // Restarts a crashed node now, with a new incarnation that asks the others for admission.
  // `forgets`: its disk is lost, and so is all data that the node had kept. Such a world cannot be
  // saved.
  void restart(Place, std::unique_ptr<Strategy>, Learner*, bool forgets = false);

  // Runs until all live nodes have finished, until the next event is later than `until`, or until
  // request_stop(). now() is then `until` in the second case. An Error ends the run permanently:
  //   unavailable  a node called fail(), or no node is left
  //   timed_out    no progress: lists the cause of each node's wait
  //   others       from a learner, the scorer or a watcher
  Result<Ended> run(Time until = kForever);
  // Handles one event. Returns false if run() would return. State may be saved or loaded between
  // events.
  Result<bool> step(Time until = kForever);
  // Makes run() return before the next event. Can be called from any thread or a signal handler.
  void request_stop() { stop_ = true; }

  Time now() const { return now_; }
  bool finished() const { return started_ && unfinished_ == 0; }
  std::uint32_t size() const { return std::uint32_t(slots_.size()); }
  Node& node(Rank);
  const Node& node(Rank) const;
  const NodeFigures& figures(Rank) const;
  const Counters& counters() const { return counters_; }
  // Returns the mean, over nodes with a learner, of computing time / time until the end (or now).
  double compute_utilisation() const;
  // Returns a line for each unfinished node: "rank 2 (tokyo): round 7: parts of ranks 0 5".
  std::string waiting_for() const;

  // Saves or loads clock, events, network, nodes with their learners, and watchers. Waits for
  // running steps and keeps their results. Load into a freshly built World of the same job, which
  // then continues bit-identically. After a failed load the world must not be used.
  void state(Archive&);

  // Host; called by the nodes.
  void send(Rank from, Send) override;
  void set_timer(Rank node, const SetTimer&) override;
  void cancel_timer(Rank node, const CancelTimer&) override;
  void compute(Rank node, ComputeStep) override;
  void report(Rank node, Report) override;
  void summed(Rank node, Rank senior, Round, const Evaluation&) override;
  void record(Rank node, const Record&) override;
  void append(Rank node, const Append&) override;
  void reply(Rank node, const Reply&) override;
  void finish(Rank node) override;
  void fail(Rank node, const Error&) override;
  void follow(Rank node, const View& before, const View& now) override;
  void keep(Rank node, const Buffer& votes) override;

 private:
  struct Event {
    enum class Kind : std::uint8_t {
      start,
      timer,
      stepped,
      scored,
      given,                // an input of the node's source or users
      stored,               // a record is durable
      held,                 // a network event deferred to the end of a pause
      report_reachability,  // report that a peer is unreachable or reachable
      fault_begins,
      fault_ends,
      detect,         // a disconnection has lasted config.detect
      rejoin_request  // a restarted node asks the others to admit it
    };
    Kind kind{};
    Rank rank = 0;
    std::uint32_t a = 0;  // timer: its machine; detect, report_reachability: the peer
    std::uint64_t b = 0;  // timer: its id; given, stored, scored, held, detect: a number;
                          // report_reachability: 1 if unreachable; fault_*: index of the fault
    void state(auto& ar) { ar(kind, rank, a, b); }
  };
  using Entry = EventQueue<Event>::Entry;
  template <class T>
  struct Task;  // a value that the pool computes
  struct Scoring;
  struct Slot;            // a node and the host's data about it
  struct Disconnection {  // lost contact of two nodes
    std::uint32_t causes = 0;
    std::uint64_t number = 0;  // identifies a disconnection of the pair
    bool reported = false;
    void state(auto& ar) { ar(causes, number, reported); }
  };

  std::string name_of(Rank) const;
  void start();
  void fail_run(Error);  // the first reason counts
  Error stuck() const;
  bool is_stalled() const;
  void check_loaded(Archive&) const;

  // The loop.
  template <class Input>
  void feed(Rank, Input&& input);
  bool is_stale(const Entry&) const;
  bool defer(const Entry&);
  bool defer(NetworkEvent&, Time at);
  void take(const Entry&);
  void take(NetworkEvent);
  void deliver_step(Rank);
  void deliver_stored(Rank, std::uint64_t number);
  void deliver_score(std::uint64_t number);

  // Actions of nodes.
  void notify_watchers(Rank, const Action&);
  Packet to_packet(Rank from, Send);  // also counts it

  // Faults.
  void begin_due_faults();
  void begin(std::uint64_t fault);
  void end(std::uint64_t fault);
  void crash(Rank, const std::string& why);
  void cut_direction(Rank from, Rank to, bool cut);
  void lose_contact(Rank, Rank);
  void regain_contact(Rank, Rank);
  void detect(const Event&);
  void report_reachability(Rank, Rank peer, bool unreachable);

  // Restarted nodes.
  void rejoin_request(Rank);
  bool not_connected(Rank a, Rank b) const { return not_connected_.contains(std::minmax(a, b)); }
  bool connect(Rank, Rank);
  bool may_send(Rank from, Rank to, const Message&) const;
  bool cuts(Rank from, Rank to) const {
    const auto times = cuts_.find({from, to});
    return times != cuts_.end() && times->second > 0;
  }

  const WorldConfig config_;
  std::unique_ptr<Network> network_;
  std::unique_ptr<ComputeTime> compute_time_;
  Scorer scorer_;
  Observer observer_;
  std::vector<Watcher*> watchers_;
  std::vector<std::unique_ptr<Slot>> slots_;
  std::map<std::string, std::uint32_t> sites_;
  std::atomic<bool> stop_ = false;
  std::optional<Error> failure_;
  std::string refused_;  // last refused message, with the reason
  std::set<std::pair<Rank, Rank>>
      not_connected_;  // no connection since one restarted; lower rank first
  std::set<std::pair<Rank, Rank>> strangers_;  // connected, but one is not admitted yet

  // All members below are archived.
  Time now_{0};
  bool started_ = false;
  std::uint32_t unfinished_ = 0;
  Time progress_at_{0};          // time of the last step, bulk message or round
  std::uint32_t computing_ = 0;  // running steps
  EventQueue<Event> queue_;
  std::map<std::uint64_t, std::shared_ptr<Scoring>> scorings_;
  std::map<std::uint64_t, NetworkEvent> held_;  // for paused nodes
  std::map<std::uint64_t, Input> given_;        // future inputs
  std::uint64_t number_ = 0;  // next number of a scoring, input, held notice or break
  std::vector<Fault> faults_;
  std::set<std::pair<std::uint64_t, std::uint64_t>> by_event_;     // event number, fault
  std::map<std::pair<Rank, Rank>, std::uint32_t> cuts_;            // ordered pairs: number of cuts
  std::map<std::pair<Rank, Rank>, Disconnection> disconnections_;  // lower rank first
  Counters counters_;

  std::mutex scoring_;  // one score at a time
  ThreadPool pool_;     // last: its tasks use the members above
};

}  // namespace longhaul::sim
