#pragma once
// TestJob runs whole nodes with strategies on quadratic learners, without clock or network: steps
// and messages take no time and come in the order they were asked for. Its overlay double sends
// everything to all of the group; real overlays are tested in overlay/ and tests/.
#include <concepts>
#include <deque>
#include <functional>
#include <map>
#include <string>

#include "longhaul/core/node.h"
#include "longhaul/core/registry.h"
#include "longhaul/sync/testing/one_node.h"

namespace longhaul::sync::testing {

using longhaul::testing::Quadratic;

class TestJob final : public Host {
 public:
  struct Config {
    std::string sync = "bsp";
    std::vector<Setting> settings = {};       // of [sync]
    std::vector<Setting> outer = {};          // of [outer]
    std::vector<Setting> codec = {};          // of [codec]
    std::optional<Rank> server = {};          // of [roles]
    std::vector<Quadratic::Config> learners;  // one a rank
    // Makes the learner of a rank. Null: a Quadratic of `learners`, which is one a rank anyway.
    std::function<std::unique_ptr<Learner>(Rank)> make_learner = {};
    std::vector<std::uint8_t> roles = {};  // one a rank; empty: all workers
    std::uint64_t size = 8;
    StopConfig stop = {.max_rounds = 5};
    std::uint64_t seed = 1;
    // How many events of others pass before a step of this rank is done. Null: none.
    std::function<int(Rank)> takes = {};
    // [optimizer] schedule, of strategies that apply gradients themselves. Null: 1.
    std::function<double(std::uint64_t step)> rate_share = {};
    // Scores a model, in place of a test set.
    std::function<Evaluation(const std::vector<float>&)> score = {};
  };

  explicit TestJob(Config config);
  // A job that has run to its end.
  static TestJob ended(Config config, std::uint64_t most = 100000) {
    return TestJob(std::move(config), most);
  }
  // Events until none is left; `most` guards against a run without end.
  void run(std::uint64_t most = 100000);
  void crash(Rank rank);  // the others lose touch with it
  // The same after so many events from the start; 0: never.
  void crash_at(std::integral auto events, Rank rank) { crashes_.emplace(events, rank); }
  std::vector<Rank> live() const;
  // Saves all nodes and learners, makes new ones and loads them.
  void save_and_load();

  Quadratic& learner(Rank rank) { return dynamic_cast<Quadratic&>(any_learner(rank)); }
  Learner& any_learner(Rank rank) { return *learners_.at(rank); }
  Node& node(Rank rank) { return *nodes_.at(rank); }
  std::vector<float> params(Rank rank) {
    const auto x = any_learner(rank).params();
    return {x.begin(), x.end()};
  }

  std::map<Rank, std::string> failures;
  std::map<Rank, int> finished;
  std::map<Rank, std::uint64_t> steps;  // computed with a batch
  std::map<std::pair<Rank, std::string>, std::vector<std::pair<Round, double>>> records;
  std::vector<Round> reports;
  std::vector<std::string> errors;  // answers of nodes to messages
  std::function<void()> after_event;

  void send(Rank from, Send) override;
  void set_timer(Rank, const SetTimer&) override {}
  void cancel_timer(Rank, const CancelTimer&) override {}
  void compute(Rank node, ComputeStep) override;
  void report(Rank node, Report) override;
  void record(Rank node, const Record&) override;
  void finish(Rank node) override { ++finished[node]; }
  void fail(Rank node, const Error& error) override { failures[node] = error.what; }

 private:
  struct Event {
    Rank node = 0;
    std::function<void()> happens;
  };
  TestJob(Config config, std::uint64_t most) : TestJob(std::move(config)) { run(most); }
  std::unique_ptr<Learner> new_learner(Rank rank) const;
  void make_node(Rank rank);
  void step_after(int passes, Rank node, ComputeStep step);

  const Config config_;
  Place place_;
  std::vector<std::unique_ptr<Learner>> learners_;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::vector<bool> alive_;
  std::deque<Event> events_;
  std::uint64_t happened_ = 0;
  std::multimap<std::uint64_t, Rank> crashes_;
};

// No node has failed, and none has answered a message with an error.
void expect_no_errors(const TestJob&);
// The same; and all live nodes have finished with one model, after so many rounds.
void expect_ended_alike(TestJob&, std::optional<Round> rounds = {});

// What a strategy is made of here: no outer optimiser, numbers as they are.
SyncParts plain_parts(const Place&);
const SyncEntry& strategy_named(std::string_view name);
// Can it be made of these settings, at the first of these nodes? Else the Error.
Status status_of(std::string_view name, std::vector<Setting> settings,
                 Members members = {{"oregon"}});

// A job of these workers, without codec and outer optimiser.
TestJob::Config plain_job(std::string sync, std::vector<Setting> settings,
                          std::vector<Quadratic::Config> learners, Round rounds);

// `n` learners like this one, each with a target of its own: k^2 of the k-th.
std::vector<Quadratic::Config> learners(std::uint32_t n, Quadratic::Config like);

// |a - b| <= share (1 + |b|) of each element.
void expect_near(std::span<const float> a, std::span<const float> b, double share);

// Runs the job as it is, and again with everything saved and loaded after every event (in the gate
// after some 25 of them). "" if both end with equal bits and equal reports on all nodes, else the
// difference.
std::string changed_by_saving(const TestJob::Config&);

// The double, in registries' form.
std::unique_ptr<Overlay> everyone_to_everyone();

}  // namespace longhaul::sync::testing
