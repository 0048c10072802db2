#pragma once
// An Exchange is a node's state of one (group, range): the rounds of one vector. It holds the
// node's own contribution to the current round and the attempts to form its mean. The newest mean
// is kept for members that may have to fetch it. Owned by a Group (group.h), which decides when
// attempts begin, end and are repeated.
//
// Rounds count 0, 1, 2 ... without a gap, and all vectors have one length. A peer may be one round
// ahead.
#include <map>
#include <optional>

#include "longhaul/core/coder.h"
#include "longhaul/overlay/messages.h"
#include "longhaul/overlay/topology.h"

namespace longhaul::overlay {

// The objects that all groups of one node share. Owned by AgreedMean.
struct Common {
  const Place place;
  const std::unique_ptr<Transfer> transfer;
  const std::unique_ptr<Topology> topology;
  Coder coder;
  const RankList workers;         // all workers of the job, live or lost
  View view;                      // the newest
  std::map<Rank, Epoch> changed;  // lost and returned ranks, and the newest view of such a change
  // A piece of a mean as it arrived, kept while it is taken.
  struct Arrived {
    TransferKey key;
    Range range;
    Payload bytes;
  };
  std::vector<Arrived> arrived = {};

  static constexpr std::uint8_t kTransfer = 0;  // the transfer's number among AgreedMean's children

  bool newcomer() const { return place.comes_back(); }
  // Returns the newest view in which one of these ranks, or a server, was lost or returned. All
  // these ranks get the same result, however else their views differ.
  Epoch epoch_of(const RankList& ranks) const {
    Epoch newest = 0;
    for (const auto& [rank, epoch] : changed)
      if (ranks.has(rank) || place.member(rank).is(Role::server)) newest = std::max(newest, epoch);
    return newest;
  }

  // Returns the length of the longest vector that a peer may announce. Strategies exchange
  // parameters, buffers and a few figures; more than twice the model is a lie.
  std::uint64_t longest_vector() const { return 2 * place.layout->size() + 1024; }
};

// Counts a late message, which is not the sender's fault.
inline Status late(Round round, Turn& turn) {
  turn.record("late", round, 1);
  return Ok{};
}

// A mean that is assembled piece by piece. At most one is kept per exchange: that of the last
// round, until the first piece of the next shows that all members have the last.
struct Mean {
  bool kept = false;  // false: no mean
  Round round = 0;
  std::vector<float> values;  // phantom: none
  std::vector<bool> have;     // by piece
  std::size_t missing = 0;
  bool has_contributors = false;
  RankList counted;
  double weight = 0;
  Epoch epoch = 0;  // epoch in which it was formed

  bool whole() const { return kept && has_contributors && (missing == 0 || counted.empty()); }
  void state(auto& ar) {
    ar(kept, round, values, have, missing, has_contributors, counted, weight, epoch);
  }
};

// Returns null if the map lacks `key`.
template <class Map>
auto* find_in(Map& map, const typename Map::key_type& key) {
  const auto at = map.find(key);
  return at == map.end() ? nullptr : &at->second;
}

class Exchange {
 public:
  // `first`: group, range, and the first round here. `length` > 0. `team`: the group's, which
  // outlives the exchange.
  Exchange(Common& common, const GroupMembers& team, const VectorId& first, std::uint64_t length,
           bool exact)
      : common_(common),
        team_(team),
        group_(first.group),
        range_(first.range),
        exact_(exact),
        grid_(common.topology->cut(length, team.shards(), common.place.longest_piece())),
        next_(first.round),
        lowest_(first.round) {}

  // --- the owner of the overlay
  void begin(Round round, const Contribution& given) {
    // A returned node may begin a round without a contribution a second time.
    if (common_.newcomer() && begun_ && round == next_ && !given.contributes) return;
    LH_CHECK(!begun_ && round == next_);
    begun_ = true;
    knows_round_ = given.knows_round;
    outcome_ = false;
    opener.reset();
    weight_ = given.contributes ? given.weight : 0;
    wants_own_ = given.wants_own;
    if (given.contributes) values_.assign(given.values.begin(), given.values.end());
  }

