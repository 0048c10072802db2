#include "longhaul/focus/checks.h"

#include <algorithm>
#include <cstring>

namespace longhaul::focus {
namespace {

constexpr std::size_t kMostBody = 256 * 1024;  // of one message

}  // namespace

void Checks::request(std::uint64_t cluster, Rank verifier) {
  if (pending_.insert(cluster).second) queues_[verifier].push_back(cluster);
}

void Checks::forget(std::uint64_t cluster) {
  for (auto& [verifier, queue] : queues_)
    if (std::erase(queue, cluster) > 0) pending_.erase(cluster);
}

std::size_t Checks::in_flight(Rank verifier) const {
  return std::size_t(std::count_if(batches_.begin(), batches_.end(), [&](const auto& entry) {
    return entry.second.verifier == verifier;
  }));
}

std::set<Rank> Checks::given_up() const {
  std::set<Rank> ranks;
  for (const auto& [number, batch] : batches_)
    if (batch.given_up) ranks.insert(batch.verifier);
  return ranks;
}

void Checks::check_here(std::span<const std::uint64_t> clusters, Rank self) {
  if (clusters.empty()) return;
  auto& own = queues_[self];
  own.insert(own.end(), clusters.begin(), clusters.end());
}

// A batch that this node checks itself is not waited for: its learner has it, or will.
void Checks::give_up_silent(Turn& turn) {
  for (auto& [number, batch] : batches_) {
    if (batch.verifier == turn.self() || batch.given_up) continue;
    batch.given_up = turn.now() >= batch.heard + patience_;
    if (batch.given_up) check_here(batch.clusters, turn.self());
  }
  for (const Rank verifier : given_up()) {
    const auto it = queues_.find(verifier);
    if (it == queues_.end()) continue;
    const std::vector<std::uint64_t> waiting(it->second.begin(), it->second.end());
    queues_.erase(it);
    check_here(waiting, turn.self());
  }
}

void Checks::set_timer(Turn& turn) const {
  std::optional<Time> next;
  for (const auto& [number, batch] : batches_)
    if (batch.verifier != turn.self() && !batch.given_up)
      next = std::min(next.value_or(batch.heard + patience_), batch.heard + patience_);
  if (next) turn.set_timer(node_, kTimer, *next);
}

void Checks::take(Rank from, const StillChecking& message, Time now) {
  const auto it = batches_.find(message.batch);
  if (it != batches_.end() && it->second.verifier == from) it->second.heard = now;
}

void Checks::advance(const Index& index, Turn& turn) {
  give_up_silent(turn);
  for (auto& [verifier, queue] : queues_)
    while (!queue.empty() && in_flight(verifier) < kInFlight && turn.room(verifier, kObjects) > 0)
      send(verifier, queue, index, turn);
  std::erase_if(queues_, [](const auto& entry) { return entry.second.empty(); });
  set_timer(turn);
}

void Checks::send(Rank verifier, std::deque<std::uint64_t>& queue, const Index& index, Turn& turn) {
  // A node that comes back, in a later epoch, gets no verdicts on what it asked before.
  Check check;
  check.batch = turn.view().epoch << 32 | next_++;
  check.length = std::uint32_t(index.representative(queue.front()).values.size());
  check.stride = std::max<std::uint32_t>(check.length * sizeof(float), 1);
  if (verifier != turn.self()) check.stride = std::max(check.stride, object_bytes_);
  const std::size_t most =
      std::max<std::size_t>(std::min<std::size_t>(batch_, kMostBody / check.stride), 1);
  Batch batch{verifier, {}, turn.now()};
  Buffer body;
  while (!queue.empty() && batch.clusters.size() < most) {
    const Item& item = index.representative(queue.front());
    LH_CHECK(item.values.size() == check.length);  // of one source
    check.items.push_back({queue.front(), item.seq, item.at.count()});
    batch.clusters.push_back(queue.front());
    queue.pop_front();
    const std::size_t at = body.size();
    body.resize(at + check.stride);
    if (check.length > 0)
      std::memcpy(body.data() + at, item.values.data(), check.length * sizeof(float));
  }
  batches_.emplace(check.batch, std::move(batch));
  turn.send(verifier, check, Payload(share(std::move(body))), kObjects);
}

Result<std::vector<std::pair<std::uint64_t, std::uint32_t>>> Checks::take(Rank from,
                                                                          const Verdict& verdict,
                                                                          std::uint32_t classes) {
  std::vector<std::pair<std::uint64_t, std::uint32_t>> decided;
  const auto it = batches_.find(verdict.batch);
  if (it == batches_.end()) return decided;
  const Batch& batch = it->second;
  if (batch.verifier != from || batch.clusters.size() != verdict.classes.size())
    return malformed("verdicts that do not fit their batch");
  for (const std::uint32_t cls : verdict.classes)
    if (cls >= classes) return malformed("a verdict of an unknown class");
  for (std::size_t i = 0; i < batch.clusters.size() && !batch.given_up; ++i) {
    decided.emplace_back(batch.clusters[i], verdict.classes[i]);
    pending_.erase(batch.clusters[i]);
  }
  batches_.erase(it);
  return decided;
}

void Checks::on_view(Turn& turn) {
  std::vector<std::uint64_t> owed;
  for (auto it = batches_.begin(); it != batches_.end();) {
    const bool lost = !turn.view().has(it->second.verifier);
    const Batch& batch = it->second;
    if (lost && !batch.given_up)
      owed.insert(owed.end(), batch.clusters.begin(), batch.clusters.end());
    it = lost ? batches_.erase(it) : std::next(it);
  }
  for (auto it = queues_.begin(); it != queues_.end();) {
    const bool lost = !turn.view().has(it->first);
    if (lost) owed.insert(owed.end(), it->second.begin(), it->second.end());
    it = lost ? queues_.erase(it) : std::next(it);
  }
  check_here(owed, turn.self());
}

}  // namespace longhaul::focus
