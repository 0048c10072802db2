#pragma once
// StateTransfer sends the state of a run to a node that has returned: the senior worker's state at
// the start of a round, in chunks. The receiver accepts it from the senior worker only, in order,
// and up to a bound. When the sender is lost, the receiver discards what it has of the state.
//
// During rounds a state is sent in short bursts to each receiver, so that no vector waits for more
// than one. After a burst the sender rests for three times the time that the burst took. So three
// quarters of the link are left to vectors, which may come from other nodes, too. Most of a burst's
// time may be the link's delay: bursts become longer while they take little more time. (Over
// sockets a burst has left when the kernel has it, and rests count only once its buffer is full.)
//
// The transfer does not use a VectorChannel: in a phantom job a channel carries sizes without
// numbers, but this state (rounds, stop rule, schedules) has to arrive there, too.
#include <map>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "longhaul/core/machine.h"

namespace longhaul::sync {

class StateTransfer final : public Machine {
  // Beside rounds: a class without vectors, because a chunk must not take the room of one.
  static constexpr Service kBulk{.priority = 4}, kBesideRounds{.priority = 5};

  // A model, its anchor, what two moments of the outer and of the local optimiser take, and room
  // for the rest.
  static std::uint64_t most_bytes(const Place& place) {
    return 8 * sizeof(float) * place.layout->size() + (std::uint64_t{1} << 20);
  }

 public:
  struct StatePart {  // with a body: the bytes from `offset` on
    LONGHAUL_MESSAGE(1, "state_part");
    Round round = 0;
    bool last = false;
    std::uint64_t offset = 0, total = 0;
    LONGHAUL_FIELDS(round, (last, .doc = "no round follows"), offset, total)
  };
  struct StateReceived {  // to all workers: the sender has the state and needs no other
    LONGHAUL_MESSAGE(2, "state_received");
    Epoch epoch = 0;  // in which it returned
    LONGHAUL_FIELDS(epoch)
  };
  struct StateWanted {  // to the senior worker: the sender needs a state of this round or later
    LONGHAUL_MESSAGE(3, "state_wanted");
    Epoch epoch = 0;  // in which it returned
    Round round = 0;
    LONGHAUL_FIELDS(epoch, (round, .max = 0x1p50))
  };
  using Messages = MessageList<StatePart, StateReceived, StateWanted>;

  struct TransferredState {
    Round round = 0;    // the next one
    bool last = false;  // no round follows
    Bytes bytes;
    void state(Archive& ar) { ar(round, last, bytes); }
  };

  // Replaces a state that is still being sent to `to`. Receivers of the same state share its bytes.
  void send(Rank to, TransferredState transferred, Turn& turn, bool beside_rounds = false) {
    LH_CHECK(transferred.bytes && !transferred.bytes->empty() &&
             transferred.bytes->size() <= most_bytes(turn.place()));
    unconfirmed_[to] = transferred.round;
    outgoing_[to] = {.transferred = std::move(transferred), .is_beside_rounds = beside_rounds};
    send_more(to, turn);
  }

  // Sends the state that `archive` writes to each of `ranks`.
  void send(const auto& ranks, Round round, bool last, auto&& archive, Turn& turn,
            bool beside_rounds = false) {
    if (ranks.empty()) return;
    Archive ar;
    archive(ar);
    const Bytes bytes = share(ar.take());
    for (const Rank to : ranks) send(to, {round, last, bytes}, turn, beside_rounds);
  }
  // Returns true if a state was sent to `to`, wholly or in part, that it has not confirmed.
  bool sends_to(Rank to) const { return unconfirmed_.contains(to); }

  // Called at a returned node. Asks the senior worker for a state of `round` or later, unless it is
  // sending one. Drops the state that has arrived.
  void ask_for(Round round, Turn& turn) {
    received_.reset();
    turn.send(senior_worker(turn.place(), turn.view()),
              StateWanted{turn.view().since(turn.self()), round}, {}, kControl);
  }
  bool is_receiving() const { return incoming_ || received_; }

  // The state that has arrived whole, until drop_received(); nullptr: none.
  const TransferredState* received() const { return received_ ? &*received_ : nullptr; }
  void drop_received() { received_.reset(); }
  // received() goes through `archive`, and is dropped. An Error: it is none of this job, or not as
  // `check` of the state that was received wants it.
  Status read(auto&& archive, auto&& check) {
    const TransferredState state = *std::exchange(received_, std::nullopt);
    Archive ar(*state.bytes);
    archive(ar);
    Status read = ar.finish();
    if (read) read = check(state);
    if (read) return read;
    return malformed("the state that was received is none of this job: " + read.error().what);
  }
  Status read(auto&& archive) {
    return read(archive, [](const TransferredState&) -> Status { return Ok{}; });
  }
  // sends StateReceived
  void confirm(Turn& turn) {
    for (const Rank rank : live_workers(turn))
      if (rank != turn.self())
        turn.send(rank, StateReceived{turn.view().since(turn.self())}, {}, kControl);
  }