  // Contributes to the round that has begun, unless the topology holds it back.
  void contribute(Turn& turn) {
    const VectorId key = id(next_);
    TopologyOutput output;
    common_.topology->on_ready(key, grid_, output);
    output.carry_out(team_.epoch, turn);
    held_ = common_.topology->standing(key).hold.has_value();
    if (held_) return;
    common_.topology->on_contributed(key, turn.now());
    AttemptContext context = this->context(next_, turn.now());
    sent_.assign(grid_.pieces(), false);
    attempt(next_).contribute(grid_.length(), weight_, context);
    carry_out(next_, context, turn);
    settle(turn);
  }

  std::optional<Outcome> poll(Round round) {
    if (!outcome_ || mean_.round != round) return std::nullopt;
    outcome_ = false;  // the mean stays: others may have to fetch it
    return Outcome{mean_.values, mean_.weight, mean_.counted, mean_.epoch, std::move(own_)};
  }

  // --- messages and pieces of this epoch, of rounds that have not ended, at most one ahead
  Status take(Rank from, const Announcement& share, Turn& turn) {
    const Round round = share.vector.round;
    if (!common_.topology->standing(id(round)).known)
      return malformed("share of a round whose trees no node can know yet");
    AttemptContext context = this->context(round, turn.now());
    LH_TRY(attempt(round).take_announcement(from, share, context));
    if (!decided) announced_.insert(from);
    carry_out(round, context, turn);
    settle(turn);
    return Ok{};
  }

  Status take(Rank from, const Contributors& roster, Turn& turn) {
    const Round round = roster.vector.round;
    if (!begun_ || round != next_ || roster.vector.origin != from)
      return malformed("roster of a round that lacks this node's part");
    const auto attempt = attempts_.find(round);
    const bool awaited = source_ ? *source_ == from
                                 : attempt != attempts_.end() && attempt->second->contributed() &&
                                       plan_of(round)->root() == from;
    if (!awaited || (mean_.round == round && mean_.has_contributors))
      return malformed("roster that was not awaited");
    RankList counted =
        common_.place.members.once("counted", std::as_bytes(std::span(roster.counted)),
                                   [&] { return from_bits(roster.counted); });
    if (!counted.empty() && counted.back() >= common_.place.size())
      return malformed("roster with a rank that is not in the job");
    if (counted.empty() != (roster.weight == 0)) return malformed("roster of nobody with a weight");
    if (roster.formed > roster.epoch) return malformed("roster of an epoch to come");
    put_contributors(round, std::move(counted), roster.weight, roster.formed);
    settle(turn);
    return Ok{};
  }

  // An attempt that still serves others takes messages after its round has ended here.
  Status take(Rank from, const AttemptMessage& note, Turn& turn) {
    const Round round = note.vector.round;
    const auto attempt = attempts_.find(round);
    if (attempt == attempts_.end()) {
      if (round >= lowest_ && from != team_.self) return malformed("note without a share before");
      return late(round, turn);
    }
    AttemptContext context = this->context(round, turn.now());
    const Status heard = attempt->second->take_message(from, note, context);
    if (!heard && from != team_.self) return heard;
    carry_out(round, context, turn);
    settle(turn);
    return Ok{};
  }

