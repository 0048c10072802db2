#include "longhaul/overlay/agreed.h"

#include <numeric>

#include "longhaul/overlay/rank_bits.h"
#include "longhaul/overlay/scene.h"

namespace longhaul::overlay {
namespace {
constexpr std::size_t kMostSequences = 64;
}

AgreedMean::AgreedMean(const Place& place, OverlayParts parts, std::unique_ptr<Topology> path)
    : place_(place),
      transfer_(std::move(parts.transfer)),
      topology_(std::move(path)),
      coder_(place_.phantom, parts.make_codec(true), parts.make_codec(false)),
      newcomer_(place.comes_back()) {
  LH_CHECK(transfer_ && topology_);
  own(*transfer_);
  transfer_->attach(*this);
  View all{0, std::vector<Rank>(place_.size())};
  std::iota(all.live.begin(), all.live.end(), Rank{0});
  team_.self = place_.self;
  team_.workers = live_with(Role::worker, place_, all);
  form_team(all);
}

AgreedMean::~AgreedMean() = default;

// Strategies exchange parameters, buffers and a few figures; more than twice the model is a lie.
std::uint64_t AgreedMean::longest_vector() const { return 2 * place_.layout->size() + 1024; }

Status AgreedMean::begin(const VectorId& key, const Contribution& given, Turn& turn) {
  LH_CHECK(team_.takes_part() && given.length > 0 && given.length <= longest_vector());
  LH_CHECK(!given.contributes || (given.weight > 0 && given.weight <= kMostWeight));
  LH_CHECK(given.values.size() == (place_.phantom ? 0 : given.length));
  if (given.contributes && !all_finite(given.values))
    return not_finite("a value to average in round " + std::to_string(key.round) +
                      " is not finite; training has diverged: lower [optimizer] rate");
  const auto found = sequence({key.group, key.range}, given.length, given.exact);
  if (!found) return found.error();
  Sequence& sequence = **found;
  // Whoever has come back may stand in for a round a second time.
  if (newcomer() && sequence.begun && key.round == sequence.next && !given.contributes) return Ok{};
  LH_CHECK(!sequence.begun && key.round == sequence.next);
  sequence.begun = true;
  sequence.outcome = false;
  sequence.weight = given.contributes ? given.weight : 0;
  if (given.contributes) sequence.values.assign(given.values.begin(), given.values.end());
  if (unheard_.empty()) give(sequence, turn);
  measure(turn);
  return Ok{};
}

std::optional<Outcome> AgreedMean::poll(const VectorId& key) {
  Sequence* sequence = find({key.group, key.range});
  if (!sequence || !sequence->outcome || sequence->mean.round != key.round) return std::nullopt;
  sequence->outcome = false;
  const Mean& mean = sequence->mean;  // stays: others may have to fetch it
  return Outcome{mean.values, mean.weight, mean.counted, mean.epoch};
}

Sequence* AgreedMean::find(Id id) {
  const auto it = sequences_.find(id);
  return it == sequences_.end() ? nullptr : &it->second;
}

const Sequence* AgreedMean::find(Id id) const {
  const auto it = sequences_.find(id);
  return it == sequences_.end() ? nullptr : &it->second;
}

Grid AgreedMean::grid_of(std::uint64_t length) const {
  return Grid(length, topology_->shards(std::uint32_t(team_.workers.size())),
              topology_->longest(length, place_.longest_piece()));
}

Result<Sequence*> AgreedMean::sequence(Id id, std::uint64_t length, bool exact) {
  if (Sequence* known = find(id)) {
    if (known->grid.length() == length && known->exact == exact) return known;
    return invalid("vectors of " + std::to_string(known->grid.length()) + " and of " +
                   std::to_string(length) +
                   " values, or unlike codings, in one mean; run the same job on all sites");
  }
  if (sequences_.size() >= kMostSequences) return malformed("too many groups and ranges");
  if (length > longest_vector())
    return malformed("vector of " + std::to_string(length) + " values, longer than the model");
  Sequence& fresh = sequences_[id];
  std::tie(fresh.group, fresh.range) = id;
  fresh.exact = exact;
  fresh.borrowed = newcomer();
  fresh.next = fresh.lowest = told(id);
  fresh.grid = grid_of(length);
  return &fresh;
}

// --- what peers say

Result<AgreedMean::When> AgreedMean::when(Epoch epoch, const CodecKey& vector) const {
  if (epoch > team_.epoch) return malformed("message of an epoch to come");
  const Sequence* sequence = find({vector.group, vector.range});
  const Round lowest = sequence ? sequence->lowest : told({vector.group, vector.range});
  if (epoch < team_.epoch || vector.round < lowest) return When::late;
  if (vector.round > lowest + 1)
    return malformed("message of round " + std::to_string(vector.round) + "; a peer can be in " +
                     std::to_string(lowest) + " or in the next");
  return When::now;
}

void AgreedMean::late(const CodecKey& vector, Turn& turn) { turn.record("late", vector.round, 1); }

Status AgreedMean::on_message(Rank from, const Message& message, Turn& turn) {
  return dispatch(Messages{}, message,
                  [&](const auto& one) -> Status { return take(from, one, turn); });
}

Status AgreedMean::take(Rank from, const Share& share, Turn& turn) {
  if (share.vector.origin != from) return malformed("share of somebody else");
  if (newcomer()) LH_TRY(follow(share));
  const auto when = this->when(share.epoch, share.vector);
  if (!when) return when.error();
  if (*when == When::late) {
    late(share.vector, turn);
    return Ok{};
  }
  if (!team_.takes_part() && team_.server != team_.self)
    return malformed("share for a node without a part in this exchange");
  const auto found = sequence({share.vector.group, share.vector.range}, share.length, share.exact);
  if (!found) return found.error();
  Sequence& sequence = **found;
  Scene scene(*this, sequence, share.vector.round, turn.now());
  LH_TRY(attempt(sequence, share.vector.round).take_share(from, share, scene));
  Turn below = within(*transfer_, turn);
  scene.carry_out(turn, below);
  settle(sequence, turn);
  return Ok{};
}

Status AgreedMean::take(Rank from, const Roster& roster, Turn& turn) {
  const auto when = this->when(roster.epoch, roster.vector);
  if (!when) return when.error();
  if (*when == When::late) {
    late(roster.vector, turn);
    return Ok{};
  }
  Sequence* sequence = find({roster.vector.group, roster.vector.range});
  const Round round = roster.vector.round;
  if (!sequence || !sequence->begun || round != sequence->next || roster.vector.origin != from)
    return malformed("roster of a round that lacks this node's part");
  const auto attempt = sequence->attempts.find(round);
  const bool awaited = sequence->source ? *sequence->source == from
                                        : attempt != sequence->attempts.end() &&
                                              attempt->second->contributed() &&
                                              plan_of(*sequence, round)->root() == from;
  if (!awaited || (sequence->mean.round == round && sequence->mean.rostered))
    return malformed("roster that was not awaited");
  std::vector<Rank> counted = from_bits(roster.counted);
  if (!counted.empty() && counted.back() >= place_.size())
    return malformed("roster with a rank that is not in the job");
  if (counted.empty() != (roster.weight == 0)) return malformed("roster of nobody with a weight");
  if (roster.formed > roster.epoch) return malformed("roster of an epoch to come");
  put_roster(*sequence, round, std::move(counted), roster.weight, roster.formed);
  settle(*sequence, turn);
  return Ok{};
}

// What a node tells itself stands in no queue, but a view may overtake it.
Status AgreedMean::take(Rank from, const Note& note, Turn& turn) {
  const VectorId& key = note.vector;
  if (note.vector.origin != from) return malformed("note in another's name");
  const auto when = this->when(note.epoch, note.vector);
  if (!when) return when.error();
  if (!team_.index_of(from) && team_.server != from) return malformed("note of who takes no part");
  Sequence* sequence = find({key.group, key.range});
  // An attempt that still serves others hears them when its round is over here.
  if (!sequence || note.epoch < team_.epoch || !sequence->attempts.contains(key.round)) {
    if (*when != When::late && from != team_.self) return malformed("note without a share before");
    late(note.vector, turn);
    return Ok{};
  }
  Scene scene(*this, *sequence, key.round, turn.now());
  const Status heard = sequence->attempts.at(key.round)->take_note(from, note, scene);
  if (!heard && from != team_.self) return heard;
  Turn below = within(*transfer_, turn);
  scene.carry_out(turn, below);
  settle(*sequence, turn);
  return Ok{};
}

void AgreedMean::on_timer(TimerId, Turn& turn) {
  alarm_.reset();
  for (auto& [id, sequence] : sequences_) {
    for (const auto& [round, attempt] : sequence.attempts) {
      if (!attempt->due() || *attempt->due() > turn.now()) continue;
      Scene scene(*this, sequence, round, turn.now());
      attempt->on_time(scene);
      Turn below = within(*transfer_, turn);
      scene.carry_out(turn, below);
    }
    settle(sequence, turn);
  }
  wind(turn);
}

// --- an attempt and its mean

Attempt& AgreedMean::attempt(Sequence& sequence, Round round) {
  auto& attempt = sequence.attempts[round];
  if (!attempt)
    attempt =
        topology_->open({sequence.key(round), sequence.exact, &team_, plan_of(sequence, round)});
  return *attempt;
}

void AgreedMean::give(Sequence& sequence, Turn& turn) {
  const VectorId key = sequence.key(sequence.next);
  sequence.held = topology_->hold(key).has_value();
  if (sequence.held) return;
  topology_->given(key);
  Scene scene(*this, sequence, sequence.next, turn.now());
  sequence.sent.assign(sequence.grid.pieces(), false);
  attempt(sequence, sequence.next).contribute(sequence.grid.length(), sequence.weight, scene);
  Turn below = within(*transfer_, turn);
  scene.carry_out(turn, below);
  settle(sequence, turn);
}

void AgreedMean::open_mean(Sequence& sequence, Round round) {
  Mean& mean = sequence.mean;
  if (mean.kept && mean.round == round) return;
  // Whoever fetched the last mean and contributed to this one has it, or lied about needing it.
  if (!served_.empty()) transfer_->cancel(repair_key(sequence), std::nullopt);
  std::vector<float> values = std::move(mean.values);
  values.resize(place_.phantom ? 0 : sequence.grid.length());
  const std::size_t pieces = sequence.grid.pieces();
  mean = {.kept = true,
          .round = round,
          .values = std::move(values),
          .have = std::vector<bool>(pieces),
          .missing = pieces,
          .rostered = false,
          .counted = {},
          .weight = 0,
          .epoch = 0};
  sequence.outcome = false;
}

bool AgreedMean::has_piece(const Sequence& sequence, Round round, std::size_t piece) const {
  return sequence.mean.kept && sequence.mean.round == round && sequence.mean.have[piece];
}

void AgreedMean::put_piece(Sequence& sequence, Round round, std::size_t piece,
                           std::span<const float> values) {
  open_mean(sequence, round);
  LH_CHECK(!sequence.mean.have[piece]);
  sequence.mean.have[piece] = true;
  --sequence.mean.missing;
  const Range range = sequence.grid.range(piece);
  if (place_.phantom) return;
  std::copy(values.begin(), values.end(),
            sequence.mean.values.begin() + std::ptrdiff_t(range.offset));
}

void AgreedMean::put_roster(Sequence& sequence, Round round, std::vector<Rank> counted,
                            double weight, Epoch formed) {
  open_mean(sequence, round);
  Mean& mean = sequence.mean;
  mean.rostered = true;
  mean.counted = std::move(counted);
  mean.weight = weight;
  mean.epoch = formed;
  if (mean.counted.empty()) mean.values.clear();
}

// After anything that may have completed a round here.
void AgreedMean::settle(Sequence& sequence, Turn& turn) {
  const Mean& mean = sequence.mean;
  if (sequence.begun && mean.whole() && mean.round == sequence.next) {
    if (sequence.weight > 0)
      coder_.settle(sequence.vector(mean.round, team_.self), Coding::up, Codec::Fate::delivered);
    tell_ended(sequence, sequence.next, turn);
    sequence.lowest = ++sequence.next;
    sequence.begun = sequence.borrowed = false;
    sequence.source.reset();
    sequence.values = {};
    sequence.outcome = true;
  }
  for (auto it = sequence.attempts.begin(); it != sequence.attempts.end();) {
    const auto& [round, attempt] = *it++;
    if (!team_.takes_part() && attempt->reduced()) {
      sequence.next = std::max(sequence.next, round + 1);
      sequence.lowest = std::max(sequence.lowest, round + 1);
    }
    const bool empty = mean.kept && mean.round == round && mean.rostered && mean.counted.empty();
    if (round < sequence.lowest && (attempt->drained() || empty)) drop(sequence, round);
  }
  forget_plans(sequence);
  wind(turn);
}

// One timer, for whatever is due first.
void AgreedMean::wind(Turn& turn) {
  std::optional<Time> first;
  for (const auto& [id, sequence] : sequences_)
    for (const auto& [round, attempt] : sequence.attempts)
      if (const auto due = attempt->due(); due && (!first || *due < *first)) first = due;
  if (first == alarm_) return;
  alarm_ = first;
  first ? turn.set_timer(TimerId{0}, *first) : turn.cancel_timer(TimerId{0});
}

void AgreedMean::drop(Sequence& sequence, Round round) {
  const auto attempt = sequence.attempts.find(round);
  if (attempt == sequence.attempts.end()) return;
  for (const TransferKey& key : attempt->second->posted()) transfer_->cancel(key, std::nullopt);
  sequence.attempts.erase(attempt);
  topology_->close(sequence.key(round));
}

// --- pieces

Status AgreedMean::admit(Rank from, const TransferKey& key, Range range) {
  const auto when = this->when(key.epoch, key.vector);
  if (!when) return when.error();
  if (*when == When::late) return Ok{};  // decode() makes nothing of it
  const Sequence* sequence = find({key.vector.group, key.vector.range});
  if (!sequence) return malformed("piece of a vector nobody has spoken of");
  const auto piece = sequence->grid.find(range);
  if (!piece) return malformed("piece that is none of the cut of this vector");
  const Round round = key.vector.round;
  const Phase phase = Phase(key.phase);
  const auto attempt = sequence->attempts.find(round);
  if (attempt != sequence->attempts.end() && attempt->second->stale(from, key, *piece)) return Ok{};
  if (phase != Phase::part && has_piece(*sequence, round, *piece))
    return malformed("piece of a mean for the second time");
  if (phase == Phase::repair) {
    const bool good = sequence->source == from && round == sequence->next &&
                      key.vector.origin == from && key.coding == Coding::exact;
    return good ? Status(Ok{}) : malformed("repair that was not asked for");
  }
  if (phase > Phase::repair || attempt == sequence->attempts.end())
    return malformed("piece without a share before it");
  LH_TRY(attempt->second->admit(from, key, *piece));
  // Else a liar could end the round while parts wait for room, which are read from its vector.
  if (phase == Phase::mean && sequence->weight > 0 && !sequence->sent.at(*piece))
    return malformed("piece of a mean that lacks this node's part");
  return Ok{};
}

Result<std::vector<float>> AgreedMean::decode(const TransferKey& key, Range range,
                                              const Payload& bytes) {
  const auto when = this->when(key.epoch, key.vector);
  if (!when) return when.error();
  if (*when == When::late) return std::vector<float>{};
  auto values = coder_.read(key.vector, key.coding, range, bytes);
  if (values && Phase(key.phase) == Phase::mean) arrived_bytes_.push_back({key, range, bytes});
  return values;
}

void AgreedMean::on_progress(Turn& turn) {
  while (auto arrival = transfer_->arrived()) arrived(std::move(*arrival), turn);
  measure(turn);
  arrived_bytes_.clear();
  for (auto& [id, sequence] : sequences_)
    if (!sequence.attempts.empty()) settle(sequence, turn);  // some may have been sent out
}

void AgreedMean::arrived(Arrival&& arrival, Turn& turn) {
  const TransferKey key = arrival.key;
  const auto when = this->when(key.epoch, key.vector);
  if (!when || *when == When::late) return late(key.vector, turn);
  Sequence& sequence = *find({key.vector.group, key.vector.range});
  const std::size_t piece = sequence.grid.find(arrival.range).value();
  const Round round = key.vector.round;
  const auto under_way = sequence.attempts.find(round);
  if (under_way != sequence.attempts.end() && under_way->second->stale(arrival.from, key, piece))
    return late(key.vector, turn);
  topology_->came(arrival.from, coder_.size(key.coding, arrival.range.length), turn.now());
  if (Phase(key.phase) == Phase::repair) {
    put_piece(sequence, round, piece, arrival.values);
    return settle(sequence, turn);
  }
  Payload bytes;
  for (const Arrived& one : arrived_bytes_)
    if (one.key == key && one.range == arrival.range) bytes = one.bytes;
  Scene scene(*this, sequence, round, turn.now(), std::move(bytes));
  if (!attempt(sequence, round).take(std::move(arrival), piece, scene))
    turn.record("refused", round, 1);
  Turn below = within(*transfer_, turn);
  scene.carry_out(turn, below);
  settle(sequence, turn);
}

std::string AgreedMean::waiting_for() const {
  if (!unheard_.empty())
    return "epoch " + std::to_string(team_.epoch) + ": reports of " +
           list_ranks({unheard_.begin(), unheard_.end()});
  for (const auto& [id, sequence] : sequences_) {
    if (!sequence.begun) continue;
    const std::string which = id == Id{0, 0} ? ""
                                             : " (group " + std::to_string(id.first) + ", range " +
                                                   std::to_string(id.second) + ")";
    if (sequence.source)
      return "round " + std::to_string(sequence.next) + which + ": repair from " +
             std::to_string(*sequence.source);
    if (sequence.held)
      return "round " + std::to_string(sequence.next) + which + ": " +
             topology_->hold(sequence.key(sequence.next)).value_or("");
    const bool some = sequence.mean.kept && sequence.mean.round == sequence.next;
    return sequence.attempts.at(sequence.next)
               ->waiting_for(some ? sequence.mean.have : std::vector<bool>{}) +
           which;
  }
  return "";
}

void AgreedMean::state(Archive& ar) {
  ar.expect("agreed mean");
  ar(team_, unheard_, reports_, served_);
  ar(newcomer_, told_, alarm_);
  ar(given_);
  topology_->state(ar);
  coder_.state(ar);
  std::uint64_t count = sequences_.size();
  ar(count);
  if (ar.loading()) sequences_.clear();
  auto known = sequences_.begin();
  for (std::uint64_t i = 0; i < count && !ar.failed(); ++i) {
    Id id = ar.loading() ? Id{} : known->first;
    std::uint64_t length = ar.loading() ? 0 : known->second.grid.length();
    bool exact = !ar.loading() && known->second.exact;
    ar(id, length, exact);
    if (ar.failed() || length == 0) return ar.fail("holds an exchange without values");
    const auto sequence = this->sequence(id, length, exact);
    if (!sequence) return ar.fail("holds an exchange that does not fit the model");
    state(ar, **sequence);
    if (!ar.loading()) ++known;
  }
}

void AgreedMean::state(Archive& ar, Sequence& sequence) {
  ar(sequence.next, sequence.lowest, sequence.borrowed);
  ar(sequence.begun, sequence.held, sequence.values, sequence.weight);
  ar(sequence.sent);
  ar(sequence.mean, sequence.outcome, sequence.source);
  std::vector<Round> rounds;
  for (const auto& [round, attempt] : sequence.attempts) rounds.push_back(round);
  ar(rounds);
  if (ar.loading()) sequence.attempts.clear();
  if (!rounds.empty() && team_.members.empty()) return ar.fail("holds attempts of nobody");
  for (const Round round : rounds) attempt(sequence, round).state(ar);
}

}  // namespace longhaul::overlay
