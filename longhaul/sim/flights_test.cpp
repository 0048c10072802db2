#include "longhaul/sim/flights.h"

#include <gtest/gtest.h>

#include "longhaul/sim/testing/networks.h"

namespace longhaul::sim {
namespace {

using testing::packet;

struct Mark {  // what a model keeps
  std::uint32_t value = 0;
  void state(auto& ar) { ar(value); }
};
using Marked = Flights<Mark>;

constexpr auto kNothing = [](const auto&) {};
constexpr auto kAll = [](const auto&) { return true; };

std::vector<std::uint16_t> tags(const Marked& flights, const std::vector<std::uint32_t>& slots) {
  std::vector<std::uint16_t> tags;
  for (const std::uint32_t slot : slots) tags.push_back(flights[slot].packet.message.kind);
  return tags;
}

TEST(Flights, ASlotIsUsedAgainAndAnIdMeansOneUse) {
  Marked flights(2);
  const std::uint32_t slot = *flights.submit(packet(0, 1, 100, 7));
  flights[slot].value = 3;
  const FlightId id = flights.id(slot);
  EXPECT_TRUE(flights.flies(id));
  EXPECT_EQ(flights.land(slot).message.kind, 7);
  EXPECT_FALSE(flights.flies(id));
  EXPECT_EQ(flights.submit(packet(0, 1, 100)), slot);
  EXPECT_FALSE(flights.flies(id));
  EXPECT_TRUE(flights.flies(flights.id(slot)));
  EXPECT_EQ(flights[slot].value, 0u);
  EXPECT_EQ(flights.all().size(), 1u);
}

TEST(Flights, BulkDepartsOnceAlsoIfItIsSentAgain) {
  Marked flights(2);
  const std::uint32_t bulk = *flights.submit(packet(0, 1, 100, 7));
  const std::uint32_t control = *flights.submit(packet(0, 1, 100, 8, false));
  EXPECT_FALSE(flights.departs(control));
  const auto notice = flights.departs(bulk);
  ASSERT_TRUE(notice);
  EXPECT_EQ(notice->kind, Notice::Kind::departed);
  EXPECT_EQ(notice->packet.bytes, 100u);
  EXPECT_FALSE(notice->packet.message.is_bulk());
  flights.cut(0, 1, kNothing);
  for (const std::uint32_t slot : flights.heal(0, 1)) EXPECT_FALSE(flights.departs(slot));
}

// The lowest slot is not that of the first, and two come while the way is cut.
TEST(Flights, ACutWayKeepsBackAndLetsGoInOrderOfSubmission) {
  Marked flights(3);
  const std::uint32_t lowest = *flights.submit(packet(0, 1, 100));
  (void)flights.submit(packet(0, 1, 100, 1));
  (void)flights.land(lowest);
  (void)flights.submit(packet(0, 1, 100, 2));
  (void)flights.submit(packet(0, 2, 100, 9, false));
  std::vector<std::uint16_t> off;
  flights.cut(0, 1, [&](const auto& flight) { off.push_back(flight.packet.message.kind); });
  EXPECT_EQ(off, (std::vector<std::uint16_t>{2, 1}));
  EXPECT_FALSE(flights.has_bulk());
  EXPECT_FALSE(flights.submit(packet(0, 1, 100, 3)));
  EXPECT_FALSE(flights.submit(packet(0, 1, 100, 4)));
  EXPECT_EQ(tags(flights, flights.heal(0, 1)), (std::vector<std::uint16_t>{1, 2, 3, 4}));
  EXPECT_TRUE(flights.has_bulk());
  EXPECT_TRUE(flights.heal(0, 1).empty());
  EXPECT_TRUE(flights.submit(packet(0, 1, 100)));
}

TEST(Flights, ACrashTakesWhatIsOfTheNodeAndWhatIsForIt) {
  Marked flights(3);
  const std::uint32_t stays = *flights.submit(packet(0, 1, 100, 1));
  const std::uint32_t goes = *flights.submit(packet(0, 1, 100, 2));
  const std::uint32_t comes = *flights.submit(packet(1, 0, 100, 3));
  flights.cut(2, 0, kNothing);
  flights.cut(0, 2, kNothing);
  EXPECT_FALSE(flights.submit(packet(2, 0, 100)));
  EXPECT_FALSE(flights.submit(packet(0, 2, 100)));
  const FlightId lost = flights.id(goes);
  flights.crash(0, [](const auto& flight) { return flight.packet.message.kind == 2; });
  EXPECT_FALSE(flights.flies(lost));
  EXPECT_FALSE(flights.submit(packet(0, 1, 100)));
  EXPECT_FALSE(flights.submit(packet(1, 0, 100)));
  EXPECT_FALSE(flights.delivers(comes));
  const auto notice = flights.delivers(stays);
  ASSERT_TRUE(notice);
  EXPECT_EQ(notice->packet.message.kind, 1);
  EXPECT_TRUE(flights.heal(2, 0).empty());
  EXPECT_TRUE(flights.heal(0, 2).empty());
  EXPECT_FALSE(flights.has_bulk());
  flights.revive(0);
  EXPECT_TRUE(flights.submit(packet(1, 0, 100)));
}

// What was on its way to a node that crashed does not reach the one that begins anew in its place,
// however long it takes.
TEST(Flights, WhatIsForACrashedNodeIsNotForTheNextOne) {
  Marked flights(2);
  const std::uint32_t old = *flights.submit(packet(1, 0, 100, 1));
  (void)flights.submit(packet(1, 0, 100, 2));
  const std::uint32_t other = *flights.submit(packet(0, 1, 100, 3));
  flights.crash(0, [](const auto&) { return false; });
  flights.revive(0);
  (void)flights.submit(packet(1, 0, 100, 4));
  EXPECT_FALSE(flights.delivers(flights.twin(old)));
  EXPECT_FALSE(flights.delivers(old));
  EXPECT_TRUE(flights.delivers(other));
  flights.cut(1, 0, kNothing);
  EXPECT_EQ(tags(flights, flights.heal(1, 0)), (std::vector<std::uint16_t>{4}));
}

TEST(Flights, ATwinIsTheSameAndLandsByItself) {
  Marked flights(2);
  const std::uint32_t one = *flights.submit(packet(0, 1, 100, 7));
  flights[one].value = 3;
  (void)flights.departs(one);
  const std::uint32_t other = flights.twin(one);
  EXPECT_NE(other, one);
  EXPECT_EQ(flights[other].value, 3u);
  EXPECT_TRUE(flights[other].told);
  EXPECT_TRUE(flights.delivers(one));
  EXPECT_TRUE(flights.has_bulk());
  EXPECT_TRUE(flights.delivers(other));
  EXPECT_FALSE(flights.has_bulk());
}

Buffer save(Marked& flights) {
  Archive ar;
  flights.state(ar);
  return ar.take();
}

TEST(Flights, SavedAndLoadedTheyGoOn) {
  Marked flights(4), loaded(4);
  flights.cut(1, 2, kNothing);
  (void)flights.submit(packet(1, 2, 100, 1));
  (void)flights.land(*flights.submit(packet(0, 1, 100, 2)));
  const std::uint32_t slot = *flights.submit(packet(0, 1, 100, 3));
  flights[slot].value = 5;
  flights.crash(3, kAll);
  const Buffer bytes = save(flights);
  Archive ar(bytes);
  loaded.state(ar);
  ASSERT_TRUE(ar.finish());
  EXPECT_TRUE(loaded.good());
  EXPECT_EQ(save(loaded), bytes);
  EXPECT_TRUE(loaded.flies(flights.id(slot)));
  EXPECT_EQ(loaded[slot].value, 5u);
  EXPECT_FALSE(loaded.submit(packet(0, 3, 100)));
  for (Marked* each : {&flights, &loaded})
    EXPECT_EQ(tags(*each, each->heal(1, 2)), std::vector<std::uint16_t>{1});
  EXPECT_EQ(loaded[*loaded.submit(packet(0, 1, 100))].number, 4u);
}

// As Flights writes itself, but of parts that may not fit.
struct Written {
  std::vector<Marked::Flight> flights = {};
  std::vector<std::uint32_t> free_slots = {};
  std::uint64_t number = 0, bulk = 0;
  std::vector<bool> dead = {false, false};
  std::map<std::pair<Rank, Rank>, std::map<std::uint64_t, std::pair<Packet, bool>>> cut = {};
};

bool is_good(Written written) {
  Archive out;
  out.expect("flights");
  out(written.flights, written.free_slots, written.number, written.bulk, written.dead, written.cut);
  const Buffer bytes = out.take();
  Marked flights(2);
  Archive in(bytes);
  flights.state(in);
  EXPECT_TRUE(in.finish());
  return flights.good();
}

TEST(Flights, WhatIsLoadedNamesNothingThatIsNotThere) {
  std::vector<Marked::Flight> one(1), wrong(1);
  one[0].packet = packet(0, 1, 100);
  wrong[0].packet = packet(0, 2, 100);
  EXPECT_TRUE(is_good({.flights = one, .free_slots = {0}}));
  EXPECT_FALSE(is_good({.dead = {false}}));
  EXPECT_FALSE(is_good({.flights = one, .free_slots = {1}}));
  EXPECT_FALSE(is_good({.flights = wrong}));
  EXPECT_FALSE(is_good({.cut = {{{0, 1}, {{7, {packet(2, 1, 100), false}}}}}}));
  wrong[0].packet = packet(0, 1, 100);
  wrong[0].packet.chunks = 0;
  EXPECT_FALSE(is_good({.flights = wrong}));
}

}  // namespace
}  // namespace longhaul::sim