  Status admit(Rank from, const TransferKey& key, Range range) const {
    const auto piece = grid_.find(range);
    if (!piece) return malformed("piece that is none of the cut of this vector");
    const Round round = key.vector.round;
    const Phase phase = Phase(key.phase);
    const auto attempt = attempts_.find(round);
    const bool known = attempt != attempts_.end();
    const Result<bool> wanted =
        known ? attempt->second->admit(from, key, *piece) : Result<bool>(true);
    if (wanted && !*wanted) return Ok{};
    if (phase != Phase::part && has_piece(round, *piece))
      return malformed("piece of a mean for the second time");
    if (phase == Phase::repair) {
      const bool good = source_ == from && round == next_ && key.vector.origin == from &&
                        key.coding == Coding::exact;
      return good ? Status(Ok{}) : malformed("repair that was not asked for");
    }
    if (phase > Phase::repair || !known) return malformed("piece without a share before it");
    if (!wanted) return wanted.error();
    // Otherwise a liar could end the round while parts, which are read from `values_`, wait for
    // room.
    if (phase == Phase::mean && weight_ > 0 && !sent_.at(*piece))
      return malformed("piece of a mean that lacks this node's part");
    return Ok{};
  }

  void take(Arrival&& arrival, Turn& turn) {
    const TransferKey key = arrival.key;
    const std::size_t piece = grid_.find(arrival.range).value();
    const Round round = key.vector.round;
    const auto under_way = attempts_.find(round);
    if (under_way != attempts_.end()) {
      const auto wanted = under_way->second->admit(arrival.from, key, piece);
      if (wanted && !*wanted) return void(late(round, turn));
      // A liar may have sent it twice before the first one was taken.
      if (!wanted && Phase(key.phase) != Phase::repair)
        return void(turn.record("refused", round, 1));
    }
    common_.topology->on_moved(
        {.peer = arrival.from, .bytes = common_.coder.size(key.coding, arrival.range)}, turn.now());
    if (Phase(key.phase) == Phase::repair) {
      put_piece(round, piece, arrival.values);
      return settle(turn);
    }
    Payload bytes;
    for (const Common::Arrived& one : common_.arrived)
      if (one.key == key && one.range == arrival.range) bytes = one.bytes;
    AttemptContext context = this->context(round, turn.now(), std::move(bytes));
    if (!attempt(round).take(std::move(arrival), piece, context)) turn.record("refused", round, 1);
    carry_out(round, context, turn);
    settle(turn);
  }

  Payload encoded(const TransferKey& key, Range range) {
    const auto piece = grid_.find(range);
    LH_CHECK(piece);
    if (Phase(key.phase) == Phase::repair) {
      LH_CHECK(mean_.whole() && mean_.round == key.vector.round);
      const std::span<const float> mean = mean_.values;
      return common_.coder.write(key.vector, Coding::exact, range,
                                 mean.empty() ? mean : mean.subspan(range.offset, range.length));
    }
    const auto it = attempts_.find(key.vector.round);
    LH_CHECK(it != attempts_.end() && key.epoch == team_.epoch);
    AttemptContext context = this->context(key.vector.round);
    if (Phase(key.phase) == Phase::part && key.vector.round == next_) sent_.at(*piece) = true;
    return it->second->encoded(key, *piece, context);
  }

  // Returns this node's part; see VectorPort.
  std::span<const float> part_values(const TransferKey& key, Range range) {
    const auto piece = grid_.find(range);
    LH_CHECK(piece && key.coding == Coding::up && key.vector == own_key(next_) && begun_);
    sent_.at(*piece) = true;
    const std::span<const float> own = values_;
    return own.empty() ? own : own.subspan(range.offset, range.length);
  }

  // Returns the time when an attempt must be woken.
  std::optional<Time> due() const {
    std::optional<Time> first;
    for (const auto& [round, attempt] : attempts_)
      if (const auto due = attempt->due(); due && (!first || *due < *first)) first = due;
    return first;
  }

  void on_time(Turn& turn) {
    for (const auto& [round, attempt] : attempts_) {
      if (!attempt->due() || *attempt->due() > turn.now()) continue;
      AttemptContext context = this->context(round, turn.now());
      attempt->on_time(context);
      carry_out(round, context, turn);
    }
    settle(turn);
  }

