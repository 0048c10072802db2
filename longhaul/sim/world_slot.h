#pragma once
// What a World keeps for each node. Included by world*.cpp only.
#include <exception>

#include "longhaul/base/queue.h"
#include "longhaul/sim/world.h"

namespace longhaul::sim {

// A value that the pool computes or has computed.
template <class T>
struct World::Task {
  ThreadPool::Ticket ticket = {};  // nullptr: done
  std::optional<T> value = {};
  std::optional<Error> error = {};

  template <class Make>
  void run(Make&& make) {
    try {
      Result<T> result = make();
      result ? (void)(value = std::move(*result)) : (void)(error = result.error());
    } catch (const std::exception& e) {
      error = unavailable(std::string("an exception: ") + e.what());
    }
  }
  void wait(ThreadPool& pool) {
    if (ticket) pool.wait(ticket);
    ticket.reset();
  }
  void state(Archive& ar) {  // after wait()
    bool bad = error.has_value();
    ar(value, bad);
    if (!bad) return error.reset();
    if (ar.loading()) error.emplace();
    ar(error->kind, error->what);
  }
};

struct World::Scoring {
  Rank rank = 0;
  Round round = 0;
  Snapshot model = nullptr;  // not of one that was loaded
  Task<Evaluation> task = {};
  void state(Archive& ar) {
    ar(rank, round);
    task.state(ar);
  }
};

struct World::Slot {
  std::unique_ptr<Node> node = {};
  Learner* learner = nullptr;
  std::uint32_t site = 0;

  std::map<std::pair<std::uint32_t, TimerId>, std::uint64_t> timers = {};  // the event that counts
  std::shared_ptr<Task<StepResult>> running = {};
  Time duration{0};  // of the running step
  Time paused_until{0};
  std::uint64_t held = 0;           // deferred network events
  Round rounds = 0;                 // the last rounds_done() seen
  std::vector<Bytes> durable = {};  // its log
  Queue<Bytes> writing = {};        // appended after that
  Buffer votes = {};                // that its node has kept
  std::uint64_t created_at = 0;     // events before this number belong to an earlier incarnation
  NodeFigures figures = {};

  bool crashed() const { return figures.crashed; }
};

// Every input to a node goes through this.
template <class Input>
void World::feed(Rank rank, Input&& input) {
  Slot& slot = *slots_[rank];
  input(*slot.node);
  if (const Round done = slot.node->strategy().rounds_done(); done > slot.rounds) {
    slot.rounds = done;
    progress_at_ = now_;
    if (observer_.on_round) observer_.on_round(now_, rank, done);
  }
  for (Watcher* watcher : watchers_)
    if (const Status status = watcher->after(*this, rank); !status) fail_run(status.error());
}

}  // namespace longhaul::sim
