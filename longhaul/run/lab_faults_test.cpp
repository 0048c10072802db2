#include "longhaul/run/lab.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "longhaul/run/job/testing/job_text.h"

namespace longhaul::run {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Sites a, b with two nodes, c.
Job job_with(const std::string& faults) {
  return testing::good_job(
      "[model]\nkind = \"phantom\"\n[sync]\nkind = \"bsp\"\n[[site]]\nname = \"a\"\n[[site]]\n"
      "name = \"b\"\nnodes = 2\n[[site]]\nname = \"c\"\n" +
      faults);
}

std::vector<std::string> texts(const std::vector<sim::Change>& changes) {
  std::vector<std::string> all;
  for (const sim::Change& one : changes)
    all.push_back(fmt::format("{} {} {}-{}", seconds(one.at),
                              one.what == sim::Change::What::cut ? "cut" : "healed", one.from,
                              one.to));
  return all;
}

std::vector<std::string> texts(const std::vector<ProcessFaults::Act>& acts) {
  constexpr const char* kNames[] = {"kills", "stops", "goes_on", "starts"};
  std::vector<std::string> all;
  for (const auto& one : acts)
    all.push_back(fmt::format("{} {} {} of {}", seconds(one.at), kNames[std::size_t(one.what)],
                              one.site, one.ranks.size()));
  return all;
}

TEST(LabFaults, ACutIsTheRoutersBothWaysUntilItsEnd) {
  EXPECT_THAT(
      texts(cuts_of(job_with("[[fault]]\nkind = \"cut\"\nsite = \"c\"\nto = \"a\"\nat_s = 3\n"
                             "for_s = 2\n"))),
      ElementsAre("3 cut 2-0", "5 healed 2-0", "3 cut 0-2", "5 healed 0-2"));
  EXPECT_THAT(
      texts(cuts_of(job_with("[[fault]]\nkind = \"cut\"\nsite = \"b\"\nat_s = 1\none_way = "
                             "true\n[[fault]]\nkind = \"crash\"\nsite = \"a\"\nat_s = 2\n"))),
      ElementsAre("1 cut 1-0", "1 cut 1-2"));
}

TEST(LabFaults, WhatBefallsProcessesIsToldOnceInOrderOfTime) {
  ProcessFaults faults(
      job_with("[[fault]]\nkind = \"pause\"\nsite = \"b\"\nat_s = 4\nfor_s = 3\n"
               "[[fault]]\nkind = \"crash\"\nsite = \"a\"\nat_s = 5\nrestart_s = 9\n"
               "[[fault]]\nkind = \"cut\"\nsite = \"c\"\nat_s = 1\n"));
  EXPECT_THAT(texts(faults.due(from_seconds(3.9))), IsEmpty());
  EXPECT_THAT(texts(faults.due(from_seconds(6))), ElementsAre("4 stops b of 2", "5 kills a of 1"));
  EXPECT_TRUE(faults.will_start());
  EXPECT_THAT(texts(faults.due(from_seconds(6))), IsEmpty());
  EXPECT_THAT(texts(faults.due(from_seconds(100))),
              ElementsAre("7 goes_on b of 2", "14 starts a of 1"));
  EXPECT_FALSE(faults.will_start());
}

}  // namespace
}  // namespace longhaul::run
