#pragma once
// FedGSync: workers with similar data form groups. A round waits for a quota of each group, not for
// all workers, and weighs groups, not arrivals. Updates that the round waits for are sent first.
//   "FedGSync: jointly optimized weak synchronization and gradient transmission for fast
//   distributed machine learning in heterogeneous WAN" (OpenReview UGpu360ONV). A reconstruction
//   from its abstract: docs/sync/fedgsync.md lists the parts that are not the paper's.
#include <algorithm>
#include <string>
#include <vector>

#include "longhaul/base/fields.h"
#include "longhaul/core/registry.h"
#include "longhaul/sync/grouping/commit.h"
#include "longhaul/sync/grouping/groups.h"
#include "longhaul/sync/grouping/sketch.h"
#include "longhaul/sync/grouping/urgency.h"
#include "longhaul/sync/local_update.h"
#include "longhaul/sync/round_times.h"
#include "longhaul/sync/server/parameter_server.h"
#include "longhaul/sync/server/parameter_server_worker.h"

namespace longhaul::sync {

inline constexpr std::uint32_t kLongestSketch = 4096;

// A worker's part of each pull and push.
struct FedGSyncUpdate {
  LONGHAUL_MESSAGE(1, "update");
  std::uint64_t shard = 0;         // samples that the worker holds; 0: unknown
  std::vector<float> sketch = {};  // sketch of the gradient
  LONGHAUL_FIELDS((shard, .max = 0x1p40), (sketch, .max = kLongestSketch))
};

// The server's part of each model, and of a notice when the class changes meanwhile.
struct FedGSyncModel {
  LONGHAUL_MESSAGE(2, "model");
  std::uint8_t urgency = 0;  // class of the current update, or of the next one; 0 goes first
  bool refused = false;      // whether the update that this answers was refused
  LONGHAUL_FIELDS((urgency, .max = 2), refused)
};

struct FedGSyncConfig {
  std::uint32_t steps = 10;
  std::uint32_t groups = 0;
  double rho = 0.25;
  std::string share = "data";
  std::uint32_t max_staleness = 16;
  double global_rate = 1;
  std::uint32_t regroup = 50;
  std::uint32_t sketch = 256;
  std::uint32_t sketch_batches = 4;
  double round_deadline = 5;
  bool differential = true;
  static void fields(auto& self, auto&& visit) {
    LONGHAUL_KEY(steps, "local steps between two pushes (H)", .min = 1);
    LONGHAUL_KEY(groups, "groups of workers with like data; 0: as many as the data show, up to 8",
                 .max = 1000);
    LONGHAUL_KEY(rho, "share of each group that a round waits for", .max = 1, .positive = true);
    LONGHAUL_KEY(share, "groups count by the samples of their workers, or equally (pi)",
                 .choices = {"data", "equal"});
    LONGHAUL_KEY(max_staleness, "updates from older models are refused (S)", .unit = "versions");
    LONGHAUL_KEY(global_rate,
                 "factor of the groups' mean update when it is added to the model (eta_g)",
                 .max = 10, .positive = true);
    LONGHAUL_KEY(regroup,
                 "rounds until new groups are formed; earlier when a fifth of the workers is lost",
                 .min = 1, .unit = "rounds");
    LONGHAUL_KEY(sketch, "numbers in the sketch of a gradient", .min = 1, .max = kLongestSketch);
    LONGHAUL_KEY(sketch_batches, "batches whose gradients the first sketch is of", .min = 1,
                 .max = 1000);
    LONGHAUL_KEY(round_deadline,
                 "a round that takes this many times the median ends without the groups that miss "
                 "their quota",
                 .min = 1, .max = 1e6);
    LONGHAUL_KEY(differential, "updates that the round waits for go before others on full links");
  }
};

// The server: groups, quotas, commits, and which updates are urgent.
class FedGSyncServer final : public server::ParameterServer {
 public:
  FedGSyncServer(const FedGSyncConfig& config, const server::Setup& setup)
      : ParameterServer(setup), config_(config) {}
  void on_timer(TimerId id, Turn& turn) override {
    if (groups_.empty() || over()) return;
    if (id == kDeadline && turn.now() >= deadline_) end_round(turn);
    classify(turn);
    settle(turn);
  }