  bool has_state(Rank rank) const { return confirmed_.contains(rank); }  // it has confirmed

  // Returns how much of a state has arrived and how long the rest takes, for the user. `else_for`:
  // what the node waits for if none arrives.
  std::string waiting_for(std::string else_for) const {
    if (!incoming_) return else_for;
    const double have = double(incoming_->bytes.size()), total = double(incoming_->total);
    const double took = seconds(incoming_->latest - incoming_->first);
    return fmt::format("the model of round {}: {:.1f} of {:.1f} MB are here, about {:.0f} s left",
                       incoming_->round, have / 1e6, total / 1e6, took / have * (total - have));
  }

  Status on_message(Rank from, const Message& message, Turn& turn) override {
    return dispatch(Messages{}, message, [&](const auto& m) -> Status {
      if constexpr (std::is_same_v<std::decay_t<decltype(m)>, StatePart>)
        return take(from, m, message.body, turn);
      else
        return take(from, m, turn);
    });
  }

  void on_writable(Rank peer, Turn& turn) override {
    const auto it = outgoing_.find(peer);
    if (it == outgoing_.end()) return;
    Outgoing& going = it->second;
    if (going.burst_since && turn.room(peer, kBesideRounds) == Credits::kPerClass) {
      const Time took =
          std::max(Time(0), turn.now() - *std::exchange(going.burst_since, std::nullopt));
      adapt_burst(going, took, turn.place());
      going.rests_until = turn.now() + std::min(kRest * took, kMostRest);
      turn.set_timer(*this, TimerId{peer}, going.rests_until);
    }
    send_more(peer, turn);
  }
  void on_timer(TimerId peer, Turn& turn) override { send_more(Rank(peer), turn); }
  void on_view(const View& before, Turn& turn) override {
    const View& view = turn.view();
    std::erase_if(outgoing_, [&](const auto& entry) { return !view.has(entry.first); });
    std::erase_if(unconfirmed_, [&](const auto& entry) { return !view.has(entry.first); });
    std::erase_if(confirmed_, [&](Rank rank) { return view.since(rank) != before.since(rank); });
    // The round before this state may be repeated without the lost node's contribution.
    if (!view.has(senior_worker(turn.place(), before))) {
      incoming_.reset();
      received_.reset();
    }
  }

  void state(Archive& ar) override {
    ar(outgoing_, unconfirmed_, incoming_, received_, confirmed_);
    for (const auto& [to, going] : outgoing_)
      if (!going.transferred.bytes || going.sent >= going.transferred.bytes->size())
        return ar.fail("holds a state that is sent already");
    if (received_ && !received_->bytes) ar.fail("holds a state without bytes");
  }

