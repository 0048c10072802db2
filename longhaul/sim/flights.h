#pragma once
// The packets that a network has on their way, whatever its model of links makes of them: numbered
// in order of submission, kept back while their way is cut, lost with a node that crashes. A packet
// under way has a slot; slots are used again. What the model itself keeps of one is `Own`, a struct
// of plain values with state().
//
// Part of a network, which alone uses it.
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "longhaul/base/archive.h"
#include "longhaul/sim/network.h"

namespace longhaul::sim {

// Names a packet to an event that comes later, when it may have been taken off its way and another
// have its slot.
struct FlightId {
  std::uint32_t slot = 0;
  std::uint32_t use = 0;  // how often the slot had been used before
  void state(auto& ar) { ar(slot, use); }
  friend bool operator==(const FlightId&, const FlightId&) = default;
};

template <class Own>
class Flights {
 public:
  struct Flight : Own {
    Packet packet;
    std::uint64_t number = 0;  // in order of submission
    std::uint32_t use = 0;     // FlightId::use
    bool flying = false;       // else the slot is free
    bool told = false;         // that it has departed
    bool lost = false;         // its receiver has crashed, and is not there if it begins anew
    void state(auto& ar) {
      ar(packet, number, use, flying, told, lost);
      Own::state(ar);
    }
  };

  explicit Flights(std::size_t nodes) : nodes_(nodes), dead_(nodes) {}

  // The slot of a packet that may go now; none if it is kept back, or lost with a dead node. CHECKs
  // that its nodes are there.
  std::optional<std::uint32_t> submit(Packet packet) {
    LH_CHECK(packet.from < nodes_ && packet.to < nodes_ && packet.chunks > 0);
    const std::uint64_t number = number_++;
    if (dead_[packet.from] || dead_[packet.to]) return std::nullopt;
    if (auto way = cut_.find({packet.from, packet.to}); way != cut_.end()) {
      way->second.emplace(number, Parked{std::move(packet), false});
      return std::nullopt;
    }
    return take(std::move(packet), number, false);
  }

  Flight& operator[](std::uint32_t slot) { return flights_[slot]; }
  const Flight& operator[](std::uint32_t slot) const { return flights_[slot]; }
  FlightId id(std::uint32_t slot) const { return {slot, flights_[slot].use}; }
  bool flies(FlightId id) const { return flights_[id.slot].use == id.use; }

  // Its last byte has left the sender's side: told of bulk, and once also if it was sent again.
  std::optional<Notice> departs(std::uint32_t slot) {
    Flight& flight = flights_[slot];
    const Packet& p = flight.packet;
    if (!p.message.is_bulk() || std::exchange(flight.told, true)) return std::nullopt;
    return Notice{Notice::Kind::departed, Packet{p.from, p.to, p.bytes, p.service, {}}};
  }
  // It ends here; told unless its receiver has crashed.
  std::optional<Notice> delivers(std::uint32_t slot) {
    const bool lost = flights_[slot].lost;
    Notice notice{Notice::Kind::delivered, land(slot)};
    if (lost) return std::nullopt;
    return notice;
  }
  // It ends, and the slot is free.
  Packet land(std::uint32_t slot) {
    Flight& flight = flights_[slot];
    Packet packet = std::move(flight.packet);
    bulk_ -= packet.message.is_bulk();
    const std::uint32_t use = flight.use + 1;
    flight = {};
    flight.use = use;
    free_slots_.push_back(slot);
    return packet;
  }
  // The slot of another one of the same.
  std::uint32_t twin(std::uint32_t slot) {
    const Flight& same = flights_[slot];
    const std::uint32_t other = take(same.packet, same.number, same.told);
    flights_[other].lost = flights_[slot].lost;
    static_cast<Own&>(flights_[other]) = flights_[slot];
    return other;
  }

  // Network::cut. off(flight) is called of each that is taken off its way.
  template <class Off>
  void cut(Rank from, Rank to, Off&& off) {
    auto& parked = cut_[{from, to}];
    for (std::uint32_t slot = 0; slot < flights_.size(); ++slot) {
      const Flight& flight = flights_[slot];
      if (!flight.flying || flight.packet.from != from || flight.packet.to != to) continue;
      off(flight);
      if (flight.lost) {
        (void)land(slot);
        continue;
      }
      const std::uint64_t number = flight.number;
      const bool told = flight.told;
      parked.emplace(number, Parked{land(slot), told});
    }
  }
  // Network::heal. The slots of those that go again, in order of submission.
  std::vector<std::uint32_t> heal(Rank from, Rank to) {
    std::vector<std::uint32_t> slots;
    auto way = cut_.extract({from, to});
    if (way.empty()) return slots;
    for (auto& [number, parked] : way.mapped())
      slots.push_back(take(std::move(parked.packet), number, parked.told));
    return slots;
  }
  // Network::crash. lost(flight), asked of each that the node has sent: whether it goes with it.
  template <class Lost>
  void crash(Rank rank, Lost&& lost) {
    dead_[rank] = true;
    for (auto& [way, parked] : cut_)
      if (way.first == rank || way.second == rank) parked.clear();
    for (std::uint32_t slot = 0; slot < flights_.size(); ++slot) {
      Flight& flight = flights_[slot];
      flight.lost |= flight.flying && flight.packet.to == rank;
      if (flight.flying && flight.packet.from == rank && lost(flight)) (void)land(slot);
    }
  }
  void revive(Rank rank) { dead_[rank] = false; }
  bool has_bulk() const { return bulk_ > 0; }

  void state(Archive& ar) {
    ar.expect("flights");
    ar(flights_, free_slots_, number_, bulk_, dead_, cut_);
  }
  // A torn file that still parses must not send us out of bounds: whether what was loaded names
  // nothing that is not there. Slots that events and queues name are the model's to ask for.
  bool good() const {
    bool good = dead_.size() == nodes_;
    for (const std::uint32_t slot : free_slots_) good &= has(slot);
    const auto check = [&](const Packet& packet) {
      good &= packet.from < nodes_ && packet.to < nodes_ && packet.chunks > 0;
    };
    for (const Flight& flight : flights_) check(flight.packet);
    for (const auto& [way, parked] : cut_)
      for (const auto& [number, one] : parked) check(one.packet);
    return good;
  }
  bool has(std::uint32_t slot) const { return slot < flights_.size(); }
  const std::vector<Flight>& all() const { return flights_; }  // by slot, with those that are free

 private:
  struct Parked {
    Packet packet;
    bool told = false;
    void state(auto& ar) { ar(packet, told); }
  };

  std::uint32_t take(Packet packet, std::uint64_t number, bool told) {
    if (free_slots_.empty()) {
      free_slots_.push_back(std::uint32_t(flights_.size()));
      flights_.emplace_back();
    }
    const std::uint32_t slot = free_slots_.back();
    free_slots_.pop_back();
    bulk_ += packet.message.is_bulk();
    Flight& flight = flights_[slot];
    flight.packet = std::move(packet);
    flight.number = number;
    flight.flying = true;
    flight.told = told;
    return slot;
  }

  const std::size_t nodes_;
  std::vector<Flight> flights_;
  std::vector<std::uint32_t> free_slots_;
  std::uint64_t number_ = 0;
  std::uint64_t bulk_ = 0;  // packets under way and not kept back
  std::vector<bool> dead_;  // by rank
  std::map<std::pair<Rank, Rank>, std::map<std::uint64_t, Parked>> cut_;
};

}  // namespace longhaul::sim
