#include "longhaul/focus/verifier.h"

#include <algorithm>
#include <cstring>

#include "longhaul/focus/checks.h"

namespace longhaul::focus {

Status Verifier::take(Rank from, const Check& check, const Payload& body, Time now) {
  if (check.items.empty() || check.length * sizeof(float) > check.stride || body.is_phantom() ||
      body.size() != check.items.size() * std::size_t(check.stride))
    return malformed("a check whose objects do not fit its size");
  if (length_ > 0 && check.length != length_)
    return malformed("a check of objects of " + std::to_string(check.length) + " values, not of " +
                     std::to_string(length_));
  const auto queued = std::count_if(queue_.begin(), queue_.end(),
                                    [&](const Batch& batch) { return batch.from == from; });
  if (std::size_t(queued) >= Checks::kInFlight) return malformed("a check beyond those allowed");
  Batch batch{from, check.batch, {}, now};
  for (std::size_t i = 0; i < check.items.size(); ++i) {
    const CheckItem& checked = check.items[i];
    if (checked.seq == 0) return malformed("a check of an object without a number");
    Item item{from, checked.seq, Time{checked.at_ns}, std::vector<float>(check.length)};
    if (check.length > 0)
      std::memcpy(item.values.data(), body.view().data() + i * check.stride,
                  check.length * sizeof(float));
    batch.items.push_back(std::move(item));
  }
  queue_.push_back(std::move(batch));
  return Ok{};
}

void Verifier::verdicts(std::span<const float> classes, Turn& turn) {
  const Batch batch = std::move(queue_.front());
  queue_.pop_front();
  LH_CHECK(classes.size() == batch.items.size());
  Verdict verdict{batch.number, version_, {}};
  for (const float cls : classes) verdict.classes.push_back(std::uint32_t(cls));
  if (turn.view().has(batch.from)) turn.send(batch.from, verdict, {}, kAnswer);
}

void Verifier::advance(Turn& turn) {
  std::optional<Time> next;
  for (Batch& batch : queue_) {
    if (batch.from == turn.self() || !turn.view().has(batch.from)) continue;
    if (turn.now() >= batch.told + still_after_) {
      batch.told = turn.now();
      turn.send(batch.from, StillChecking{batch.number}, {}, kAnswer);
    }
    next = std::min(next.value_or(batch.told + still_after_), batch.told + still_after_);
  }
  if (next) turn.set_timer(node_, kTimer, *next);
}

void Verifier::on_view(Turn& turn) {
  if (queue_.empty()) return;
  queue_.erase(std::remove_if(queue_.begin() + 1, queue_.end(),
                              [&](const Batch& batch) { return !turn.view().has(batch.from); }),
               queue_.end());
}

}  // namespace longhaul::focus
