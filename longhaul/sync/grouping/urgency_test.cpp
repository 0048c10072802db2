#include "longhaul/sync/grouping/urgency.h"

#include <gtest/gtest.h>

namespace longhaul::sync::grouping {
namespace {

using namespace std::chrono_literals;
using Classes = std::map<Rank, std::uint8_t>;

// Updates of rank r take so many seconds.
Urgencies after_updates_of(std::initializer_list<int> times) {
  Urgencies urgencies;
  Rank rank = 0;
  for (int s : times) {
    urgencies.given(rank, 0s);
    urgencies.came(rank++, Time(std::chrono::seconds(s)));
  }
  return urgencies;
}

TEST(Urgencies, TheSlowestGroupsNeededGoFirstAndSurplusLast) {
  const Urgencies urgencies = after_updates_of({4, 9, 3, 10, 20, 30});
  const std::vector<Need> needs{{{0, 1, 2}, 1, false}, {{3, 4, 5}, 1, false}};
  EXPECT_EQ(urgencies.classes(needs, 50s),
            (Classes{{0, 2}, {1, 2}, {2, 1}, {3, 0}, {4, 2}, {5, 2}}));
  const std::vector<Need> two{{{0, 1, 2}, 3, false}, {{3, 4, 5}, 1, false}};
  EXPECT_EQ(urgencies.classes(two, 50s),  // 9 s are within a tenth of 10
            (Classes{{0, 0}, {1, 0}, {2, 0}, {3, 0}, {4, 2}, {5, 2}}));
  const std::vector<Need> met{{{0, 1, 2}, 1, false}, {{3, 4, 5}, 1, true}};
  EXPECT_EQ(urgencies.classes(met, 50s), (Classes{{0, 2}, {1, 2}, {2, 0}, {3, 2}, {4, 2}, {5, 2}}));
}

TEST(Urgencies, NothingIsSaidBeforeAllTimesAreKnown) {
  const Urgencies urgencies = after_updates_of({4, 9});
  EXPECT_EQ(urgencies.classes({{{0, 1, 2}, 1, false}}, 50s), (Classes{{0, 0}, {1, 0}, {2, 0}}));
}

TEST(Urgencies, WhoIsLateIsReplacedByTheNextFastest) {
  Urgencies urgencies = after_updates_of({4, 10, 8});
  const std::vector<Need> needs{{{0, 1, 2}, 1, false}};
  for (Rank rank : {0u, 1u, 2u}) urgencies.given(rank, 100s);
  EXPECT_EQ(urgencies.next_late(needs, 100s), Time(106s));
  EXPECT_EQ(urgencies.classes(needs, 105s), (Classes{{0, 0}, {1, 2}, {2, 2}}));
  EXPECT_EQ(urgencies.classes(needs, 106s), (Classes{{0, 2}, {1, 2}, {2, 0}}));
  EXPECT_EQ(urgencies.next_late(needs, 106s), Time(112s));
}

TEST(Urgencies, TimesAreSmoothedAndForgottenWithTheirWorker) {
  Urgencies urgencies = after_updates_of({10});
  urgencies.given(0, 0s);
  urgencies.came(0, 20s);  // 13 s now
  urgencies.given(0, 100s);
  EXPECT_EQ(urgencies.next_late({{{0}, 1, false}}, 0s), Time(119500ms));
  urgencies.lose(0);
  EXPECT_EQ(urgencies.next_late({{{0}, 1, false}}, 0s), std::nullopt);
}

}  // namespace
}  // namespace longhaul::sync::grouping
