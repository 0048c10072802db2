// What a worker of sync/sfb.h sends and receives.
#include <algorithm>

#include "longhaul/sync/sfb.h"

namespace longhaul::sync {

using sfb::ControlHeader;
using sfb::FactorsHeader;
using sfb::kNever;

Result<bool> Sfb::admit(Rank from, const FactorsHeader& header, const ContentShape& shape) const {
  if (header.epoch > epoch_) return malformed("factors of an epoch that has not begun");
  // Of its own one that has come back may be sent what counts of its life before.
  const bool is_own = header.origin == place_.self && !(header.repeat && place_.comes_back());
  if (header.origin >= place_.size() || !place_.member(header.origin).is(Role::worker) || is_own)
    return malformed("factors of rank " + std::to_string(header.origin) + ", who sends none");
  const bool is_direct = is_partial() || (spread_ == sfb::Spread::full && !header.repeat);
  if (header.origin != from && is_direct)
    return malformed("factors of rank " + std::to_string(header.origin) + " through another");
  if ((knows_model() || is_settled_) && header.clock > furthest())
    return malformed("factors of clock " + std::to_string(header.clock) + ", further ahead than " +
                     "staleness allows");
  if (header.parties > place_.size()) return malformed("factors of more workers than there are");
  if (header.part >= kinds_of_parts())
    return malformed("part " + std::to_string(header.part) + " of a clock");
  if (shape.kind != ContentKind::bytes) return malformed("factors that are no bytes");
  LH_TRY(sfb::check_size(header, shape.size, parts_, batch_, coder_));
  return !is_settled_ || counts(header);
}

// The last clock that anybody can have begun.
Round Sfb::furthest() const {
  return std::max(clock_ + 1, store_.entry(place_.self)) + config_.staleness + lead_;
}

// Of the lost nothing counts but what survivors send again, nor of the life before of one that has
// come back. Once only.
bool Sfb::counts(const FactorsHeader& header) const {
  const bool lives = std::binary_search(live_.begin(), live_.end(), header.origin);
  const auto since = since_.find(header.origin);
  const bool is_of_now = lives && (since == since_.end() || header.epoch >= since->second);
  if (!is_of_now && !(header.repeat && header.epoch == epoch_)) return false;
  if (is_partial() && (header.clock < store_.entry(place_.self) ||
                       !std::ranges::count(senders_of(header.clock), header.origin)))
    return false;  // it was sent in a view with others
  return header.clock <= furthest() && store_.counts(header.origin, header.clock) &&
         store_.is_new(header.origin, header.clock, header.part);
}

Result<bool> Sfb::admit_control(const ControlHeader& header, const ContentShape& shape) const {
  if (shape.kind != ContentKind::none) return malformed("a control message with a vector");
  if (header.epoch > epoch_) return malformed("a control message of an epoch that has not begun");
  if (header.kind == ControlHeader::Kind::hash) {
    if (!knows_model()) return false;
    if (is_eager() || header.clock > clock_ + 2)
      return malformed("a hash of clock " + std::to_string(header.clock) + ", which nobody has");
    return true;
  }
  if (header.done.size() != place_.size()) return malformed("a report of other ranks");
  const Round s = config_.staleness, most = knows_model() ? clock_ + 4 * (s + lead_) + 8 : kNever;
  const auto is_too_far = [&](Round clock) { return clock > most; };
  const auto is_wrong = [&](const sfb::HeldClocks& held) {
    return held.origin >= place_.size() || held.count > 4 * s + 8 ||
           is_too_far(held.from + held.count);
  };
  if (is_too_far(header.clock) || is_too_far(header.entry) ||
      std::ranges::any_of(header.done, is_too_far) || std::ranges::any_of(header.held, is_wrong))
    return malformed("a report of clocks that nobody can have sent");
  return header.epoch == epoch_;
}

std::vector<Rank> Sfb::others() const {
  std::vector<Rank> ranks = live_;
  std::erase(ranks, place_.self);
  return ranks;
}

void Sfb::spread(const sfb::FactorStore::Piece& piece, Turn& turn) {
  if (is_partial()) {
    // Who waits for it in a new view is known when that is settled.
    if (piece.header.origin == turn.self() && is_settled_)
      send(receivers_of(piece.header.clock), piece, turn);
    return;
  }
  send(sfb::next_hops(spread_, piece.header.origin, turn.self(), live_, place_), piece, turn);
}

void Sfb::send(const std::vector<Rank>& to, const sfb::FactorStore::Piece& piece, Turn& turn) {
  if (to.empty()) return;
  sent_bytes_ += piece.content.shape().size * to.size();
  Turn below = within(*factors_, turn);
  factors_->send(to, piece.header, piece.content, {}, below);
}

// The run begins with nothing lost; in each later view all say what they have.
void Sfb::enter_view(Turn& turn) {
  const View& view = turn.view();
  const bool is_first = !std::exchange(has_entered_, true) && view.epoch == 0;
  const std::map<Rank, Epoch> before = std::exchange(since_, view.returned);
  epoch_ = view.epoch;
  live_ = live_with(Role::worker, turn.place(), view);
  stands_.clear();
  owed_.clear();
  is_settled_ = is_first;
  const auto since_before = [&](Rank rank) {
    const auto it = before.find(rank);
    return it == before.end() ? Epoch{0} : it->second;
  };
  for (Rank rank = 0; rank < place_.size(); ++rank) {
    if (!place_.member(rank).is(Role::worker)) continue;
    if (is_first) store_.set_counted(rank, {}, view.has(rank) ? 0 : kNever);
    if (!view.has(rank) || view.since(rank) != since_before(rank)) {
      store_.drop_unfinished(rank);
      if (is_partial()) store_.forget(rank);
    }
  }
  // A mean that the lost one alone had is formed again without it.
  for (auto& [clock, hashes] : hashes_)
    std::erase_if(hashes, [&](const auto& one) { return !view.has(one.first); });
  if (is_first) return;
  if (place_.comes_back() && !is_proven(before, turn)) leave_run();
  recovery_.begin(live_, senior_worker(turn.place(), view));
  const ControlHeader own = report(turn);
  recovery_.report(turn.self(), own);
  Turn below = within(*control_, turn);
  control_->send(others(), own, {}, {}, below);
}

ControlHeader Sfb::report(Turn& turn) {
  ControlHeader own{.kind = ControlHeader::Kind::report,
                    .epoch = epoch_,
                    .clock = clock_,
                    .is_outside = !knows_model(),
                    .entry = knows_model() ? store_.entry(turn.self()) : 0};
  if (is_partial()) {                                // nobody sends again what others lack
    own.clock += phase_ == Phase::applying ? 1 : 0;  // it waits for nothing more of this one
    own.done.resize(place_.size());
    return own;
  }
  for (Rank rank = 0; rank < place_.size(); ++rank) {
    own.done.push_back(store_.done(rank));
    if (turn.view().has(rank) && turn.view().since(rank) == 0) continue;
    for (const sfb::Span& span : store_.held(rank))
      own.held.push_back({rank, span.from, std::uint32_t(span.end - span.from)});
  }
  if (own.held.size() > sfb::kMostHeld)
    fail(unavailable("more workers were lost at once than a report has room for"), turn);
  return own;
}

void Sfb::receive(Turn& turn) {
  if (!is_settled_) return;  // which clocks count is not known
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
    if (header.kind == ControlHeader::Kind::hash) {
      if (turn.view().has(one->from)) note_hash(one->from, header.clock, header.hash, turn);
    } else if (header.epoch == epoch_) {
      recovery_.report(one->from, header);
    }
  }
  if (!is_settled_ && recovery_.missing().empty()) settle(turn);
}