  // Called after everything that may have completed a round here.
  void settle(Turn& turn) {
    if (begun_ && mean_.whole() && mean_.round == next_) end_round(turn);
    for (auto it = attempts_.begin(); it != attempts_.end();) {
      const auto& [round, attempt] = *it++;
      if (!team_.takes_part() && attempt->reduced()) {
        next_ = std::max(next_, round + 1);
        lowest_ = std::max(lowest_, round + 1);
      }
      const bool empty =
          mean_.kept && mean_.round == round && mean_.has_contributors && mean_.counted.empty();
      if (round < lowest_ && (attempt->drained() || empty)) drop(round);
    }
    forget_plans();
  }

  // --- what its group decides after a loss
  void end_attempts() {
    end_attempts_from(0);
    announced_.clear();
  }
  // Ends the attempts at this round and later ones.
  void end_attempts_from(Round first) {
    for (auto it = attempts_.lower_bound(first); it != attempts_.end();) drop((it++)->first);
  }

  // Discards the unfinished state of the previous epoch.
  void forget_unfinished() {
    end_attempts();
    plans_.clear();
    if (!mean_.whole()) mean_ = {};
    if (!served_.empty()) common_.transfer->cancel(repair_key(), std::nullopt);
    served_.clear();
    source_.reset();
    // Members may repeat a round that a server had reduced.
    if (!team_.takes_part() && next_ > 0) lowest_ = next_ - 1;
  }

  // Fetches the mean of the current round.
  void fetch_from(Rank rank, Turn& turn) {
    source_ = rank;
    turn.send(rank, Fetch{team_.epoch, id(next_)}, {}, kControl);
  }

  // Returns true if this node has the whole mean.
  bool can_give(const VectorId& vector) const {
    return mean_.whole() && mean_.round == vector.round;
  }

  // Sends the mean to a member that asks for it. An Error: it asks for the second time.
  Status repair(Rank to, Turn& turn) {
    if (!served_.insert(to).second) return malformed("fetch for the second time");
    Contributors roster = contributors_of(team_, own_key(mean_.round), mean_.counted, mean_.weight);
    roster.formed = mean_.epoch;
    turn.send(to, roster, {}, kControl);
    if (mean_.counted.empty()) return Ok{};
    Outgoing repair{repair_key(), to, {}, mean_.weight, kBulk};
    for (std::size_t piece = 0; piece < grid_.pieces(); ++piece)
      repair.ranges.push_back(grid_.range(piece));
    Turn below = turn.child(Common::kTransfer);
    common_.transfer->begin(std::move(repair), below);
    return Ok{};
  }

  void follow(Round round) { next_ = lowest_ = round; }
  // Whether this node has returned and had no mean here yet, so that it can send none.
  bool borrowed = false;
  std::optional<Rank> opener;  // rank that first sent something of it; absent: this node
  bool decided = false;        // no exchange of its range with another length follows
  // Peers that have announced it in this epoch, before it was decided.
  bool has_announced(Rank peer) const { return announced_.contains(peer); }
  std::size_t announced() const { return announced_.size(); }

  // Returns the number of rounds whose mean this node has; at a server that is no member: of rounds
  // that it has reduced.
  Round next() const { return next_; }
  Round lowest() const { return lowest_; }  // lower rounds have ended
  // Returns true if `next` is the round that the others report.
  bool is_told() const { return borrowed && !knows_round_; }
  bool begun() const { return begun_; }
  bool held() const { return held_; }
  bool fetching() const { return source_.has_value(); }
  bool idle() const { return attempts_.empty(); }
  std::uint64_t length() const { return grid_.length(); }
  bool exact() const { return exact_; }
  std::string waiting_for() const {
    const std::string round = "round " + std::to_string(next_) + ": ";
    if (source_) return round + "repair from " + std::to_string(*source_);
    if (held_) return round + common_.topology->standing(id(next_)).hold.value_or("");
    const bool some = mean_.kept && mean_.round == next_;
    return attempts_.at(next_)->waiting_for(some ? mean_.have : std::vector<bool>{});
  }

