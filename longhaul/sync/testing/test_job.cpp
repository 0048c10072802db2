#include "longhaul/sync/testing/test_job.h"

#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "longhaul/base/testing/effort.h"
#include "longhaul/codec/registry.h"
#include "longhaul/outer/optimisers.h"
#include "longhaul/outer/registry.h"
#include "longhaul/sync/registry.h"
#include "longhaul/transfer/reliable.h"

namespace longhaul::sync::testing {
namespace {

class EveryoneMean final : public Overlay {
 public:
  struct Part {
    LONGHAUL_MESSAGE(1, "part");
    VectorId key;
    double weight = 0;  // 0: no share
    std::vector<float> values;
    void state(auto& archive) { archive(key, weight, values); }
    LONGHAUL_FIELDS(key, weight, values)
  };

  Status begin(const VectorId& key, const std::vector<Rank>& members, const Contribution& c,
               Turn& turn) override {
    if (c.contributes && !all_finite(c.values))
      return not_finite("not finite; lower [optimizer] rate");
    LH_CHECK(!c.contributes || (c.weight > 0 && c.values.size() == c.length));
    Part part{key, c.contributes ? c.weight : 0, {}};
    if (c.contributes) part.values.assign(c.values.begin(), c.values.end());
    live_ = live_with(Role::worker, turn.place(), turn.view());
    members_[key] = members;
    for (Rank rank : awaited(key))
      if (rank != turn.self()) turn.send(rank, part, {}, kControl);
    parts_[key][turn.self()] = part;
    return Ok{};
  }

  std::optional<Outcome> poll(const VectorId& key) override {
    auto& parts = parts_[key];
    for (Rank rank : awaited(key))
      if (!parts.contains(rank)) return std::nullopt;
    Outcome outcome;
    std::vector<double> sum;
    for (auto& [rank, part] : parts) {
      if (part.weight == 0) continue;
      outcome.counted.insert(rank);
      outcome.weight += part.weight;
      sum.resize(part.values.size());
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += part.weight * double(part.values[i]);
    }
    for (double s : sum) outcome.values.push_back(float(s / outcome.weight));
    parts_.erase(key);
    members_.erase(key);
    return outcome;
  }

  Status on_message(Rank from, const Message& message, Turn&) override {
    return dispatch(MessageList<Part>{}, message, [&](const Part& part) -> Status {
      parts_[part.key][from] = part;
      return Ok{};
    });
  }
  // Only for runs that no longer wait for a node.
  void on_view(const View&, Turn& turn) override {
    live_ = live_with(Role::worker, turn.place(), turn.view());
  }
  void close(std::uint32_t, Turn&) override {}
  std::optional<Round> next_round(std::uint32_t, std::uint32_t) const override { return 0; }
  std::string waiting_for() const override { return "parts"; }
  void state(Archive& ar) override { ar(parts_, members_, live_); }

 private:
  // The live ones of a group; of group 0, of all.
  std::vector<Rank> awaited(const VectorId& key) const {
    const auto known = members_.find(key);
    if (known == members_.end() || known->second.empty()) return live_;
    std::vector<Rank> ranks;
    std::set_intersection(known->second.begin(), known->second.end(), live_.begin(), live_.end(),
                          std::back_inserter(ranks));
    return ranks;
  }

