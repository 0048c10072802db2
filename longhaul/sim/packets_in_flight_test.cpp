#include "longhaul/sim/packets_in_flight.h"

#include <gtest/gtest.h>

#include "longhaul/base/testing/result.h"
#include "longhaul/sim/testing/networks.h"

namespace longhaul::sim {
namespace {

using testing::packet;

struct Mark {  // what a model keeps
  std::uint32_t value = 0;
  void state(auto& ar) { ar(value); }
};
using Marked = PacketsInFlight<Mark>;

constexpr auto kNothing = [](const auto&) {};
constexpr auto kAll = [](const auto&) { return true; };

std::vector<std::uint16_t> tags(const Marked& in_flight, const std::vector<std::uint32_t>& slots) {
  std::vector<std::uint16_t> tags;
  for (const std::uint32_t slot : slots) tags.push_back(in_flight[slot].packet.message.kind);
  return tags;
}

TEST(PacketsInFlight, ASlotIsUsedAgainAndAnIdMeansOneUse) {
  Marked in_flight(2);
  const std::uint32_t slot = *in_flight.submit(packet(0, 1, 100, 7));
  in_flight[slot].value = 3;
  const PacketId id = in_flight.id(slot);
  EXPECT_TRUE(in_flight.is_current(id));
  EXPECT_EQ(in_flight.release(slot).message.kind, 7);
  EXPECT_FALSE(in_flight.is_current(id));
  EXPECT_EQ(in_flight.submit(packet(0, 1, 100)), slot);
  EXPECT_FALSE(in_flight.is_current(id));
  EXPECT_TRUE(in_flight.is_current(in_flight.id(slot)));
  EXPECT_EQ(in_flight[slot].value, 0u);
  EXPECT_EQ(in_flight.all().size(), 1u);
}

TEST(PacketsInFlight, BulkDepartsOnceAlsoIfItIsSentAgain) {
  Marked in_flight(2);
  const std::uint32_t bulk = *in_flight.submit(packet(0, 1, 100, 7));
  const std::uint32_t control = *in_flight.submit(packet(0, 1, 100, 8, false));
  EXPECT_FALSE(in_flight.departs(control));
  const auto notice = good(in_flight.departs(bulk));
  EXPECT_EQ(notice->kind, NetworkEvent::Kind::departed);
  EXPECT_EQ(notice->packet.bytes, 100u);
  EXPECT_FALSE(notice->packet.message.is_bulk());
  in_flight.cut(0, 1, kNothing);
  for (const std::uint32_t slot : in_flight.heal(0, 1)) EXPECT_FALSE(in_flight.departs(slot));
}

// The lowest slot is not that of the first, and two come while the way is cut.
TEST(PacketsInFlight, ACutWayKeepsBackAndLetsGoInOrderOfSubmission) {
  Marked in_flight(3);
  const std::uint32_t lowest = *in_flight.submit(packet(0, 1, 100));
  (void)in_flight.submit(packet(0, 1, 100, 1));
  (void)in_flight.release(lowest);
  (void)in_flight.submit(packet(0, 1, 100, 2));
  (void)in_flight.submit(packet(0, 2, 100, 9, false));
  std::vector<std::uint16_t> off;
  in_flight.cut(0, 1, [&](const auto& flight) { off.push_back(flight.packet.message.kind); });
  EXPECT_EQ(off, (std::vector<std::uint16_t>{2, 1}));
  EXPECT_FALSE(in_flight.has_bulk());
  EXPECT_FALSE(in_flight.submit(packet(0, 1, 100, 3)));
  EXPECT_FALSE(in_flight.submit(packet(0, 1, 100, 4)));
  EXPECT_EQ(tags(in_flight, in_flight.heal(0, 1)), (std::vector<std::uint16_t>{1, 2, 3, 4}));
  EXPECT_TRUE(in_flight.has_bulk());
  EXPECT_TRUE(in_flight.heal(0, 1).empty());
  EXPECT_TRUE(in_flight.submit(packet(0, 1, 100)));
}

TEST(PacketsInFlight, ACrashTakesWhatIsOfTheNodeAndWhatIsForIt) {
  Marked in_flight(3);
  const std::uint32_t stays = *in_flight.submit(packet(0, 1, 100, 1));
  const std::uint32_t goes = *in_flight.submit(packet(0, 1, 100, 2));
  const std::uint32_t comes = *in_flight.submit(packet(1, 0, 100, 3));
  in_flight.cut(2, 0, kNothing);
  in_flight.cut(0, 2, kNothing);
  EXPECT_FALSE(in_flight.submit(packet(2, 0, 100)));
  EXPECT_FALSE(in_flight.submit(packet(0, 2, 100)));
  const PacketId lost = in_flight.id(goes);
  in_flight.crash(0, [](const auto& flight) { return flight.packet.message.kind == 2; });
  EXPECT_FALSE(in_flight.is_current(lost));
  EXPECT_FALSE(in_flight.submit(packet(0, 1, 100)));
  EXPECT_FALSE(in_flight.submit(packet(1, 0, 100)));
  EXPECT_FALSE(in_flight.delivers(comes));
  EXPECT_EQ(good(in_flight.delivers(stays))->packet.message.kind, 1);
  EXPECT_TRUE(in_flight.heal(2, 0).empty());
  EXPECT_TRUE(in_flight.heal(0, 2).empty());
  EXPECT_FALSE(in_flight.has_bulk());
  in_flight.revive(0);
  EXPECT_TRUE(in_flight.submit(packet(1, 0, 100)));
}

// What was on its way to a node that crashed does not reach the one that begins anew in its place,
// however long it takes.
TEST(PacketsInFlight, WhatIsForACrashedNodeIsNotForTheNextOne) {
  Marked in_flight(2);
  const std::uint32_t old = *in_flight.submit(packet(1, 0, 100, 1));
  (void)in_flight.submit(packet(1, 0, 100, 2));
  const std::uint32_t other = *in_flight.submit(packet(0, 1, 100, 3));
  in_flight.crash(0, [](const auto&) { return false; });
  in_flight.revive(0);
  (void)in_flight.submit(packet(1, 0, 100, 4));
  EXPECT_FALSE(in_flight.delivers(in_flight.duplicate(old)));
  EXPECT_FALSE(in_flight.delivers(old));
  EXPECT_TRUE(in_flight.delivers(other));
  in_flight.cut(1, 0, kNothing);
  EXPECT_EQ(tags(in_flight, in_flight.heal(1, 0)), (std::vector<std::uint16_t>{4}));
}

TEST(PacketsInFlight, ATwinIsTheSameAndLandsByItself) {
  Marked in_flight(2);
  const std::uint32_t one = *in_flight.submit(packet(0, 1, 100, 7));
  in_flight[one].value = 3;
  (void)in_flight.departs(one);
  const std::uint32_t other = in_flight.duplicate(one);
  EXPECT_NE(other, one);
  EXPECT_EQ(in_flight[other].value, 3u);
  EXPECT_TRUE(in_flight[other].departure_reported);
  EXPECT_TRUE(in_flight.delivers(one));
  EXPECT_TRUE(in_flight.has_bulk());
  EXPECT_TRUE(in_flight.delivers(other));
  EXPECT_FALSE(in_flight.has_bulk());
}

Buffer save(Marked& in_flight) {
  Archive ar;
  in_flight.state(ar);
  return ar.take();
}

TEST(PacketsInFlight, SavedAndLoadedTheyGoOn) {
  Marked in_flight(4), loaded(4);
  in_flight.cut(1, 2, kNothing);
  (void)in_flight.submit(packet(1, 2, 100, 1));
  (void)in_flight.release(*in_flight.submit(packet(0, 1, 100, 2)));
  const std::uint32_t slot = *in_flight.submit(packet(0, 1, 100, 3));
  in_flight[slot].value = 5;
  in_flight.crash(3, kAll);
  const Buffer bytes = save(in_flight);
  Archive ar(bytes);
  loaded.state(ar);
  ASSERT_TRUE(ar.finish());
  EXPECT_TRUE(loaded.good());
  EXPECT_EQ(save(loaded), bytes);
  EXPECT_TRUE(loaded.is_current(in_flight.id(slot)));
  EXPECT_EQ(loaded[slot].value, 5u);
  EXPECT_FALSE(loaded.submit(packet(0, 3, 100)));
  for (Marked* each : {&in_flight, &loaded})
    EXPECT_EQ(tags(*each, each->heal(1, 2)), std::vector<std::uint16_t>{1});
  EXPECT_EQ(loaded[*loaded.submit(packet(0, 1, 100))].number, 4u);
}

// As PacketsInFlight writes itself, but of parts that may not fit.
struct Written {
  std::vector<Marked::InFlight> in_flight = {};
  std::vector<std::uint32_t> free_slots = {};
  std::uint64_t number = 0, bulk = 0;
  std::vector<bool> dead = {false, false};
  std::map<std::pair<Rank, Rank>, std::map<std::uint64_t, std::pair<Packet, bool>>> cut = {};
};

bool is_good(Written written) {
  Archive out;
  out.expect("flights");
  out(written.in_flight, written.free_slots, written.number, written.bulk, written.dead,
      written.cut);
  const Buffer bytes = out.take();
  Marked in_flight(2);
  Archive in(bytes);
  in_flight.state(in);
  EXPECT_TRUE(in.finish());
  return in_flight.good();
}

TEST(PacketsInFlight, WhatIsLoadedNamesNothingThatIsNotThere) {
  std::vector<Marked::InFlight> one(1), wrong(1);
  one[0].packet = packet(0, 1, 100);
  wrong[0].packet = packet(0, 2, 100);
  EXPECT_TRUE(is_good({.in_flight = one, .free_slots = {0}}));
  EXPECT_FALSE(is_good({.dead = {false}}));
  EXPECT_FALSE(is_good({.in_flight = one, .free_slots = {1}}));
  EXPECT_FALSE(is_good({.in_flight = wrong}));
  EXPECT_FALSE(is_good({.cut = {{{0, 1}, {{7, {packet(2, 1, 100), false}}}}}}));
  wrong[0].packet = packet(0, 1, 100);
  wrong[0].packet.chunks = 0;
  EXPECT_FALSE(is_good({.in_flight = wrong}));
}

}  // namespace
}  // namespace longhaul::sim