  void state(Archive& ar) {
    ar(next_, lowest_, borrowed, opener, decided, announced_);
    ar(begun_, knows_round_, held_, values_, weight_, wants_own_, own_, sent_);
    ar(mean_, outcome_, source_, served_);
    std::vector<Round> rounds;
    for (const auto& [round, attempt] : attempts_) rounds.push_back(round);
    ar(rounds);
    if (ar.loading()) attempts_.clear();
    if (!rounds.empty() && team_.members.empty()) return ar.fail("holds attempts of nobody");
    for (const Round round : rounds) attempt(round).state(ar);
  }

 private:
  AttemptContext context(Round round, Time now = Time{0}, Payload arrived = {}) {
    const bool has_own = begun_ && weight_ > 0 && round == next_;
    const ExchangeBuffers buffers(
        common_.coder, grid_, own_key(round), exact_,
        has_own ? std::span<const float>(values_) : std::span<const float>{});
    return AttemptContext(buffers, now, std::move(arrived));
  }

  void carry_out(Round round, AttemptContext& context, Turn& turn) {
    for (const auto& [piece, values] : context.means) put_piece(round, piece, values);
    for (auto& [counted, weight] : context.contributors_known)
      put_contributors(round, std::move(counted), weight, team_.epoch);
    // With the service of the pieces and before them: an announcement arrives first.
    for (const auto& [to, share] : context.shares) turn.send(to, share, {}, kBulk);
    for (AttemptActions::Told& told : context.notes) {
      told.note.epoch = team_.epoch;
      told.note.vector = {told.about, team_.self};
      turn.send(told.to, told.note, {}, told.service);
    }
    if (context.roster) {
      Message message;  // one buffer for all receivers
      message.kind = Contributors::kKind;
      message.head = Payload(share(to_wire(*context.roster)));
      for (const Rank to : context.contributors_to) turn.send(to, message, kControl);
    }
    for (const auto& [key, to] : context.cancelled) common_.transfer->cancel(key, to);
    Turn below = turn.child(Common::kTransfer);
    for (Outgoing& outgoing : context.posts) common_.transfer->begin(std::move(outgoing), below);
    if (!context.given_up.empty()) turn.fail(context.given_up);
  }

  VectorId id(Round round) const { return {round, group_, range_}; }
  CodecKey own_key(Round round) const { return {id(round), team_.self}; }
  Attempt& attempt(Round round) {
    auto& attempt = attempts_[round];
    if (!attempt)
      attempt = common_.topology->open(
          {id(round), exact_, &team_, plan_of(round), !exact_ && common_.coder.mean_of_senders()});
    return *attempt;
  }

  // Returns null if no worker is left.
  const Plan* plan_of(Round round) {
    const Topology& topology = *common_.topology;
    const Round since = topology.standing(id(round)).since;
    auto& known = plans_[since];
    if (known || team_.members.empty()) return known.get();
    const auto plan = since > 0 ? topology.plan_since(since, grid_) : topology.plan(grid_, team_);
    known = std::make_unique<Plan>(grid_, team_, plan ? *plan : stars(grid_, team_));
    return known.get();
  }

  // Attempts keep their plans.
  void forget_plans() {
    if (plans_.size() < 2) return;
    const Round next = common_.topology->standing(id(next_)).since;
    std::set<const Plan*> used;
    for (const auto& [round, attempt] : attempts_) used.insert(attempt->spec().plan);
    std::erase_if(plans_, [&](const auto& one) {
      return one.first != next && !used.contains(one.second.get());
    });
  }

  void drop(Round round) {
    const auto attempt = attempts_.find(round);
    if (attempt == attempts_.end()) return;
    for (const TransferKey& key : attempt->second->posted())
      common_.transfer->cancel(key, std::nullopt);
    attempts_.erase(attempt);
  }

