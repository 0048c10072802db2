// Sending and receiving of a worker of sync/sfb.h.
#include <algorithm>

#include <xxhash.h>

#include "longhaul/sync/flat.h"
#include "longhaul/sync/sfb.h"

namespace longhaul::sync {
namespace {

constexpr std::size_t kHashBits = 64;

}  // namespace

using sfb::ControlHeader;
using sfb::FactorsHeader;
using sfb::kNever;

Result<bool> Sfb::admit(Rank from, const FactorsHeader& header, const ContentShape& shape) const {
  if (header.epoch > epoch_) return malformed("factors of an epoch that has not begun");
  // A returned worker can receive its own factors of before its loss, if they count.
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

// Returns the last clock that any worker can have begun.
Round Sfb::furthest() const {
  return std::max(clock_ + 1, store_.entry(place_.self)) + config_.staleness + lead_;
}

// Returns true if the factors count and are new. Factors from before the loss of their origin count
// only if another worker resends them in this view.
bool Sfb::counts(const FactorsHeader& header) const {
  const bool lives = std::ranges::binary_search(live_, header.origin);
  const auto since = since_.find(header.origin);
  const bool is_of_now = lives && (since == since_.end() || header.epoch >= since->second);
  if (!is_of_now && !(header.repeat && header.epoch == epoch_)) return false;
  if (is_partial() && (header.clock < store_.entry(place_.self) ||
                       !std::ranges::count(senders_of(header.clock), header.origin)))
    return false;  // the factors were sent in a view with other workers
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
    // The receivers in a new view are known when the view is settled.
    if (piece.header.origin == turn.self() && is_settled_)
      send(receivers_of(piece.header.clock), piece, turn);
    return;
  }
  send(sfb::next_hops(spread_, piece.header.origin, turn.self(), live_, place_), piece, turn);
}

void Sfb::send(const std::vector<Rank>& to, const sfb::FactorStore::Piece& piece, Turn& turn) {
  if (to.empty()) return;
  sent_bytes_ += piece.content.shape().size * to.size();
  factors_->send(to, piece.header, piece.content, {}, within(*factors_, turn));
}

// Enters the view of this turn. In every view but the first of the run, all workers report the
// clocks that they have.
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
  for (const Rank rank : place_.members.with(Role::worker)) {
    if (is_first) store_.set_counted(rank, {}, view.has(rank) ? 0 : kNever);
    if (!view.has(rank) || view.since(rank) != since_before(rank)) {
      store_.drop_unfinished(rank);
      if (is_partial()) store_.forget(rank);
    }
  }
  // A mean that only the lost worker received is computed again without it.
  for (auto& [clock, hashes] : hashes_)
    std::erase_if(hashes, [&](const auto& one) { return !view.has(one.first); });
  if (is_first) return;
  if (place_.comes_back() && !is_proven(before, turn)) leave_run();
  recovery_.begin(live_, senior_worker(turn.place(), view));
  const ControlHeader own = report(turn);
  recovery_.report(turn.self(), own);
  control_->send(others(), own, {}, {}, within(*control_, turn));
}