  std::map<VectorId, std::map<Rank, Part>> parts_;
  std::map<VectorId, std::vector<Rank>> members_;
  std::vector<Rank> live_;
};

}  // namespace

std::unique_ptr<Overlay> everyone_to_everyone() { return std::make_unique<EveryoneMean>(); }

const SyncEntry& strategy_named(std::string_view name) {
  return **find_entry(registry(), Settings{}, name);
}

std::function<std::unique_ptr<Strategy>(SyncParts, const Place&)> maker(
    std::string_view name, std::vector<Setting> settings) {
  return [name, settings](SyncParts parts, const Place& place) {
    auto made =
        strategy_named(name).make({"sync", "test.toml", 0, settings}, std::move(parts), place);
    LH_CHECK(made);
    return *std::move(made);
  };
}

SyncParts plain_parts(const Place& place) {
  const auto none = [] { return std::make_unique<outer::None>(outer::NoneConfig{}); };
  SyncParts parts{everyone_to_everyone(), none(), {}};
  parts.make_outer = none;
  parts.transfer = std::make_unique<transfer::Reliable>(place);
  parts.make_transfer = [place] { return std::make_unique<transfer::Reliable>(place); };
  parts.make_codec = [](bool) { return *codec::make_codec({.table = "codec"}, {}, false); };
  parts.rate = 0.1;
  return parts;
}

Status status_of(std::string_view name, std::vector<Setting> settings, Members members) {
  OneNode node(2, {}, std::move(members));
  const auto made = strategy_named(name).make({"sync", "test.toml", 0, std::move(settings)},
                                              plain_parts(node.place), node.place);
  return made ? Status(Ok{}) : made.error();
}

TestJob::Config plain_job(std::string sync, std::vector<Setting> settings,
                          std::vector<Quadratic::Config> learners, Round rounds) {
  return {.sync = std::move(sync),
          .settings = std::move(settings),
          .learners = std::move(learners),
          .stop = {.max_rounds = rounds}};
}

std::vector<Quadratic::Config> learners(std::uint32_t n, Quadratic::Config like) {
  std::vector<Quadratic::Config> all(n, like);
  for (std::uint32_t k = 0; k < n; ++k) all[k].target = float(k * k);
  return all;
}

void expect_near(std::span<const float> a, std::span<const float> b, double share) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i)
    EXPECT_NEAR(a[i], b[i], share * (1 + std::abs(double(b[i])))) << i;
}

void expect_no_errors(const TestJob& job) {
  for (const auto& [rank, why] : job.failures) ADD_FAILURE() << "rank " << rank << ": " << why;
  EXPECT_TRUE(job.errors.empty()) << job.errors.front();
}

void expect_ended_alike(TestJob& job, std::optional<Round> rounds) {
  expect_no_errors(job);
  for (const Rank rank : job.live()) {
    ASSERT_EQ(job.finished[rank], 1) << rank << ": " << job.node(rank).waiting_for();
    EXPECT_EQ(job.params(rank), job.params(job.live()[0])) << rank;
    EXPECT_EQ(job.node(rank).waiting_for(), "");
    const Round done = job.node(rank).strategy().rounds_done();
    EXPECT_EQ(done, rounds.value_or(done)) << rank;
  }
}

std::string changed_by_saving(const TestJob::Config& config) {
  TestJob whole(config), broken(config);
  std::uint64_t events = 0, number = 0;
  whole.after_event = [&] { ++events; };
  whole.run();
  // In the gate after some 25 of them.
  const std::uint64_t every = longhaul::testing::kGate ? (events / 25) | 1 : 1;
  broken.after_event = [&] {
    if (++number % every == 0) broken.save_and_load();
  };
  broken.run();
  for (Rank rank = 0; rank < config.learners.size(); ++rank) {
    const std::string who = "rank " + std::to_string(rank);
    if (whole.finished[rank] != 1 || broken.finished[rank] != 1) return who + " does not finish";
    // Without copies: g++ 12 at -O2 warns of them, falsely (free-nonheap-object).
    if (!std::ranges::equal(whole.any_learner(rank).params(), broken.any_learner(rank).params()))
      return who + " has another model";
  }
  return whole.reports == broken.reports ? "" : "other reports";
}

TestJob::TestJob(Config config) : config_(std::move(config)) {
  Members members;
  for (Rank rank = 0; rank < config_.learners.size(); ++rank) {
    members.push_back({.site = "site" + std::to_string(rank)});
    if (!config_.roles.empty()) members.back().roles = config_.roles.at(rank);
    learners_.push_back(new_learner(rank));
  }
  place_.members = std::make_shared<const Members>(members);
  place_.layout = learners_.at(0)->layout();
  place_.seed = config_.seed;
  nodes_.resize(members.size());
  alive_.assign(members.size(), true);
  for (Rank rank = 0; rank < nodes_.size(); ++rank) {
    make_node(rank);
    events_.push_back({rank, [this, rank] { nodes_[rank]->start(Time{0}); }});
  }
}

std::unique_ptr<Learner> TestJob::new_learner(Rank rank) const {
  if (config_.make_learner) return config_.make_learner(rank);
  return std::make_unique<Quadratic>(config_.size, config_.learners[rank]);
}