  TransferKey repair_key() const {
    return {team_.epoch, own_key(mean_.round), std::uint8_t(Phase::repair), Coding::exact};
  }

  void open_mean(Round round) {
    if (mean_.kept && mean_.round == round) return;
    // A member that fetched the last mean and contributed to this one has it, or lied about needing
    // it.
    if (!served_.empty()) common_.transfer->cancel(repair_key(), std::nullopt);
    std::vector<float> values = std::move(mean_.values);
    values.resize(common_.place.phantom ? 0 : grid_.length());
    const std::size_t pieces = grid_.pieces();
    mean_ = {.kept = true,
             .round = round,
             .values = std::move(values),
             .have = std::vector<bool>(pieces),
             .missing = pieces,
             .has_contributors = false,
             .counted = {},
             .weight = 0,
             .epoch = 0};
    outcome_ = false;
  }

  void put_piece(Round round, std::size_t piece, std::span<const float> values) {
    open_mean(round);
    LH_CHECK(!mean_.have[piece]);
    mean_.have[piece] = true;
    --mean_.missing;
    if (common_.place.phantom) return;
    std::ranges::copy(values, mean_.values.begin() + std::ptrdiff_t(grid_.range(piece).offset));
  }

  void put_contributors(Round round, RankList counted, double weight, Epoch formed) {
    open_mean(round);
    mean_.has_contributors = true;
    mean_.counted = std::move(counted);
    mean_.weight = weight;
    mean_.epoch = formed;
    if (mean_.counted.empty()) mean_.values.clear();
  }

  bool has_piece(Round round, std::size_t piece) const {
    return mean_.kept && mean_.round == round && mean_.have[piece];
  }

  // Codecs write the same bytes of a contribution until it is settled.
  std::vector<float> own_as_read() {
    std::vector<float> own;
    if (!wants_own_ || weight_ == 0 || common_.place.phantom) return own;
    const AttemptContext context = this->context(next_);
    for (std::size_t piece = 0; piece < grid_.pieces(); ++piece) {
      const std::vector<float> values = context.buffers.own_values(piece);
      own.insert(own.end(), values.begin(), values.end());
    }
    return own;
  }

  void end_round(Turn& turn) {
    own_ = own_as_read();
    if (weight_ > 0) common_.coder.settle(own_key(next_), Coding::up, Codec::Fate::delivered);
    TopologyOutput output;
    common_.topology->on_mean_ready(id(next_), grid_, turn.now(), output);
    output.carry_out(team_.epoch, turn);
    lowest_ = ++next_;
    begun_ = borrowed = knows_round_ = false;
    source_.reset();
    values_ = {};
    outcome_ = true;
  }

  Common& common_;
  const GroupMembers& team_;
  const std::uint32_t group_, range_;
  const bool exact_;
  const Partition grid_;
  std::map<Round, std::unique_ptr<Plan>> plans_;  // plans of this epoch, by first round

  Round next_, lowest_;
  // This node's contribution to round `next`.
  bool begun_ = false;
  bool knows_round_ = false;
  bool held_ = false;  // the topology keeps this node from contributing
  std::vector<float> values_;
  double weight_ = 0;  // 0: no contribution
  bool wants_own_ = false;
  std::vector<float> own_;  // own contribution in the newest mean, as the others read it
  std::vector<bool> sent_;  // pieces whose part was sent in the current attempt
  Mean mean_;
  bool outcome_ = false;        // the mean is for poll()
  std::optional<Rank> source_;  // rank from which round `next` is being fetched
  std::set<Rank> served_;       // ranks that fetched the mean in this epoch
  std::set<Rank> announced_;    // see has_announced()
  std::map<Round, std::unique_ptr<Attempt>> attempts_;
};

}  // namespace longhaul::overlay
