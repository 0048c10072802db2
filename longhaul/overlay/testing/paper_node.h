#pragma once
// One node's attempt at a PaperDesk, fed by hand: what the tests of all attempts need. A test's own
// Node derives from it and says what table it sits at.
#include <gtest/gtest.h>

#include "longhaul/overlay/testing/paper_desk.h"

namespace longhaul::overlay::testing {

// `A`: the attempt. Owns table, desk and attempt. All values that it contributes are its rank,
// unless set_own() says otherwise.
template <class A>
struct PaperNode {
  // The epoch of keys and shares is the table's; `rest` is what A takes behind its terms.
  template <class... Rest>
  PaperNode(std::unique_ptr<const Table> about, Round round, bool exact, Rest&&... rest)
      : table(std::move(about)),
        desk(table->grid, float(table->team.self), exact, table->phantom),
        attempt(table->terms(round, exact), std::forward<Rest>(rest)...) {}

  // --- names
  Rank self() const { return table->team.self; }
  CodecKey vector(Rank origin) const { return {attempt.terms().key, origin}; }
  TransferKey key(Phase phase, Coding coding, Rank origin) const {
    return {table->team.epoch, vector(origin), std::uint8_t(phase), coding};
  }
  TransferKey own(Rank from) const { return key(Phase::part, Coding::up, from); }
  TransferKey mixed(Rank from) const { return key(Phase::part, Coding::down, from); }
  TransferKey mean(Rank by) const { return key(Phase::mean, Coding::down, by); }

  // --- inputs
  void contribute(double weight) { attempt.contribute(table->grid.length(), weight, desk); }
  bool share(Rank from, double weight) {
    const Share share{table->team.epoch, vector(from), table->grid.length(), attempt.terms().exact,
                      weight};
    return bool(attempt.take_share(from, share, desk));
  }
  bool admits(Rank from, const TransferKey& key, std::size_t piece = 0) const {
    return bool(attempt.admit(from, key, piece));
  }
  // An admitted piece, all of whose values are `value`, just as given.
  bool give(Rank from, const TransferKey& key, std::size_t piece, double weight, float value) {
    const std::vector<float> values(table->grid.range(piece).length, value);
    return give(from, key, piece, weight, PaperDesk::bytes_of(values));
  }
  // An admitted piece that comes as these bytes.
  bool give(Rank from, const TransferKey& key, std::size_t piece, double weight, Payload bytes) {
    EXPECT_TRUE(admits(from, key, piece)) << "piece " << piece << " of " << from;
    desk.arrived = std::move(bytes);
    Arrival arrival{from, key, table->grid.range(piece), desk.read(piece, key.coding, desk.arrived),
                    weight};
    return bool(attempt.take(std::move(arrival), piece, desk));
  }
  // Brings another node the pieces that this one posted.
  void bring(const Outgoing& out, PaperNode& to) {
    for (const Range range : out.ranges) {
      const std::size_t piece = table->grid.find(range).value();
      ASSERT_TRUE(to.give(self(), out.key, piece, out.weight, bytes(out.key, piece)));
    }
  }
  Buffer saved() {
    Archive out;
    attempt.state(out);
    return out.take();
  }
  // Goes on from where `other` is; not with its desk.
  void load(PaperNode& other) {
    const Buffer bytes = other.saved();
    Archive in(bytes);
    attempt.state(in);
    ASSERT_TRUE(in.finish());
  }

  // --- answers
  std::vector<Range> posted(const TransferKey& key) const {
    std::vector<Range> ranges;
    for (const Outgoing& out : desk.posts)
      if (out.key == key) ranges.insert(ranges.end(), out.ranges.begin(), out.ranges.end());
    return ranges;
  }
  const Outgoing& newest() const { return desk.posts.back(); }
  // What goes out of a posted piece, now that there is room for it.
  Payload bytes(const TransferKey& key, std::size_t piece) {
    return attempt.encoded(key, piece, desk);
  }
  std::vector<float> sent(const TransferKey& key, std::size_t piece) {
    return desk.read(piece, key.coding, bytes(key, piece));
  }

  std::unique_ptr<const Table> table;
  PaperDesk desk;
  A attempt;
};

}  // namespace longhaul::overlay::testing
