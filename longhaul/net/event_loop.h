#pragma once
// EventLoop carries out the actions of one node over sockets: the Host of real runs, as sim::World
// is that of simulations. Of two nodes the lower rank dials the other, again and again with a pause
// that grows; whoever is silent for too long is reported to membership, which decides.
//
// Threads: all methods and callbacks on the caller's thread; steps of the learner on a compute
// thread, scores on another. The loop never waits for them.
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "longhaul/base/rng.h"
#include "longhaul/core/node.h"
#include "longhaul/net/greeting.h"
#include "longhaul/net/worker.h"

namespace longhaul::net {

struct EventLoopConfig {
  std::uint64_t job_hash = 0;
  std::uint64_t process = 0;             // unlike that of any other process: a random number
  std::vector<Address> addresses;        // by rank
  Time meet = std::chrono::seconds(60);  // all must be connected within this, or the run fails
  Time retry = std::chrono::milliseconds(50);  // first pause before dialling again; doubles
  Time longest_retry = std::chrono::seconds(2);
  Time heartbeat = std::chrono::seconds(1);
  Time silence = std::chrono::seconds(10);     // without a byte: membership is told
  std::function<void()> on_thread_start = {};  // on each thread that computes
};

class EventLoop final : public longhaul::Host, public Link::Events {
 public:
  using Scorer = std::function<Result<Evaluation>(std::span<const float>)>;
  struct Observer {
    std::function<void(Time, Round, const Evaluation&)> on_report = {};
    std::function<void(Time, const Record&)> on_record = {};
    std::function<void(const std::string&)> on_note = {};  // for the user, one line
  };

  // `learner`: nullptr for a node without one. Both outlive this.
  EventLoop(EventLoopConfig, Place, Learner* learner, Scorer, Observer);
  ~EventLoop() override;

  // Opens this node's port; the address it really has, if that is port 0 of the config.
  Result<std::uint16_t> listen();
  std::uint16_t port() const { return listener_->port(); }  // after listen(); any thread
  // Where others listen, if that was not known when this was made; before run().
  void set_addresses(std::vector<Address> addresses) { config_.addresses = std::move(addresses); }
  // Runs the node, whose host this is, to its end. Errors: who could not be met and why, who was
  // lost, what the strategy or the learner failed of.
  Status run(Node&);

  // For tests: breaks every connection, as a bad network would.
  void break_connections();
  Time now() const { return loop_.now() - started_; }

 private:
  // Host
  void send(Rank from, Send) override;
  void set_timer(Rank, const SetTimer&) override;
  void cancel_timer(Rank, const CancelTimer&) override;
  void compute(Rank, ComputeStep) override;
  void report(Rank, Report) override;
  void record(Rank, const Record&) override;
  void finish(Rank) override { finished_ = true; }
  void fail(Rank, const Error&) override;
  // Link::Events
  void on_message(Rank from, const Message&) override;
  void on_writable(Rank peer, unsigned service_class) override;
  void on_disconnected(Rank peer, const Error& why) override;

  Greeting::Host greeting_host();
  void dial(Rank peer);
  void dial_later(Rank peer);
  void tick();
  void watch(Rank peer, Link&);
  Status meet();
  void part();
  bool over() const { return finished_ || failure_; }
  std::string name(Rank) const;
  void note(const std::string& text) const;

  Loop loop_;
  EventLoopConfig config_;
  const Place place_;
  Identity identity_;
  Learner* learner_;
  Scorer scorer_;
  Observer observer_;
  Node* node_ = nullptr;
  std::unique_ptr<Listener> listener_;
  std::map<Rank, std::unique_ptr<Link>> links_;
  std::map<Rank, Time> pauses_;                  // before dialling again
  std::map<Rank, std::string> troubles_;         // why a peer is not connected
  std::set<Rank> unreachable_;                   // the node has been told
  std::vector<std::pair<Rank, Message>> early_;  // came before the node was started
  std::map<std::pair<std::uint32_t, TimerId>, std::uint64_t> timers_;  // which one counts
  std::uint64_t timers_set_ = 0, dials_ = 0;
  Time started_{0};
  bool running_ = false, finished_ = false;
  std::optional<Error> failure_;
  std::unique_ptr<Worker> scoring_, computing_;  // last: they end before what they use
};

}  // namespace longhaul::net
