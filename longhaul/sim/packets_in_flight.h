#pragma once
// The packets that a network carries, for any link model: numbered in order of submission, held
// while their pair is cut, lost when their node crashes. A packet in flight has a slot; slots are
// reused. `Own` is the model's data for each packet: plain values with state().
//
// Owned and used by one network.
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "longhaul/base/archive.h"
#include "longhaul/sim/network.h"

namespace longhaul::sim {

// Identifies a packet in a later event, when another packet may have taken its slot.
struct PacketId {
  std::uint32_t slot = 0;
  std::uint32_t use = 0;  // how often the slot had been used before
  void state(auto& ar) { ar(slot, use); }
  friend bool operator==(const PacketId&, const PacketId&) = default;
};

template <class Own>
class PacketsInFlight {
 public:
  struct InFlight : Own {
    Packet packet;
    std::uint64_t number = 0;         // in order of submission
    std::uint32_t use = 0;            // PacketId::use
    bool in_use = false;              // else the slot is free
    bool departure_reported = false;  // its departure was reported
    bool lost = false;                // the receiver has crashed, and may have restarted
    void state(auto& ar) {
      ar(packet, number, use, in_use, departure_reported, lost);
      Own::state(ar);
    }
  };

  explicit PacketsInFlight(std::size_t nodes) : nodes_(nodes), dead_(nodes) {}

  // The slot of a packet that may go now; empty if it is held or lost with a dead node. CHECKs that
  // its nodes exist.
  std::optional<std::uint32_t> submit(Packet packet) {
    LH_CHECK(packet.from < nodes_ && packet.to < nodes_ && packet.chunks > 0);
    const std::uint64_t number = number_++;
    if (dead_[packet.from] || dead_[packet.to]) return std::nullopt;
    if (auto cut_pair = cut_.find({packet.from, packet.to}); cut_pair != cut_.end()) {
      cut_pair->second.emplace(number, HeldPacket{std::move(packet), false});
      return std::nullopt;
    }
    return take(std::move(packet), number, false);
  }

  InFlight& operator[](std::uint32_t slot) { return in_flight_[slot]; }
  const InFlight& operator[](std::uint32_t slot) const { return in_flight_[slot]; }
  PacketId id(std::uint32_t slot) const { return {slot, in_flight_[slot].use}; }
  bool is_current(PacketId id) const { return in_flight_[id.slot].use == id.use; }

  // Called when the last byte has left the sender's side. Returns an event for bulk, once per
  // packet even if it is sent again.
  std::optional<NetworkEvent> departs(std::uint32_t slot) {
    InFlight& flight = in_flight_[slot];
    const Packet& p = flight.packet;
    if (!p.message.is_bulk() || std::exchange(flight.departure_reported, true)) return std::nullopt;
    return NetworkEvent{NetworkEvent::Kind::departed, Packet{p.from, p.to, p.bytes, p.service, {}}};
  }
  // Delivers and frees the slot; empty if its receiver has crashed.
  std::optional<NetworkEvent> delivers(std::uint32_t slot) {
    const bool lost = in_flight_[slot].lost;
    NetworkEvent notice{NetworkEvent::Kind::delivered, release(slot)};
    if (lost) return std::nullopt;
    return notice;
  }
  // Frees the slot and returns the packet.
  Packet release(std::uint32_t slot) {
    InFlight& flight = in_flight_[slot];
    Packet packet = std::move(flight.packet);
    bulk_ -= packet.message.is_bulk();
    const std::uint32_t use = flight.use + 1;
    flight = {};
    flight.use = use;
    free_slots_.push_back(slot);
    return packet;
  }
  // Adds a copy of the packet; returns its slot.
  std::uint32_t duplicate(std::uint32_t slot) {
    const InFlight& same = in_flight_[slot];
    const std::uint32_t other = take(same.packet, same.number, same.departure_reported);
    in_flight_[other].lost = in_flight_[slot].lost;
    static_cast<Own&>(in_flight_[other]) = in_flight_[slot];
    return other;
  }