  void state(Archive& ar) override {
    ParameterServer::state(ar);
    ar(groups_, pending_, sketches_, samples_, next_, refused_, lost_, began_, deadline_, times_);
    ar(urgencies_, classes_, told_);
    if (!ar.loading()) return;
    const std::size_t size = setup().place.phantom ? 0 : setup().place.layout->size();
    for (const auto& [key, update] : pending_)
      if (update.values.size() != size) ar.fail("holds an update of another size");
  }

  const std::vector<grouping::Group>& groups() const { return groups_; }

 private:
  static constexpr TimerId kDeadline{1}, kLate{2};

  Status check_extension(Rank from, const server::ServerHeader& header) const override {
    if (header.kind == server::ServerHeader::Kind::start)
      return ParameterServer::check_extension(from, header);
    const std::size_t size = setup().place.phantom ? 0 : config_.sketch;
    LH_LET(update, server::from_extension<FedGSyncUpdate>(header.extension));
    if (update.sketch.size() != size || !all_finite(update.sketch))
      return malformed("a sketch that is not of " + std::to_string(size) + " finite numbers");
    return Ok{};
  }

  void on_pull(Rank rank, const server::ServerHeader& header) override {
    const auto update = server::from_extension<FedGSyncUpdate>(header.extension);
    sketches_[rank] = update->sketch;
    samples_[rank] = update->shard;
  }

  // UPDATE(i, r') has arrived.
  Taken commit(Rank from, const server::ServerHeader& header, std::span<const float> values,
               Turn& turn) override {
    on_pull(from, header);
    if (header.version < next_[from]) return Taken::discarded;  // a second copy
    next_[from] = header.version + 1;
    urgencies_.came(from, turn.now());
    const std::uint64_t tau = store().version() - header.version;
    if (tau > config_.max_staleness) {
      refused_.insert(from);
      return Taken::discarded;
    }
    const auto n_i = double(std::max<std::uint64_t>(samples_[from], 1));
    pending_[{from, header.version}] = {n_i * grouping::lateness_weight(tau),
                                        {values.begin(), values.end()}};
    advance(turn);
    return Taken::kept;
  }

  bool may_read(Rank rank) const override { return !pending_.contains({rank, store().version()}); }
  // Called when a first model is sent: all workers have asked for it, and so have sent a sketch.
  void on_model_sent(Rank rank, Turn& turn) override {
    if (groups_.empty()) {
      group(turn);
      began_ = turn.now();
    }
    urgencies_.given(rank, turn.now());
  }

  server::Extension model_extension(Rank rank) override {
    const auto found = classes_.find(rank);
    told_[rank] = found == classes_.end() ? 0 : found->second;
    return server::to_extension(FedGSyncModel{told_[rank], refused_.erase(rank) > 0});
  }

  // Removes a lost worker from the next grouping. Its update of this round stays.
  void drop(Rank rank) override {
    urgencies_.lose(rank);
    sketches_.erase(rank);
    refused_.erase(rank);
    told_.erase(rank);
    ++lost_;
  }

  void on_loss(Turn& turn) override { advance(turn); }
  void on_takeover(Turn& turn) override { set_deadline(began_ = turn.now(), turn); }

  void group(Turn& turn) {
    groups_.clear();
    for (auto& members :
         grouping::group_by_sketch(sketches_, config_.groups, turn.place().seed, rounds()))
      groups_.push_back({.members = std::move(members)});
    grouping::set_shares(groups_, samples_, config_.share == "data");
    lost_ = 0;
    turn.record("groups", rounds(), double(groups_.size()));
  }

  void advance(Turn& turn) {
    if (groups_.empty() || over()) return;
    if (are_quotas_met(turn)) end_round(turn);
    classify(turn);
  }

  bool are_quotas_met(const Turn& turn) const {
    return std::ranges::all_of(needs(turn), &grouping::Need::met);
  }