void TestJob::make_node(Rank rank) {
  Place place = place_;
  place.self = rank;
  const Settings outer{"outer", "test.toml", 0, config_.outer};
  const Settings sync{"sync", "test.toml", 0, config_.settings};
  auto transform = (*outer::entry_of(outer))->make(outer, place);
  auto entry = find_entry(registry(), sync, config_.sync);
  SyncParts parts{everyone_to_everyone(), *std::move(transform), config_.stop};
  parts.make_outer = [outer, place] { return *(*outer::entry_of(outer))->make(outer, place); };
  parts.transfer = std::make_unique<transfer::Reliable>(place);
  parts.make_transfer = [place] { return std::make_unique<transfer::Reliable>(place); };
  parts.make_codec = [this, place](bool feedback) {
    auto made = codec::make_codec({"codec", "test.toml", 0, config_.codec}, place, feedback);
    LH_CHECK(made);
    return std::move(*made);
  };
  parts.server = config_.server;
  parts.rate = double(config_.learners.at(0).rate);
  parts.rate_share = config_.rate_share;
  parts.plain_sgd = config_.learners.at(0).momentum == 0;
  parts.batch = config_.learners.at(0).factor_rows();
  auto strategy = (*entry)->make(sync, std::move(parts), place);
  Learner* learner = place.me().is(Role::worker) ? learners_[rank].get() : nullptr;
  nodes_[rank] = std::make_unique<Node>(place, *std::move(strategy), learner, *this);
}

void TestJob::run(std::uint64_t most) {
  for (; !events_.empty(); --most) {
    LH_CHECK(most > 0);
    const Event event = std::move(events_.front());
    events_.pop_front();
    if (alive_[event.node]) event.happens();
    ++happened_;
    for (auto [at, end] = crashes_.equal_range(happened_); at != end; ++at) crash(at->second);
    if (after_event) after_event();
  }
}

void TestJob::crash(Rank rank) {
  alive_[rank] = false;
  for (Rank other = 0; other < nodes_.size(); ++other) {
    if (other == rank) continue;
    events_.push_back(
        {other, [this, other, rank] { nodes_[other]->unreachable(Time{0}, rank, true); }});
  }
}

std::vector<Rank> TestJob::live() const {
  std::vector<Rank> ranks;
  for (Rank rank = 0; rank < alive_.size(); ++rank)
    if (alive_[rank]) ranks.push_back(rank);
  return ranks;
}

void TestJob::save_and_load() {
  for (Rank rank = 0; rank < nodes_.size(); ++rank) {
    Archive out;
    nodes_[rank]->state(out);
    learners_[rank]->state(out);
    const Buffer bytes = out.take();
    learners_[rank] = new_learner(rank);
    make_node(rank);
    Archive in(bytes);
    nodes_[rank]->state(in);
    learners_[rank]->state(in);
    LH_CHECK(in.finish());
  }
}

void TestJob::send(Rank from, Send s) {
  if (s.message.is_bulk())
    events_.push_back({from, [this, from, to = s.to, service = s.service.service_class()] {
                         nodes_[from]->writable(Time{0}, to, service);
                       }});
  events_.push_back({s.to, [this, from, s = std::move(s)] {
                       const Status status = nodes_[s.to]->deliver(Time{0}, from, s.message);
                       if (!status) errors.push_back(status.error().what);
                     }});
}

void TestJob::compute(Rank node, ComputeStep step) {
  step_after(config_.takes ? config_.takes(node) : 0, node, std::move(step));
}

void TestJob::step_after(int passes, Rank node, ComputeStep step) {
  events_.push_back({node, [this, passes, node, step = std::move(step)] {
                       if (passes > 0) return step_after(passes - 1, node, step);
                       const auto result = learners_[node]->step(step.work);
                       LH_CHECK(result);
                       if (result->samples > 0) ++steps[node];
                       nodes_[node]->stepped(Time{0}, *result);
                     }});
}

void TestJob::report(Rank node, Report report) {
  reports.push_back(report.round);
  const Evaluation evaluation =
      config_.score && report.model ? config_.score(*report.model) : Evaluation{};
  events_.push_back({node, [this, node, report, evaluation] {
                       nodes_[node]->scored(Time{0}, report.round, evaluation);
                     }});
}

void TestJob::record(Rank node, const Record& r) {
  records[{node, r.name}].emplace_back(r.round, r.value);
}

}  // namespace longhaul::sync::testing
