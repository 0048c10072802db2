#pragma once
// One node's attempt at a PaperContext, fed by hand: what the tests of all attempts need. A test's
// own Node derives from it and says what table it sits at.
#include <gtest/gtest.h>

#include "longhaul/base/testing/archived.h"
#include "longhaul/overlay/testing/paper_context.h"

namespace longhaul::overlay::testing {

using Post = std::tuple<TransferKey, Rank, double>;  // its key, to whom, and what it weighs

// `A`: the attempt. Owns table, desk and attempt. All values that it contributes are its rank,
// unless set_own() says otherwise.
template <class A>
struct PaperNode {
  // The epoch of keys and shares is the table's; `rest` is what A takes behind its terms.
  template <class... Rest>
  PaperNode(std::unique_ptr<const Table> about, Round round, bool exact, Rest&&... rest)
      : table(std::move(about)),
        context(table->grid, float(table->team.self), exact, table->phantom),
        attempt(table->spec(round, exact), std::forward<Rest>(rest)...) {}

  // --- names
  Rank self() const { return table->team.self; }
  CodecKey vector(Rank origin) const { return {attempt.spec().key, origin}; }
  TransferKey key(Phase phase, Coding coding, Rank origin) const {
    return {table->team.epoch, vector(origin), std::uint8_t(phase), coding};
  }
  TransferKey own(Rank from) const { return key(Phase::part, Coding::up, from); }
  TransferKey mixed(Rank from) const { return key(Phase::part, Coding::down, from); }
  TransferKey mean(Rank by) const { return key(Phase::mean, Coding::down, by); }

  // --- inputs
  void contribute(double weight) { attempt.contribute(table->grid.length(), weight, context); }
  bool share(Rank from, double weight) {
    const Announcement share{table->team.epoch, vector(from), table->grid.length(),
                             attempt.spec().exact, weight};
    return bool(attempt.take_announcement(from, share, context));
  }
  bool admits(Rank from, const TransferKey& key, std::size_t piece = 0) const {
    const auto admitted = attempt.admit(from, key, piece);
    return admitted && *admitted;
  }
  bool late(Rank from, const TransferKey& key, std::size_t piece) const {
    const auto admitted = attempt.admit(from, key, piece);
    return admitted && !*admitted;
  }
  // An admitted piece, all of whose values are `value`, just as given.
  bool give(Rank from, const TransferKey& key, std::size_t piece, double weight, float value) {
    const std::vector<float> values(table->grid.range(piece).length, value);
    return give(from, key, piece, weight, PaperContext::bytes_of(values));
  }
  // An admitted piece that comes as these bytes.
  bool give(Rank from, const TransferKey& key, std::size_t piece, double weight, Payload bytes) {
    EXPECT_TRUE(admits(from, key, piece)) << "piece " << piece << " of " << from;
    context.arrived = std::move(bytes);
    Arrival arrival{from, key, table->grid.range(piece),
                    context.read(piece, key.coding, context.arrived), weight};
    return bool(attempt.take(std::move(arrival), piece, context));
  }
  // Brings another node the pieces that this one posted.
  void bring(const Outgoing& out, PaperNode& to) {
    for (const Range range : out.ranges) {
      const std::size_t piece = table->grid.find(range).value();
      ASSERT_TRUE(to.give(self(), out.key, piece, out.weight, bytes(out.key, piece)));
    }
  }
  Buffer saved() { return longhaul::testing::saved(attempt); }
  // Goes on from where `other` is; not with its desk.
  void load(PaperNode& other) {
    ASSERT_TRUE(longhaul::testing::copy_state(other.attempt, attempt));
  }

  // --- answers
  std::vector<Range> posted(const TransferKey& key) const {
    std::vector<Range> ranges;
    for (const Outgoing& out : context.posts)
      if (out.key == key) ranges.insert(ranges.end(), out.ranges.begin(), out.ranges.end());
    return ranges;
  }
  const Outgoing& newest() const { return context.posts.back(); }
  Post last() const { return {newest().key, newest().to, newest().weight}; }
  // What goes out of a posted piece, now that there is room for it.
  Payload bytes(const TransferKey& key, std::size_t piece) {
    return attempt.encoded(key, piece, context);
  }
  std::vector<float> sent(const TransferKey& key, std::size_t piece) {
    return context.read(piece, key.coding, bytes(key, piece));
  }

  std::unique_ptr<const Table> table;
  PaperContext context;
  A attempt;
};

}  // namespace longhaul::overlay::testing