  // W_{r+1} = W_r + eta_g sum_g pi_g D_g; running statistics become the same mean of theirs.
  // Without any update there is nothing to commit, and the round continues.
  void end_round(Turn& turn) {
    std::vector<double> sum(store().values().size());
    const std::set<std::size_t> without = grouping::weigh(groups_, pending_, sum);
    if (without.size() == groups_.size()) return set_deadline(turn.now(), turn);
    const auto w = store().change();
    const std::uint64_t length = parameters().length;
    for (std::size_t k = 0; k < w.size(); ++k)
      w[k] = float(k < length ? double(w[k]) + config_.global_rate * sum[k] : sum[k]);
    for (std::size_t g : without) turn.record("missing_group", rounds(), double(g));
    record_used(turn);
    judge(turn);
    turn.record("round_s", rounds(), seconds(turn.now() - began_));
    // Rounds that end at the deadline do not set deadlines: each would lengthen the next one.
    if (are_quotas_met(turn)) times_.add(turn.now() - began_);
    pending_.clear();
    committed(turn);
    if (over()) return;
    std::size_t grouped = 0;
    for (const grouping::Group& one : groups_) grouped += one.members.size();
    if (store().version() % config_.regroup == 0 || 5 * lost_ >= grouped || leaves_one_out())
      group(turn);
    began_ = turn.now();
    set_deadline(began_, turn);
  }

  // A group that has missed its quota in this round and the one before has a quota of one from now
  // on.
  void judge(Turn& turn) {
    const auto all = needs(turn);
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      groups_[g].missed = all[g].met ? 0 : groups_[g].missed + 1;
      if (groups_[g].missed < 2) continue;
      groups_[g].one_is_enough = true;
      turn.record("suspected_group", rounds(), double(g));
    }
  }

  bool is_in_a_group(Rank rank) const {
    return std::ranges::any_of(groups_, [rank](const grouping::Group& group) {
      return std::ranges::binary_search(group.members, rank);
    });
  }

  // Returns true if a worker has returned since the groups were made.
  bool leaves_one_out() const {
    return std::ranges::any_of(sketches_, [&](const auto& of) { return !is_in_a_group(of.first); });
  }

  // Updates of workers outside all groups are in no mean.
  void record_used(Turn& turn) {
    for (const auto& [key, update] : pending_) {
      const Rank rank = key.first;
      if (is_in_a_group(rank))
        used_samples(rank, turn);
      else
        turn.record("push_discarded", rounds(), double(rank));
    }
  }

  void set_deadline(Time since, Turn& turn) {
    const auto allowed = times_.medians(config_.round_deadline);
    if (!allowed) return;
    deadline_ = since + *allowed;
    turn.set_timer(*this, kDeadline, deadline_);
  }

  // Returns the needs of all groups. The quota counts live members; fresh updates of any member
  // meet it.
  std::vector<grouping::Need> needs(const Turn& turn) const {
    std::vector<grouping::Need> needs;
    for (const grouping::Group& group : groups_) {
      grouping::Need need;
      std::uint64_t fresh = 0;
      for (Rank rank : group.members) {
        fresh += pending_.contains({rank, store().version()}) ? 1 : 0;
        if (turn.view().has(rank)) need.members.push_back(rank);
      }
      if (!group.one_is_enough) need.quota = grouping::quota_of(config_.rho, need.members.size());
      need.met = need.members.empty() || fresh >= need.quota;
      needs.push_back(std::move(need));
    }
    return needs;
  }

  // Computes the classes of all updates, and notifies workers with an update if its class has
  // changed.
  void classify(Turn& turn) {
    if (!config_.differential || over()) return;
    const auto all = needs(turn);
    classes_ = urgencies_.classes(all, turn.now());
    for (const auto& [rank, of] : classes_)
      if (told_[rank] != of && notify(rank, server::to_extension(FedGSyncModel{of})))
        told_[rank] = of;
    if (const auto late = urgencies_.next_late(all, turn.now()))
      turn.set_timer(*this, kLate, *late);
  }

  const FedGSyncConfig config_;
  std::vector<grouping::Group> groups_;
  grouping::Pending pending_;                    // updates of the open round
  std::map<Rank, std::vector<float>> sketches_;  // newest sketch of each live worker
  std::map<Rank, std::uint64_t> samples_;        // number of samples of each worker
  std::map<Rank, std::uint64_t> next_;  // 1 + newest version whose update each worker has sent
  std::set<Rank> refused_;              // workers to notify of a refusal
  std::uint32_t lost_ = 0;              // workers lost since the groups were made
  Time began_{0};                       // start of the open round
  Time deadline_{0};                    // deadline of the open round, once three rounds are known
  RoundTimes times_;
  grouping::Urgencies urgencies_;
  std::map<Rank, std::uint8_t> classes_, told_;
};

// The worker. Before it asks for the first model, it sketches the mean gradient of a few batches
// there, without a step. Every update carries a sketch of itself.
class FedGSyncWorker final : public server::ParameterServerWorker {
 public:
  static constexpr std::uint32_t kMostResets = 3;  // consecutive updates that are not finite