  // Network::cut. Calls off(packet) for each packet that is taken back to the sender.
  template <class Off>
  void cut(Rank from, Rank to, Off&& off) {
    auto& held_packets = cut_[{from, to}];
    for (std::uint32_t slot = 0; slot < in_flight_.size(); ++slot) {
      const InFlight& flight = in_flight_[slot];
      if (!flight.in_use || flight.packet.from != from || flight.packet.to != to) continue;
      off(flight);
      if (flight.lost) {
        (void)release(slot);
        continue;
      }
      const std::uint64_t number = flight.number;
      const bool departure_reported = flight.departure_reported;
      held_packets.emplace(number, HeldPacket{release(slot), departure_reported});
    }
  }
  // Network::heal. The slots of the packets to send again, in order of submission.
  std::vector<std::uint32_t> heal(Rank from, Rank to) {
    std::vector<std::uint32_t> slots;
    auto cut_pair = cut_.extract({from, to});
    if (cut_pair.empty()) return slots;
    for (auto& [number, held_packets] : cut_pair.mapped())
      slots.push_back(
          take(std::move(held_packets.packet), number, held_packets.departure_reported));
    return slots;
  }
  // Network::crash. lost(packet) decides for each packet that the node has sent.
  template <class Lost>
  void crash(Rank rank, Lost&& lost) {
    dead_[rank] = true;
    for (auto& [cut_pair, held_packets] : cut_)
      if (cut_pair.first == rank || cut_pair.second == rank) held_packets.clear();
    for (std::uint32_t slot = 0; slot < in_flight_.size(); ++slot) {
      InFlight& flight = in_flight_[slot];
      flight.lost |= flight.in_use && flight.packet.to == rank;
      if (flight.in_use && flight.packet.from == rank && lost(flight)) (void)release(slot);
    }
  }
  void revive(Rank rank) { dead_[rank] = false; }
  bool has_bulk() const { return bulk_ > 0; }

  void state(Archive& ar) {
    ar.expect("flights");
    ar(in_flight_, free_slots_, number_, bulk_, dead_, cut_);
  }
  // After loading: whether all numbers are within bounds, as a damaged file may still parse. The
  // model checks the slots in its own events and queues.
  bool good() const {
    bool good = dead_.size() == nodes_;
    for (const std::uint32_t slot : free_slots_) good &= has(slot);
    const auto check = [&](const Packet& packet) {
      good &= packet.from < nodes_ && packet.to < nodes_ && packet.chunks > 0;
    };
    for (const InFlight& flight : in_flight_) check(flight.packet);
    for (const auto& [cut_pair, held_packets] : cut_)
      for (const auto& [number, one] : held_packets) check(one.packet);
    return good;
  }
  bool has(std::uint32_t slot) const { return slot < in_flight_.size(); }
  const std::vector<InFlight>& all() const { return in_flight_; }  // by slot, free ones included

 private:
  struct HeldPacket {
    Packet packet;
    bool departure_reported = false;
    void state(auto& ar) { ar(packet, departure_reported); }
  };

  std::uint32_t take(Packet packet, std::uint64_t number, bool departure_reported) {
    if (free_slots_.empty()) {
      free_slots_.push_back(std::uint32_t(in_flight_.size()));
      in_flight_.emplace_back();
    }
    const std::uint32_t slot = free_slots_.back();
    free_slots_.pop_back();
    bulk_ += packet.message.is_bulk();
    InFlight& flight = in_flight_[slot];
    flight.packet = std::move(packet);
    flight.number = number;
    flight.in_use = true;
    flight.departure_reported = departure_reported;
    return slot;
  }

  const std::size_t nodes_;
  std::vector<InFlight> in_flight_;
  std::vector<std::uint32_t> free_slots_;
  std::uint64_t number_ = 0;
  std::uint64_t bulk_ = 0;  // packets in flight and not held
  std::vector<bool> dead_;  // by rank
  std::map<std::pair<Rank, Rank>, std::map<std::uint64_t, HeldPacket>> cut_;
};

}  // namespace longhaul::sim