 private:
  static constexpr int kRest = 3;
  static constexpr Time kMostRest{10'000'000'000};  // after an outage
  // Shorter times are no evidence: a buffer took the burst.
  static constexpr Time kInstant{1'000'000};
  static constexpr Time kLastTime{std::int64_t{1} << 60};
  static constexpr std::uint32_t kPatience = 4;  // bursts between a failure and the next growth

  struct Outgoing {
    TransferredState transferred;
    bool is_beside_rounds = false;
    std::uint64_t sent = 0;
    std::uint64_t burst = 0;               // bytes of the next burst; 0: the shortest
    std::optional<Time> burst_since = {};  // start of a burst in transit
    Time shortest_took{kInstant};          // by a recent burst
    std::uint32_t until_growth = 0;        // bursts without a failure
    Time rests_until{0};
    void state(Archive& ar) {
      ar(transferred, is_beside_rounds, sent, burst, burst_since, shortest_took, until_growth,
         rests_until);
      const auto is_time = [](Time time) { return time >= Time(0) && time <= kLastTime; };
      if (!is_time(burst_since.value_or(Time(0))) || !is_time(shortest_took) ||
          !is_time(rests_until))
        ar.fail("holds a state with impossible times");
    }
  };
  struct Incoming {
    Round round = 0;
    bool last = false;
    std::uint64_t total = 0;
    Buffer bytes;
    Time first{0}, latest{0};  // arrival of its first and newest chunk
    void state(Archive& ar) { ar(round, last, total, bytes, first, latest); }
  };

  static std::uint64_t chunk_bytes(const Place& place) { return place.chunk() * sizeof(float); }
  static std::uint64_t least_burst(const Place& place) { return chunk_bytes(place) / 4; }

  // Halves the bursts if this one took more than 1.5 times the shortest recent time, else doubles
  // them: after a failure not at once. The shortest time grows slowly, because links change.
  static void adapt_burst(Outgoing& going, Time took, const Place& place) {
    const std::uint64_t burst = std::max(going.burst, least_burst(place));
    took = std::max(took, kInstant);
    Time& shortest = going.shortest_took;
    shortest = going.burst == 0 ? took : std::min(took, shortest + shortest / 64);
    going.burst = burst;
    if (2 * took > 3 * shortest) {
      going.burst = std::max(burst / 2, least_burst(place));
      if (going.burst < burst) going.until_growth = kPatience;
    } else if (going.until_growth > 0) {
      --going.until_growth;
    } else {
      going.burst = std::min(2 * burst, Credits::kPerClass * chunk_bytes(place));
    }
  }

  void send_more(Rank to, Turn& turn) {
    const auto it = outgoing_.find(to);
    if (it == outgoing_.end()) return;
    Outgoing& going = it->second;
    const Service service = going.is_beside_rounds ? kBesideRounds : kBulk;
    std::uint64_t most = going.transferred.bytes->size();
    if (going.is_beside_rounds) {
      if (turn.room(to, service) < Credits::kPerClass || turn.now() < going.rests_until) return;
      most = std::max(going.burst, least_burst(turn.place()));
      going.burst_since = turn.now();
    }
    while (most > 0 && !is_sent(going) && turn.room(to, service) > 0)
      most -= send_part(to, going, std::min(most, chunk_bytes(turn.place())), service, turn);
    if (is_sent(going)) outgoing_.erase(it);
  }

  static bool is_sent(const Outgoing& going) {
    return going.sent == going.transferred.bytes->size();
  }

  // Sends up to `most` bytes, and returns their number.
  static std::uint64_t send_part(Rank to, Outgoing& going, std::uint64_t most,
                                 const Service& service, Turn& turn) {
    const auto& [round, last, bytes] = going.transferred;
    const std::uint64_t length = std::min(bytes->size() - going.sent, most);
    turn.send(to, StatePart{round, last, going.sent, bytes->size()},
              Payload(bytes, going.sent, length), service);
    going.sent += length;
    return length;
  }

  Status take(Rank from, const StatePart& part, const Payload& body, Turn& turn) {
    if (turn.view().since(turn.self()) == 0 || from != senior_worker(turn.place(), turn.view()))
      return malformed("a state for a node that did not return, or not from the senior worker");
    if (part.total == 0 || part.total > most_bytes(turn.place()))
      return malformed("a state of " + std::to_string(part.total) + " bytes");
    if (part.offset == 0)
      incoming_ = Incoming{part.round, part.last, part.total, {}, turn.now(), turn.now()};
    if (!incoming_) return Ok{};  // this node has dropped the rest
    incoming_->latest = turn.now();
    const std::span<const std::byte> bytes = body.view();
    if (incoming_->round != part.round || incoming_->last != part.last ||
        incoming_->total != part.total || incoming_->bytes.size() != part.offset || bytes.empty() ||
        bytes.size() > part.total - part.offset)
      return malformed("a part of a state that does not follow the part before");
    incoming_->bytes.insert(incoming_->bytes.end(), bytes.begin(), bytes.end());
    if (incoming_->bytes.size() < incoming_->total) return Ok{};
    received_ =
        TransferredState{incoming_->round, incoming_->last, share(std::move(incoming_->bytes))};
    incoming_.reset();
    return Ok{};
  }

  // Takes a StateReceived or a StateWanted.
  template <class M>
  Status take(Rank from, const M& answer, Turn& turn) {
    if (answer.epoch == 0 || answer.epoch != turn.view().since(from))
      return malformed("a receipt of a node that has not returned");
    if constexpr (std::is_same_v<M, StateReceived>) {
      confirmed_.insert(from);
      unconfirmed_.erase(from);
    } else if (sends_to(from) && unconfirmed_.at(from) < answer.round) {
      outgoing_.erase(from);
      unconfirmed_.erase(from);
    }
    return Ok{};
  }

  std::map<Rank, Outgoing> outgoing_;
  std::optional<Incoming> incoming_;
  std::optional<TransferredState> received_;
  std::set<Rank> confirmed_;           // returned nodes that have a state
  std::map<Rank, Round> unconfirmed_;  // the others to which a state was sent, and its round
};

}  // namespace longhaul::sync