  FedGSyncWorker(const FedGSyncConfig& config, const server::Setup& setup)
      : ParameterServerWorker(setup), config_(config) {}
  void state(Archive& ar) override {
    ParameterServerWorker::state(ar);
    ar(local_, batches_, profile_, sketch_, shard_, resets_, resetting_, urgency_);
  }

  Service service() const override {
    return {.priority = std::uint8_t(Service{}.priority - urgency_)};
  }

 private:
  // Computes g, the mean gradient over `sketch_batches` batches at W_0, without a step. Phantom
  // jobs have none.
  bool prepares(Turn& turn) override {
    if (turn.place().phantom) return false;
    compute(Gradient{}, 1, turn);
    return true;
  }

  // x = W_r; H local steps
  void begin(Turn& turn) override {
    local_.anchor(turn);
    compute(LocalStep{}, config_.steps, turn);
  }

  // Sends UPDATE(r, x - W_r) with its sketch. An update that is not finite is not sent: the worker
  // begins again from the server's model, kMostResets times at most.
  void computed(const Computed& done, Turn& turn) override {
    if (!turn.place().phantom && batches_ < config_.sketch_batches) return profile(done, turn);
    if (std::exchange(resetting_, false)) return ask(turn);
    const std::vector<float> update = local_.update(turn);
    shard_ = done.shard_size;
    if (!all_finite(turn.params()) && resets_ < kMostResets) {
      ++resets_;
      resetting_ = true;
      turn.record("not_finite", clock(), double(resets_));
      return compute(ResetOptimizer{}, 1, turn);
    }
    resets_ = 0;
    sketch(update, turn);
    push(update, done, /*asks=*/true, turn);
  }

  void read(const server::ServerHeader& header, const Snapshot& model, Turn& turn) override {
    const auto said = server::from_extension<FedGSyncModel>(header.extension);
    urgency_ = said->urgency;
    if (said->refused) turn.record("refused", clock(), 1);
    ParameterServerWorker::read(header, model, turn);
  }

  server::Extension pull_extension() const override {
    return server::to_extension(FedGSyncUpdate{shard_, sketch_});
  }

  server::Extension push_extension(const Computed&) const override { return pull_extension(); }
  Status check_extension(const server::ServerHeader& header) const override {
    const auto model = server::from_extension<FedGSyncModel>(header.extension);
    return model ? Status(Ok{}) : model.error();
  }

  void on_notice(const server::ServerHeader& header, Turn&) override {
    urgency_ = server::from_extension<FedGSyncModel>(header.extension)->urgency;
  }

  void profile(const Computed& done, Turn& turn) {
    const Range layer = grouping::output_layer(*turn.place().layout);
    const auto g = turn.grads().subspan(layer.offset, layer.length);
    profile_.resize(g.size());
    for (std::size_t k = 0; k < g.size(); ++k) profile_[k] += g[k] / float(config_.sketch_batches);
    shard_ = done.shard_size;
    if (++batches_ < config_.sketch_batches) return compute(Gradient{}, 1, turn);
    sketch_ = grouping::sketch_of(profile_, config_.sketch, turn.place().seed);
    profile_.clear();
    ask(turn);
  }

  // Sketches the gradient g = -update.
  void sketch(std::span<const float> update, Turn& turn) {
    if (turn.place().phantom) return;
    const Range layer = grouping::output_layer(*turn.place().layout);
    std::vector<float> g;
    for (float v : update.subspan(layer.offset, layer.length)) g.push_back(-v);
    sketch_ = grouping::sketch_of(g, config_.sketch, turn.place().seed);
  }

  const FedGSyncConfig config_;
  LocalUpdate local_;
  std::uint32_t batches_ = 0;   // number of batches in the profile
  std::vector<float> profile_;  // sum of their gradients at the output layer
  std::vector<float> sketch_;   // newest sketch
  std::uint64_t shard_ = 0;
  std::uint32_t resets_ = 0;  // consecutive resets
  bool resetting_ = false;
  std::uint8_t urgency_ = 0;  // class of this worker's update
};

struct FedGSync {
  using Config = FedGSyncConfig;
  using Worker = FedGSyncWorker;
  using Server = FedGSyncServer;
  static SyncEntry entry();

  static std::uint64_t commits(const Config&, const server::Setup&) { return 1; }  // per round
};

}  // namespace longhaul::sync
