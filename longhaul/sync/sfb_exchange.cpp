// What a worker of sync/sfb.h sends and receives.
#include <xxhash.h>

#include <algorithm>

#include "longhaul/sync/flat.h"
#include "longhaul/sync/sfb.h"

namespace longhaul::sync {

using sfb::ControlHeader;
using sfb::FactorsHeader;

Result<bool> Sfb::admit(Rank from, const FactorsHeader& header, const ContentShape& shape) const {
  if (header.epoch > epoch_) return malformed("factors of an epoch that has not begun");
  if (header.origin >= place_.size() || !place_.member(header.origin).is(Role::worker) ||
      header.origin == place_.self)
    return malformed("factors of rank " + std::to_string(header.origin) + ", who sends none");
  if (header.origin != from && spread_ == sfb::Spread::full && !header.repeat)
    return malformed("factors of rank " + std::to_string(header.origin) + " through another");
  if (header.clock > clock_ + config_.staleness + 1)
    return malformed("factors of clock " + std::to_string(header.clock) + ", further ahead than " +
                     "staleness allows");
  if (header.parties > place_.size()) return malformed("factors of more workers than there are");
  if (header.part >= kinds_of_parts())
    return malformed("part " + std::to_string(header.part) + " of a clock");
  if (shape.kind != ContentKind::bytes) return malformed("factors that are no bytes");
  LH_TRY(sfb::check_size(header, shape.size, parts_, batch_, coder_));
  return counts(header);
}

// Of the lost nothing counts but what survivors send again. Once only.
bool Sfb::counts(const FactorsHeader& header) const {
  const bool lives = std::binary_search(live_.begin(), live_.end(), header.origin);
  if (!lives && !(header.repeat && header.epoch == epoch_)) return false;
  return store_.is_new(header.origin, header.clock, header.part);
}

Result<bool> Sfb::admit_control(const ControlHeader& header, const ContentShape& shape) const {
  if (shape.kind != ContentKind::none) return malformed("a control message with a vector");
  if (header.epoch > epoch_) return malformed("a control message of an epoch that has not begun");
  if (header.kind == ControlHeader::Kind::hash) {
    if (is_eager() || header.clock > clock_ + 2)
      return malformed("a hash of clock " + std::to_string(header.clock) + ", which nobody has");
    return true;
  }
  if (header.done.size() != place_.size()) return malformed("a report of other ranks");
  const Round most = clock_ + 2 * Round(config_.staleness) + 3;
  if (std::ranges::any_of(header.done, [&](Round done) { return done > most; }))
    return malformed("a report of clocks that nobody can have sent");
  return header.epoch == epoch_;
}

std::vector<Rank> Sfb::others() const {
  std::vector<Rank> ranks = live_;
  std::erase(ranks, place_.self);
  return ranks;
}

void Sfb::spread(const sfb::FactorStore::Piece& piece, Turn& turn) {
  send(sfb::next_hops(spread_, piece.header.origin, turn.self(), live_, place_), piece, turn);
}

void Sfb::send(const std::vector<Rank>& to, const sfb::FactorStore::Piece& piece, Turn& turn) {
  if (to.empty()) return;
  sent_bytes_ += piece.content.shape().size * to.size();
  Turn below = within(*factors_, turn);
  factors_->send(to, piece.header, piece.content, {}, below);
}

// The run begins with nothing lost; after a loss all say what they have.
void Sfb::enter_view(Turn& turn) {
  const bool is_first = !std::exchange(has_entered_, true) && turn.view().epoch == 0;
  epoch_ = turn.view().epoch;
  live_ = live_with(Role::worker, turn.place(), turn.view());
  is_settled_ = is_first || !has_factors();
  if (is_settled_) return;
  ControlHeader report{
      .kind = ControlHeader::Kind::report, .epoch = epoch_, .clock = clock_, .done = {}};
  for (Rank rank = 0; rank < place_.size(); ++rank) {
    if (!turn.view().has(rank)) store_.drop_unfinished(rank);
    report.done.push_back(store_.done(rank));
  }
  recovery_.begin(live_);
  recovery_.report(turn.self(), report.done);
  Turn below = within(*control_, turn);
  control_->send(others(), report, {}, {}, below);
}

void Sfb::receive(Turn& turn) {
  Turn below = within(*factors_, turn);
  while (factors_->lost()) {
  }  // of a lost peer: what counts of it is sent again
  while (auto one = factors_->poll(below)) {
    const FactorsHeader& header = one->header;
    if (phase_ == Phase::failed || !counts(header)) continue;
    const Status checked = check(header, one->content);
    if (!checked)
      return fail({checked.error().kind, "rank " + std::to_string(one->from) +
                                             " broke the protocol: " + checked.error().what},
                  turn);
    store_.add(header, one->content);
    // In another view others pass on; the origin sends again what one lacks.
    if (!header.repeat && header.epoch == epoch_) spread({header, std::move(one->content)}, turn);
  }
}

Status Sfb::check(const FactorsHeader& header, const VectorContent& content) const {
  if (header.part == parts_.layers().size()) {
    const auto rest = sfb::decode(header, parts_.rest_length(), content, coder_);
    return rest ? Status(Ok{}) : Status(rest.error());
  }
  const auto factors = sfb::decode(header, parts_.layers()[header.part], content, coder_);
  return factors ? Status(Ok{}) : Status(factors.error());
}

void Sfb::receive_control(Turn& turn) {
  Turn below = within(*control_, turn);
  while (control_->lost()) {
  }
  while (auto one = control_->poll(below)) {
    if (phase_ == Phase::failed) continue;
    const ControlHeader& header = one->header;
    if (header.kind == ControlHeader::Kind::hash)
      note_hash(one->from, header.clock, header.hash, turn);
    else if (header.epoch == epoch_)
      recovery_.report(one->from, header.done);
  }
  if (!is_settled_ && recovery_.missing().empty()) settle(turn);
}

void Sfb::settle(Turn& turn) {
  is_settled_ = true;
  ends_.clear();
  for (Rank rank = 0; rank < place_.size(); ++rank) {
    if (!place_.member(rank).is(Role::worker)) continue;
    const bool lives = turn.view().has(rank);
    if (!lives) ends_[rank] = recovery_.clocks_of(rank);
    const bool is_own = rank == turn.self() && spread_ != sfb::Spread::full;
    if (!is_own && (lives || recovery_.donor(rank) != turn.self())) continue;
    for (const Rank to : others())
      // Of its own also what has left of the clock that it computes.
      repeat(rank, recovery_.has(to, rank), is_own ? clock_ + 1 : ends_[rank], to, turn);
  }
}

// What it has sent in this view is passed on in this view.
void Sfb::repeat(Rank origin, Round from, Round end, Rank to, Turn& turn) {
  for (Round clock = from; clock < end; ++clock) {
    const auto* pieces = store_.find(origin, clock);
    if (!pieces) continue;
    for (const auto& [part, piece] : *pieces) {
      if (origin == turn.self() && piece.header.epoch == epoch_) continue;
      sfb::FactorStore::Piece again = piece;
      again.header.epoch = epoch_;
      again.header.repeat = true;
      send({to}, again, turn);
    }
  }
}

// Equal sums and equal optimisers make equal models; if they are not, training is not what it
// seems.
void Sfb::compare_hashes(Turn& turn) {
  if (config_.hash_every == 0 || clock_ % config_.hash_every != 0 || turn.place().phantom) return;
  const auto w = parameters(turn);
  const std::uint64_t hash = XXH64(w.data(), w.size_bytes(), 0);
  Turn below = within(*control_, turn);
  control_->send(others(),
                 {.kind = ControlHeader::Kind::hash,
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

}  // namespace longhaul::sync