ControlHeader Sfb::report(Turn& turn) {
  ControlHeader own{.kind = ControlHeader::Kind::report,
                    .epoch = epoch_,
                    .clock = clock_,
                    .is_outside = !knows_model(),
                    .entry = knows_model() ? store_.entry(turn.self()) : 0};
  if (is_partial()) {                                // missing factors are not resent
    own.clock += phase_ == Phase::applying ? 1 : 0;  // this clock needs no more factors
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
  if (!is_settled_) return;  // the clocks that count are not known yet
  factors_->drop_lost();     // survivors resend those factors of a lost peer that count
  while (auto one = factors_->poll(within(*factors_, turn))) {
    const FactorsHeader& header = one->header;
    if (phase_ == Phase::failed || !counts(header)) continue;
    const Status checked = check(header, one->content);
    if (!checked) return fail(broken_by(one->from, checked.error()), turn);
    store_.add(header, one->content);
    // Forwarders differ between views. The origin resends factors that a worker lacks.
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
  control_->drop_lost();
  while (auto one = control_->poll(within(*control_, turn))) {
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
  for (const Rank rank : place_.members.with(Role::worker)) {
    const bool lives = std::ranges::binary_search(live_, rank);
    const bool is_outside = lives && recovery_.is_outside(rank);
    // The other workers are in one of two clocks, and means of the second may exist already.
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
  if (!knows_model() && is_senior(turn))
    fail(state_lost("all sites that knew the model are lost; resume from a checkpoint"), turn);
}

// Resends this worker's factors, including those of the current clock, that other workers lack.
// With direct sends only returned workers can lack them.
void Sfb::repeat_own(Turn& turn) {
  for (const Rank to : others())
    if (spread_ != sfb::Spread::full || recovery_.is_outside(to))
      for (Round clock = recovery_.done(to, turn.self()); clock <= clock_; ++clock)
        repeat(turn.self(), clock, to, turn);
}

// Resends the factors of one origin and clock. The worker's own factors of this view are forwarded
// in this view and not resent.
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

// --- Sfb with partial spread
//
// In each clock, a worker sends its factors to some of the other workers, and in the next clock to
// different ones. A worker therefore has only some gradients of a clock. The models differ until
// the next mean of all models, every mean_every clocks and at the end.
//
// A worker waits for the workers that send to it in its clock, which depend on the view. Workers in
// different clocks learn of a new view, so factors sent by the old view do not match the senders
// that the new view waits for. All workers therefore agree on the newest clock of any worker. The
// factors of this clock go to all workers. Workers in earlier clocks do not wait until then, and
// apply only their own gradients. Factors of a lost worker do not count. The next mean removes the
// resulting differences.

std::vector<Rank> Sfb::workers_of(Round clock) const {
  std::vector<Rank> ranks = live_;
  std::erase_if(ranks, [&](Rank rank) { return store_.entry(rank) > clock; });
  return ranks;
}

std::vector<Rank> Sfb::senders_of(Round clock) const {
  return partners(clock, sfb::partial_senders);
}

std::vector<Rank> Sfb::receivers_of(Round clock) const {
  return partners(clock, sfb::partial_receivers);
}

std::vector<Rank> Sfb::partners(Round clock, decltype(sfb::partial_senders)& by_clock) const {
  std::vector<Rank> workers = workers_of(clock);
  if (clock < meeting_.value_or(0) || !std::ranges::binary_search(workers, place_.self)) return {};
  if (clock != meeting_) return by_clock(clock, place_.self, config_.partial_peers, workers);
  std::erase(workers, place_.self);
  return workers;
}

// Sends this worker's factors of the meeting clock to all workers. Receivers drop copies.
void Sfb::send_to_all(Turn& turn) {
  const auto* pieces = store_.find(turn.self(), *meeting_);
  if (!knows_model() || !pieces) return;
  for (const auto& [part, piece] : *pieces) {
    sfb::FactorStore::Piece again = piece;
    again.header.epoch = epoch_;
    send(receivers_of(*meeting_), again, turn);
  }
}

void Sfb::begin_mixing(Turn& turn) {
  phase_ = Phase::mixing;
  asked_ = turn.now();
  Overlay& overlay = final_.overlay();
  const Status begun =
      overlay.begin({clock_ / config_.mean_every - 1, 0, kBuffersRange}, {},
                    {.values = turn.params(), .length = turn.place().layout->size(), .exact = true},
                    within(overlay, turn));
  if (!begun) fail(begun.error(), turn);
}

bool Sfb::end_mixing(Turn& turn) {
  const auto mean = final_.overlay().poll({clock_ / config_.mean_every - 1, 0, kBuffersRange});
  if (!mean) return false;
  has_mixed_ = true;
  if (!mean->counted.empty()) std::ranges::copy(mean->values, turn.params().begin());
  turn.record("mean_s", clock_ - 1, seconds(turn.now() - asked_));
  finish_clock(turn);
  return true;
}

// --- Sfb: comparison of all copies of the model
//
// If copies differ, the run ends or all workers adopt one copy.
//
// To adopt a copy, all workers must know at the same clock that copies differ, even if a worker is
// lost meanwhile. With "adopt", the comparison is therefore an exchange of the bits of each hash
// through the overlay. The mean of a bit is 0 or 1 if all workers have the same bit. All workers
// get one outcome, and from it the lowest rank that contributed. They wait for the model and the
// optimiser of that rank. When these are adopted, or that rank is lost, all workers compare again.
// The next clock starts when copies are equal.

bool Sfb::is_compared(Turn& turn) const {
  if (is_eager() || turn.place().phantom) return false;
  if (config_.hash_every == 0 || clock_ % config_.hash_every != 0) return false;
  return !is_partial() || clock_ % config_.mean_every == 0;  // at other clocks copies differ
}

std::uint64_t Sfb::hash_of_model(Turn& turn) const {
  const auto w = parameters(turn);
  return XXH64(w.data(), w.size_bytes(), 0);
}

// Sends the hash of the model to all other workers. Equal sums and equal optimisers make equal
// models: a difference means an error in the program or a machine.
void Sfb::send_hash(Turn& turn) {
  const std::uint64_t hash = hash_of_model(turn);
  control_->send(others(),
                 {.kind = sfb::ControlHeader::Kind::hash,
                  .epoch = epoch_,
                  .clock = clock_,
                  .hash = hash,
                  .done = {}},
                 {}, {}, within(*control_, turn));
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
  // The other workers are at most one clock behind.
  while (hashes_.size() > 3) hashes_.erase(hashes_.begin());
}

// Begins an exchange of the hash's bits. An exchange cannot be longer than the model: a model of
// fewer than 64 numbers uses the first bits only.
void Sfb::begin_comparison(Turn& turn) {
  phase_ = Phase::comparing;
  const std::uint64_t hash = hash_of_model(turn);
  std::vector<float> bits(std::min<std::uint64_t>(kHashBits, place_.layout->size()));
  for (std::size_t i = 0; i < bits.size(); ++i) bits[i] = float(hash >> i & 1);
  Overlay& overlay = final_.overlay();
  const Status begun =
      overlay.begin({comparisons_, 0, kHashRange}, {},
                    {.values = bits, .length = bits.size(), .exact = true}, within(overlay, turn));
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
  models_->send(others(), {.comparison = comparisons_ - 1}, VectorContent::bytes(share(ar.take())),
                {}, within(*models_, turn));
}

// Adopts the received model. The figure "adopted" is 1 if the parameters of this worker changed.
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

// A model can arrive before this worker knows that copies differ. A worker sends at most one model
// per comparison. All workers wait for the model of the lowest rank.
void Sfb::receive_model(Turn& turn) {
  if (!adopts()) return;
  models_->drop_lost();
  const Round awaited = phase_ == Phase::adopting ? comparisons_ - 1 : comparisons_;
  while (auto one = models_->poll(within(*models_, turn)))
    if (one->header.comparison == awaited && (!given_ || one->from < given_->from))
      given_ = {one->from, one->content.bytes()};
}

// --- Sfb: returned workers, their state and their entry clock
//
// All workers of a view compute the same entry clock for a worker that is outside (sfb/recovery.h).
// With staleness 0, the senior worker sends its state at this clock, so that all workers begin the
// clock with one model. Until then the returned worker takes part in the means of the rest without
// a contribution. With staleness, the senior worker sends its current state, and all workers send
// the factors that the state lacks.
//
// The state may hold gradients of a lost worker that only the sender of the state had. The sender
// may be lost next. A returned worker therefore stays unproven until all workers have shown that
// they have these gradients (proof_). In a new view, an unproven worker drops its model and begins
// again outside. Its sent factors then count like those of a lost worker.

// Returns true if this worker can keep its model in the new view. A worker that has sent clock c
// has all clocks before c - s. Only workers of the view before are checked.
bool Sfb::is_proven(const std::map<Rank, Epoch>& before, Turn& turn) const {
  if (phase_ == Phase::outside) return false;
  // Copies may differ. But in a new view the overlay forgets the exchanges of a returned worker
  // that has had no mean yet. The other workers may have this mean. If none of them has taken part
  // since the start, the next mean may be known to none.
  if (is_partial()) {
    const bool has_founder =
        std::ranges::any_of(live_, [&](Rank rank) { return turn.view().since(rank) == 0; });
    return has_mixed_ || (has_founder && phase_ != Phase::mixing);
  }
  if (phase_ == Phase::averaging || phase_ == Phase::ended || phase_ == Phase::failed) return true;
  const View& view = turn.view();
  if (!has_factors() || senior_worker(turn.place(), view) == turn.self()) return true;
  return std::ranges::all_of(live_, [&](Rank rank) {
    const auto it = before.find(rank);
    const bool is_new = view.since(rank) != (it == before.end() ? Epoch{0} : it->second);
    return is_new || rank == turn.self() || store_.done(rank) >= proof_;
  });
}

void Sfb::leave_run() {
  if (knows_model()) {  // a worker that knows nothing accepts verdicts of any round
    Archive nothing;
    StopRule(StopConfig{}).hand_over(nothing);
    const Buffer bytes = nothing.take();
    Archive ar(bytes);
    stop_.hand_over(ar);
    LH_CHECK(ar.finish());
  }
  phase_ = Phase::outside;
  has_mixed_ = false;
  store_.clear();
  applied_.clear();
  hashes_.clear();
  means_.clear();
  extras_.reset();
}

// --- at the other workers

// Returns true if a returned worker is to begin this clock with this worker's model.
bool Sfb::gives_state(Turn& turn) const {
  if (is_eager() || !is_settled_ || phase_ != Phase::deciding) return false;
  return is_senior(turn) &&
         std::ranges::any_of(owed_, [&](const auto& one) { return one.second == clock_; });
}

void Sfb::hand_over(Turn& turn) {
  const bool is_last = phase_ == Phase::ended;
  if (is_last && copies_differ()) {
    final_return_.serve(within(final_return_, turn));
  }
  const bool is_still = phase_ == Phase::ready || phase_ == Phase::deciding ||
                        phase_ == Phase::flushing || phase_ == Phase::averaging || is_last;
  if (owed_.empty() || !is_settled_ || !is_still || turn.learner_is_busy() || !is_senior(turn))
    return;
  const bool is_over = phase_ == Phase::flushing || phase_ == Phase::averaging;
  const bool at_entry = !is_eager() && !is_last && !is_over;
  if (at_entry && (!gives_state(turn) || !optimizer_.ready(turn))) return;
  // The other workers resend the factors that this worker lacked in its report.
  if (is_eager() && !is_last && phase_ != Phase::averaging) apply_arrived(turn);
  Handed handed{
      .epoch = epoch_, .clock = clock_, .samples = samples_, .is_over = is_over, .done = {}};
  for (const Rank rank : place_.members.with(Role::worker))
    handed.done[rank] = is_eager()     ? applied_[rank]
                        : is_partial() ? clock_
                                       : std::min(clock_, store_.done(rank));
  Archive ar;
  archive_for_returned(ar, handed, turn);
  const Bytes bytes = share(ar.take());
  std::erase_if(owed_, [&](const auto& one) {
    if (at_entry && one.second != clock_) return false;
    state_transfer_.send(one.first, {clock_, is_last, bytes}, within(state_transfer_, turn));
    return true;
  });
  optimizer_.forget();
}

void Sfb::archive_for_returned(Archive& ar, Handed& handed, Turn& turn) {
  ar.expect("sfb");
  ar(handed, optimizer_);
  outer_->state(ar);
  stop_.hand_over(ar);
  ar.floats(turn.params());
}

// --- at the returned worker

bool Sfb::come_in(Turn& turn) {
  if (!is_settled_ || turn.learner_is_busy()) return false;
  const bool is_at_entry = is_eager() || stand_in(turn);
  const StateTransfer::TransferredState* received = state_transfer_.received();
  if (phase_ == Phase::failed || !received) return false;
  return take_state(is_at_entry || received->last, turn);
}

// Takes part, without a contribution, in each mean of the rest and of the buffers before this
// worker's entry clock. Returns true if the entry clock is the next one in every range.
bool Sfb::stand_in(Turn& turn) {
  Overlay& overlay = final_.overlay();
  bool is_at_entry = true;
  for (const auto& [range, length] : mean_lengths()) {
    const bool is_of_models = is_partial() && range == kBuffersRange;
    const Round entry = store_.entry(turn.self()) / (is_of_models ? config_.mean_every : 1);
    if (const auto it = stands_.find(range); it != stands_.end())
      (void)overlay.poll({it->second, 0, range});  // discarded: no model to apply it to
    const auto next = overlay.next_round(0, range);
    is_at_entry &= next && *next >= entry;
    if (!next || *next >= entry) continue;
    const auto stands = stands_.find(range);
    if (stands != stands_.end() && stands->second == *next) continue;
    stands_[range] = *next;
    const Status begun = overlay.begin(
        {*next, 0, range}, {},
        {.values = {}, .length = length, .contributes = false, .exact = range == kBuffersRange},
        within(overlay, turn));
    if (!begun) fail(begun.error(), turn);
  }
  return is_at_entry;
}

// Applies the received state. A worker that waits for its entry clock takes only a state from the
// end of the run.
bool Sfb::take_state(bool is_at_entry, Turn& turn) {
  const StateTransfer::TransferredState received = *state_transfer_.received();
  Handed handed;
  Archive head(*received.bytes);
  head.expect("sfb");
  head(handed);
  const bool is_of_view = head.failed() || handed.epoch == epoch_;
  if (is_of_view && !head.failed() && !is_at_entry && !handed.is_over) return false;
  state_transfer_.drop_received();
  if (!is_of_view) return false;  // the sender sends another
  Archive ar(*received.bytes);
  archive_for_returned(ar, handed, turn);
  Status read = ar.finish();
  const Round entry = store_.entry(turn.self());
  const auto is_far = [&](const auto& one) { return one.second > furthest() + 1; };
  if (read && (handed.clock != received.round || !outer_->fits(parameter_count(turn.place()))))
    read = malformed("it is of a model of another size");
  if (read && !received.last &&
      (handed.clock > entry || (!is_eager() && !handed.is_over && handed.clock != entry) ||
       std::ranges::any_of(handed.done, is_far)))
    read = malformed("it is of clock " + std::to_string(handed.clock) + "; expected " +
                     std::to_string(entry));
  if (!read)
    return fail(malformed("the state that was received is none of this job: " + read.error().what),
                turn),
           false;
  clock_ = handed.clock;
  samples_ = handed.samples;
  state_transfer_.confirm(within(state_transfer_, turn));
  if (received.last) {
    phase_ = Phase::ended;
    turn.finish();
    return false;
  }
  begin_from(handed, turn);
  return true;
}

void Sfb::begin_from(const Handed& handed, Turn& turn) {
  Round newest = clock_;
  for (const auto& [rank, done] : handed.done) {
    store_.begin_at(rank, done);
    newest = std::max(newest, done);
  }
  proof_ = newest + config_.staleness + 1;
  asked_ = turn.now();
  if (is_eager() || handed.is_over) {
    applied_ = handed.done;
    phase_ = handed.is_over ? Phase::flushing : Phase::entering;
    return;
  }
  phase_ = Phase::restoring;
  optimizer_.on_returned();
  if (!optimizer_.set(turn)) phase_ = Phase::deciding;
}

// Passes the clocks before this worker's first, if there are any, with the received model. With
// staleness the other workers may be ahead of the sender of the state, and the run may end before
// this worker's first clock.
bool Sfb::enter_run(Turn& turn) {
  while (clock_ < store_.entry(turn.self())) {
    const StopRule::Step step = clock_ == 0 ? StopRule::Step::go_on : stop_.after(clock_ - 1);
    if (step == StopRule::Step::wait) return false;
    if (step == StopRule::Step::stop) {
      phase_ = Phase::flushing;
      return true;
    }
    ++clock_;
    stop_.round_done(clock_ - 1, turn.params(), samples_, within(stop_, turn));
  }
  phase_ = Phase::deciding;
  return true;
}

}  // namespace longhaul::sync
