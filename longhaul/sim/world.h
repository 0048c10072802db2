#pragma once
// A World is a Host whose clock jumps to the next event. It owns the nodes and the network, takes
// real steps on a thread pool while virtual time goes on, and joins each at its virtual end, so a
// run is a function of (job, seed) whatever the number of threads.
//
// Events at one time happen in this order: what the network tells, then what was asked for first.
// One thread; the learners' steps and the scorer run on the pool.
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
  unsigned threads = 1;  // beside the caller's, which takes steps while it waits for one
  std::set<std::pair<std::uint32_t, std::uint32_t>> relayed = {};  // sites between which a third
                                                                   // passes everything on
  double wire_scale = 1;  // bulk bytes are multiplied on the wire, control is not; > 0
  Time detect = std::chrono::seconds(10);  // from a break to the peers' being told
  // With no step, no bulk under way and no round done for so long the run is stuck, even if nodes
  // keep talking to each other (timers that ask again).
  Time patience = std::chrono::hours(1);
  std::string repeat;  // printed with every failure: the seed and the command that repeats it
  Time disk = std::chrono::milliseconds(1);  // from Host::append to the record's being durable
  // A crash leaves the first half of the oldest record that was not durable yet; else nothing.
  bool tears_writes = false;
  std::function<void()> on_thread_start = {};  // on each thread of the pool
};

// Callbacks to the embedding program, on its own thread. Any may be empty.
struct Observer {
  // A report is scored; with Place::own_tests by the node's own part, and on_sum follows.
  std::function<void(Time, Rank, Round, const Snapshot&, const Evaluation&)> on_report = {};
  std::function<void(Time, Rank, Rank senior, Round, const Evaluation&)> on_sum = {};
  std::function<void(Time, Rank, const Record&)> on_record = {};
  std::function<void(Time, Rank, Round done)> on_round = {};  // rounds_done() has grown
  std::function<void(Time, Rank at, Rank from, const Error&)> on_bad_message = {};
  std::function<void(Time, Rank, const Reply&)> on_reply = {};
  // The node follows a view of other members.
  std::function<void(Time, Rank, const View&)> on_view = {};
  // The node has left the run; the others continue.
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
  std::uint64_t steps = 0;     // begun
  Time computing{0};           // in steps that have ended
  std::uint64_t wan_sent = 0;  // bytes
  std::uint64_t wan_received = 0;
  std::optional<Time> finished_at = {};
  bool crashed = false;
  void state(auto& ar) { ar(steps, computing, wan_sent, wan_received, finished_at, crashed); }
};

class World final : public Host {
 public:
  // Scores a whole flat vector, on the test set of a node. Runs on the pool, never two calls at
  // once. Empty: every score is the default Evaluation.
  using Scorer = std::function<Result<Evaluation>(Rank, std::span<const float>)>;
  enum class Ended : std::uint8_t { finished, until, stopped };

  World(WorldConfig, std::unique_ptr<Network>, std::unique_ptr<ComputeTime>, Scorer scorer = {});
  ~World() override;  // waits for running steps

  // Ranks in ascending order from 0, all of them before the run. The learner may be nullptr and
  // outlives the world.
  void add(Place, std::unique_ptr<Strategy>, Learner*);
  void observe(Observer observer) { observer_ = std::move(observer); }
  void watch(Watcher& watcher) { watchers_.push_back(&watcher); }  // must outlive the world
  // Feeds the node an input of its source or its users then (core/input.h: Arrived, Requested);
  // not into the past.
  void give(Rank, Time at, Input);
  // What the node's disk holds of its log: after a crash, what survived it.
  const std::vector<Bytes>& durable(Rank) const;
  void inject(const Fault&);  // before the run or during it; not into the past
  // Restarts a crashed node now, with a new incarnation, which asks the others to let it in.
  // `forgets`: its disk is lost, and with it what the node had kept. Such a world cannot be saved.
  void restart(Place, std::unique_ptr<Strategy>, Learner*, bool forgets = false);

  // Runs until all live nodes have finished, until the next event is later than `until`, which is
  // now() from then on, or until request_stop(). An Error ends the run for good:
  //   unavailable  a node called fail(), or no node is left
  //   timed_out    no progress: names what each node waits for
  //   others       from a learner, the scorer or a watcher
  Result<Ended> run(Time until = kForever);
  // One event; false: run() would return. State may be saved or loaded between events.
  Result<bool> step(Time until = kForever);
  // From any thread or a signal handler: run() returns before the next event.
  void request_stop() { stop_ = true; }

  Time now() const { return now_; }
  bool finished() const { return started_ && unfinished_ == 0; }
  std::uint32_t size() const { return std::uint32_t(slots_.size()); }
  Node& node(Rank);
  const Node& node(Rank) const;
  const NodeFigures& figures(Rank) const;
  const Counters& counters() const { return counters_; }
  // Mean over the nodes with a learner of computing time / time until they finished (or now).
  double compute_utilisation() const;
  // "rank 2 (tokyo): round 7: parts of ranks 0 5", a line each for nodes that have not finished.
  std::string waiting_for() const;

  // Everything: clock, events, network, nodes with their learners, watchers. Waits for running
  // steps and keeps their results. Load into a freshly built World of the same job, which then
  // continues bit for bit. After a failed load the world must not be used.
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
    std::uint32_t a = 0;  // timer: its machine; detect, tell: the peer
    std::uint64_t b = 0;  // timer: its id; given, stored, scored, held, detect: a number; tell:
                          // unreachable or not; fault_begins, fault_ends: which
    void state(auto& ar) { ar(kind, rank, a, b); }
  };
  using Entry = EventQueue<Event>::Entry;
  template <class T>
  struct Task;  // a value that the pool computes
  struct Scoring;
  struct Slot;            // a node and the host's data about it
  struct Disconnection {  // why two nodes have no contact
    std::uint32_t causes = 0;
    std::uint64_t number = 0;  // tells disconnections of a pair apart
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

  // What nodes ask for.
  void notify_watchers(Rank, const Action&);
  Packet to_packet(Rank from, Send);  // and counted

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

  // Nodes that begin anew.
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
  std::string refused_;  // the last message that a node refused, and why
  std::set<std::pair<Rank, Rank>>
      not_connected_;  // not connected since one restarted; lower rank first
  std::set<std::pair<Rank, Rank>> strangers_;  // are, and one of them is not let in yet

  // All that follows is archived.
  Time now_{0};
  bool started_ = false;
  std::uint32_t unfinished_ = 0;
  Time progress_at_{0};          // the last step, bulk message or round
  std::uint32_t computing_ = 0;  // steps under way
  EventQueue<Event> queue_;
  std::map<std::uint64_t, std::shared_ptr<Scoring>> scorings_;
  std::map<std::uint64_t, NetworkEvent> held_;  // for paused nodes
  std::map<std::uint64_t, Input> given_;        // to come
  std::uint64_t number_ = 0;                    // of scorings, inputs, held notices and breaks
  std::vector<Fault> faults_;
  std::set<std::pair<std::uint64_t, std::uint64_t>> by_event_;     // event number, fault
  std::map<std::pair<Rank, Rank>, std::uint32_t> cuts_;            // ordered pairs: number of cuts
  std::map<std::pair<Rank, Rank>, Disconnection> disconnections_;  // lower rank first
  Counters counters_;

  std::mutex scoring_;  // one score at a time
  ThreadPool pool_;     // last: its threads end before what they use
};

}  // namespace longhaul::sim