void Sfb::settle(Turn& turn) {
  is_settled_ = true;
  for (Rank rank = 0; rank < place_.size(); ++rank) {
    if (!place_.member(rank).is(Role::worker)) continue;
    const bool lives = std::binary_search(live_.begin(), live_.end(), rank);
    const bool is_outside = lives && recovery_.is_outside(rank);
    // The others are in one of two clocks, and of the second there may be means already.
    const Round entry = lives ? recovery_.entry(rank, is_eager() ? 1 : 2) : kNever;
    const std::vector<sfb::Span> counted = recovery_.counted(rank);
    store_.set_counted(rank, counted, entry);
    if (is_outside && rank != turn.self()) owed_[rank] = entry;
    if (!knows_model()) store_.begin_at(rank, recovery_.done(turn.self(), rank));
    if (rank == turn.self() && knows_model() && !is_partial()) repeat_own(turn);
    if (lives && !is_outside) continue;
    for (const sfb::Span& span : counted)
      for (Round clock = span.from; clock < span.end; ++clock)
        if (recovery_.donor(rank, clock) == turn.self())
          for (const Rank to : others())
            if (recovery_.lacks(to, rank, clock)) repeat(rank, clock, to, turn);
  }
  if (is_partial()) {
    meeting_ = recovery_.newest();
    send_to_all(turn);
  }
  if (!knows_model() && senior_worker(turn.place(), turn.view()) == turn.self())
    fail(state_lost("all sites that knew the model are lost; resume from a checkpoint"), turn);
}

// What others may not have passed on, also of the clock that it computes; and what one that has
// come back was not there for.
void Sfb::repeat_own(Turn& turn) {
  for (const Rank to : others())
    if (spread_ != sfb::Spread::full || recovery_.is_outside(to))
      for (Round clock = recovery_.done(to, turn.self()); clock <= clock_; ++clock)
        repeat(turn.self(), clock, to, turn);
}

// What it has sent in this view is passed on in this view.
void Sfb::repeat(Rank origin, Round clock, Rank to, Turn& turn) {
  const auto* pieces = store_.find(origin, clock);
  if (!pieces) return;
  for (const auto& [part, piece] : *pieces) {
    if (origin == turn.self() && piece.header.epoch == epoch_) continue;
    sfb::FactorStore::Piece again = piece;
    again.header.epoch = epoch_;
    again.header.repeat = true;
    send({to}, again, turn);
  }
}

}  // namespace longhaul::sync
