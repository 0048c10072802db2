// What AgreedMean does for topologies that plan anew while rounds go on: a plan for every stretch
// of rounds that goes by other trees, and notices.
#include <algorithm>

#include "longhaul/overlay/agreed.h"

namespace longhaul::overlay {

// Sends what a topology tells the others when it has returned.
class AgreedMean::Table final : public Council {
 public:
  explicit Table(Epoch epoch) : epoch_(epoch) {}
  void tell(Rank to, Notice notice) override {
    notice.epoch = epoch_;
    told_.emplace_back(to, std::move(notice));
  }
  void record(std::string name, Round round, double value) override {
    figures_.emplace_back(std::move(name), round, value);
  }
  void carry_out(Turn& turn) {
    for (const auto& [to, notice] : told_) turn.send(to, notice, {}, kControl);
    for (const auto& [name, round, value] : figures_) turn.record(name, round, value);
  }

 private:
  const Epoch epoch_;
  std::vector<std::pair<Rank, Notice>> told_;
  std::vector<std::tuple<std::string, Round, double>> figures_;
};

const Plan* AgreedMean::plan_of(Sequence& sequence, Round round) {
  const Round since = topology_->since(sequence.key(round));
  auto& plan = sequence.plans[since];
  if (!plan) plan = make_plan(sequence.grid, since);
  return plan.get();
}

// Attempts keep theirs, also one that a share out of turn opened before its plan was known.
void AgreedMean::forget_plans(Sequence& sequence) {
  if (sequence.plans.size() < 2) return;
  const Round next = topology_->since(sequence.key(sequence.next));
  std::set<const Plan*> used;
  for (const auto& [round, attempt] : sequence.attempts) used.insert(attempt->terms().plan);
  std::erase_if(sequence.plans, [&](const auto& one) {
    return one.first != next && !used.contains(one.second.get());
  });
}

// What went to the host. The slowest receiver's time is that of a contribution.
void AgreedMean::measure(Turn& turn) {
  while (const auto sent = transfer_->sent()) {
    topology_->left(sent->to, sent->bytes, sent->elapsed, turn.now());
    const CodecKey& vector = sent->key.vector;
    if (Phase(sent->key.phase) != Phase::part || vector.range != 0 || vector.round < given_.round)
      continue;
    if (vector.round > given_.round) given_ = {vector.round, Time{0}};
    given_.took = std::max(given_.took, sent->elapsed);
  }
}

void AgreedMean::tell_ended(Sequence& sequence, Round round, Turn& turn) {
  Table table(team_.epoch);
  topology_->ended(sequence.key(round), sequence.grid, table);
  table.carry_out(turn);
}

Status AgreedMean::take(Rank from, const Notice& notice, Turn& turn) {
  if (notice.epoch > team_.epoch) return malformed("notice of an epoch to come");
  if (notice.epoch < team_.epoch) {
    turn.record("late", 0, 1);
    return Ok{};
  }
  if (!team_.index_of(from) || !team_.takes_part() || from == team_.self)
    return malformed("notice of who takes no part");
  Table table(team_.epoch);
  LH_TRY(topology_->take(from, notice, table));
  table.carry_out(turn);
  for (auto& [id, sequence] : sequences_)
    if (sequence.begun && sequence.held && unheard_.empty()) give(sequence, turn);
  return Ok{};
}

}  // namespace longhaul::overlay
