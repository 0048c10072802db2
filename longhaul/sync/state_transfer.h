#pragma once
// StateTransfer sends the state of a run to a node that has returned: the senior worker's state at
// the start of a round, in chunks. The receiver accepts it from the senior worker only, in order,
// and up to a bound. When the sender is lost, the receiver discards what it has of the state.
//
// It does not use a VectorChannel: in a phantom job a channel carries sizes without numbers, but
// this state (rounds, stop rule, schedules) has to arrive there, too.
#include <map>
#include <optional>
#include <set>

#include "longhaul/core/machine.h"

namespace longhaul::sync {

class StateTransfer final : public Machine {
 public:
  struct StatePart {  // with a body: the bytes from `offset` on
    static constexpr std::uint16_t kKind = 1;
    static constexpr std::string_view kName = "state_part";
    Round round = 0;
    bool last = false;
    std::uint64_t offset = 0, total = 0;
    template <class Self, class Visit>
    static void fields(Self& self, Visit&& visit) {
      LONGHAUL_FIELD(round);
      LONGHAUL_FIELD(last, .doc = "no round follows");
      LONGHAUL_FIELD(offset);
      LONGHAUL_FIELD(total);
    }
  };
  struct StateReceived {  // to all workers: the sender has the state and needs no other
    static constexpr std::uint16_t kKind = 2;
    static constexpr std::string_view kName = "state_received";
    Epoch epoch = 0;  // in which it returned
    LONGHAUL_FIELDS(epoch)
  };
  using Messages = MessageList<StatePart, StateReceived>;

  struct TransferredState {
    Round round = 0;    // the next one
    bool last = false;  // no round follows
    Bytes bytes;
    void state(Archive& ar) { ar(round, last, bytes); }
  };

  // Replaces a state that is still being sent to `to`. Receivers of the same state share its bytes.
  void send(Rank to, TransferredState, Turn&);
  // The state that has arrived whole, until drop_received(); nullptr: none.
  const TransferredState* received() const { return received_ ? &*received_ : nullptr; }
  void drop_received() { received_.reset(); }
  void confirm(Turn&);                                                   // sends StateReceived
  bool has_state(Rank rank) const { return confirmed_.contains(rank); }  // it has confirmed

  Status on_message(Rank from, const Message&, Turn&) override;
  void on_writable(Rank peer, Turn& turn) override { send_more(peer, turn); }
  void on_view(const View& before, Turn&) override;
  void state(Archive&) override;

 private:
  struct Outgoing {
    TransferredState transferred;
    std::uint64_t sent = 0;
    void state(Archive& ar) { ar(transferred, sent); }
  };
  struct Incoming {
    Round round = 0;
    bool last = false;
    std::uint64_t total = 0;
    Buffer bytes;
    void state(Archive& ar) { ar(round, last, total, bytes); }
  };
  void send_more(Rank to, Turn&);
  Status take(Rank from, const StatePart&, const Payload& body, Turn&);
  Status take(Rank from, const StateReceived&, Turn&);

  std::map<Rank, Outgoing> outgoing_;
  std::optional<Incoming> incoming_;
  std::optional<TransferredState> received_;
  std::set<Rank> confirmed_;  // of the returned nodes
};

}  // namespace longhaul::sync
