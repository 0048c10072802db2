// Sfb, of comparisons of all copies of the model, and what follows where they differ: the run ends,
// or all adopt one of them.
//
// To adopt one all have to know at one clock that copies differ, whoever is lost meanwhile. So then
// the comparison is an exchange through the overlay, of the bits of each hash: where all have the
// same bit its mean is 0 or 1. All get one outcome, and with it one lowest rank among those whose
// bits are in it, whose model and optimiser the others wait for. After that, or when it is lost,
// all compare again, and nobody goes on before copies are equal.
#include <xxhash.h>

#include <algorithm>

#include "longhaul/sync/flat.h"
#include "longhaul/sync/sfb.h"

namespace longhaul::sync {
namespace {

constexpr std::size_t kHashBits = 64;

}  // namespace

bool Sfb::is_compared(Turn& turn) const {
  if (is_eager() || turn.place().phantom) return false;
  if (config_.hash_every == 0 || clock_ % config_.hash_every != 0) return false;
  return !is_partial() || clock_ % config_.mean_every == 0;  // else copies differ
}

std::uint64_t Sfb::hash_of_model(Turn& turn) const {
  const auto w = parameters(turn);
  return XXH64(w.data(), w.size_bytes(), 0);
}

// Equal sums and equal optimisers make equal models; if they are not, training is not what it
// seems.
void Sfb::send_hash(Turn& turn) {
  const std::uint64_t hash = hash_of_model(turn);
  Turn below = within(*control_, turn);
  control_->send(others(),
                 {.kind = sfb::ControlHeader::Kind::hash,
                  .epoch = epoch_,
                  .clock = clock_,
                  .hash = hash,
                  .done = {}},
                 {}, {}, below);
  note_hash(turn.self(), clock_, hash, turn);
}

void Sfb::note_hash(Rank from, Round clock, std::uint64_t hash, Turn& turn) {
  auto& hashes = hashes_[clock];
  hashes[from] = hash;
  const auto own = hashes.find(turn.self());
  if (own != hashes.end())
    for (const auto& [rank, other] : hashes)
      if (other != own->second)
        return fail(unavailable("copies of the model differ after clock " + std::to_string(clock) +
                                ": hash " + std::to_string(own->second) + " here, " +
                                std::to_string(other) + " at rank " + std::to_string(rank)),
                    turn);
  // Others are one clock behind at most.
  while (hashes_.size() > 3) hashes_.erase(hashes_.begin());
}

// Of a model of fewer numbers than the hash has bits, which no exchange can be longer than, the
// first bits.
void Sfb::begin_comparison(Turn& turn) {
  phase_ = Phase::comparing;
  const std::uint64_t hash = hash_of_model(turn);
  std::vector<float> bits(std::min<std::uint64_t>(kHashBits, place_.layout->size()));
  for (std::size_t i = 0; i < bits.size(); ++i) bits[i] = float(hash >> i & 1);
  Overlay& overlay = final_.overlay();
  Turn below = within(overlay, turn);
  const Status begun = overlay.begin({comparisons_, 0, kHashRange}, {},
                                     {.values = bits, .length = bits.size(), .exact = true}, below);
  if (!begun) fail(begun.error(), turn);
}

bool Sfb::end_comparison(Turn& turn) {
  const auto mean = final_.overlay().poll({comparisons_, 0, kHashRange});
  if (!mean) return false;
  ++comparisons_;
  if (std::ranges::all_of(mean->values, [](float bit) { return bit == 0 || bit == 1; })) {
    close_clock(turn);
    return true;
  }
  giver_ = mean->counted.front();
  phase_ = Phase::adopting;
  return true;
}

bool Sfb::adopt(Turn& turn) {
  if (turn.learner_is_busy()) return false;
  if (giver_ == turn.self()) {
    if (!optimizer_.ready(turn)) return false;
    give_model(turn);
    begin_comparison(turn);
    return phase_ != Phase::failed;
  }
  if (given_ && given_->from == giver_) {
    take_model(turn);
    if (phase_ == Phase::failed || optimizer_.set(turn)) return false;  // see on_computed()
  } else if (turn.view().has(giver_)) {
    return false;
  }
  begin_comparison(turn);
  return phase_ != Phase::failed;
}

void Sfb::archive_model(Archive& ar, Turn& turn) {
  ar.expect("sfb model");
  ar(optimizer_);
  outer_->state(ar);
  ar.floats(turn.params());
}

void Sfb::give_model(Turn& turn) {
  Archive ar;
  archive_model(ar, turn);
  optimizer_.forget();
  turn.record("adopted", clock_ - 1, 0);
  Turn below = within(*models_, turn);
  models_->send(others(), {.comparison = comparisons_ - 1}, VectorContent::bytes(share(ar.take())),
                {}, below);
}

// The figure says whether this worker's was another.
void Sfb::take_model(Turn& turn) {
  const Bytes bytes = std::exchange(given_, {})->bytes;
  const std::uint64_t before = hash_of_model(turn);
  Archive ar(*bytes);
  archive_model(ar, turn);
  Status read = ar.finish();
  if (read && !outer_->fits(parameter_count(turn.place())))
    read = malformed("it is of a model of another size");
  if (!read)
    return fail(malformed("the model of rank " + std::to_string(giver_) +
                          ", which all adopt, is none of this job: " + read.error().what),
                turn);
  turn.record("adopted", clock_ - 1, hash_of_model(turn) == before ? 0 : 1);
  optimizer_.on_returned();
}

Result<bool> Sfb::admit_model(const sfb::AdoptedHeader& header, const ContentShape& shape) const {
  if (shape.kind != ContentKind::bytes) return malformed("a model that is no bytes");
  if (header.comparison > comparisons_) return malformed("a model of a comparison to come");
  return true;
}

// It may come before this worker knows that copies differ. Nobody sends two for a comparison; of
// several the lowest rank's is the one that all wait for.
void Sfb::receive_model(Turn& turn) {
  if (!adopts()) return;
  Turn below = within(*models_, turn);
  while (models_->lost()) {
  }
  const Round awaited = phase_ == Phase::adopting ? comparisons_ - 1 : comparisons_;
  while (auto one = models_->poll(below))
    if (one->header.comparison == awaited && (!given_ || one->from < given_->from))
      given_ = {one->from, one->content.bytes()};
}

}  // namespace longhaul::sync
