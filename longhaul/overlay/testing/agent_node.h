#pragma once
// An agent of tsengine fed by hand, with a coordinator of its own, which is asked if it serves.
#include <sstream>

#include "longhaul/overlay/messages.h"
#include "longhaul/overlay/testing/paper_node.h"
#include "longhaul/overlay/tsengine_attempt.h"

namespace longhaul::overlay::testing {

inline constexpr std::int64_t kMinute = 60'000'000'000;  // ns

struct AgentOptions {
  Rank server = 2;
  bool streamed = true;
  bool exact = false;
  std::uint32_t buckets = 2;
  Round round = 0;
  bool phantom = false;
};

struct WithCoordinator {  // is made before the agent that is given it
  tsengine::Coordinator coordinator{{}, 1};
};

// Of four members, or a server that is none. Nine values in pieces of two and a last one of one:
// with two buckets pieces 0 and 1 are bucket 0, pieces 2, 3 and 4 are bucket 1.
struct AgentNode : WithCoordinator, PaperNode<tsengine::Agent> {
  using Lines = std::vector<std::string>;

  explicit AgentNode(Rank self, AgentOptions how = {})
      : PaperNode(table_of(self, how), how.round, how.exact, how.buckets, how.streamed,
                  coordinator) {
    coordinator.new_team(table->team);
  }
  static std::unique_ptr<Table> table_of(Rank self, const AgentOptions& how) {
    const GroupMembers team{self, 0, {0, 1, 2, 3, 4, 5, 6, 7}, {2, 3, 5, 7}, how.server};
    auto table = std::make_unique<Table>(team, 9, 1, 2);
    table->phantom = how.phantom;
    return table;
  }

  bool hear(Rank from, const auto& one) {
    return bool(attempt.take_message(from, tsengine::write(one), context));
  }
  // What it told itself, in the next turn.
  void hear_itself() {
    for (const AttemptActions::Told& one : std::exchange(context.notes, {})) {
      if (one.to != self()) {
        context.notes.push_back(one);
      } else {
        ASSERT_TRUE(attempt.take_message(one.to, one.note, context));
      }
    }
  }
  bool announce(Rank from, std::uint32_t bucket, tsengine::Xfer xfer, double weight,
                const std::vector<Rank>& counted) {
    return hear(from, tsengine::Sending{bucket, xfer, false, weight, to_bits(counted)});
  }
  bool announce_mean(Rank from, std::uint32_t bucket, tsengine::Xfer xfer) {
    return hear(from, tsengine::Sending{bucket, xfer, true, 0, {}});
  }
  // All of one of two buckets, each value the number of its piece more than `value`.
  void give_all(Rank from, const TransferKey& key, std::uint32_t bucket, double weight,
                float value) {
    for (std::size_t piece = bucket == 0 ? 0 : 2; piece < (bucket == 0 ? 2u : 5u); ++piece)
      ASSERT_TRUE(give(from, key, piece, weight, value + float(piece)));
  }
  // All of the last post goes out.
  void send_all() {
    const Outgoing out = newest();
    for (const Range range : out.ranges) bytes(out.key, *table->grid.find(range));
  }

  // What was told since this was asked last, each as "TO: NAME FIELD VALUE, FIELD VALUE ...".
  Lines told() {
    Lines lines;
    for (const AttemptActions::Told& one : std::exchange(context.notes, {})) {
      const auto add = [&](const auto& message) -> Status {
        lines.push_back(std::to_string(one.to) + ": " + text(message));
        return Ok{};
      };
      EXPECT_TRUE(tsengine::read(one.note, add));
    }
    return lines;
  }

 private:
  template <class M>
  static std::string text(const M& message) {
    std::ostringstream out;
    out << M::kName;
    const char* comma = " ";
    M::fields(message, [&](const Field& field, const auto& value) {
      out << std::exchange(comma, ", ") << field.name << ' ';
      using Value = std::decay_t<decltype(value)>;
      if constexpr (std::is_same_v<Value, std::vector<std::uint8_t>>) {
        out << '{' << list_ranks(from_bits(value)) << '}';
      } else if constexpr (std::is_enum_v<Value>) {
        out << int(value);
      } else {
        out << value;
      }
    });
    return out.str();
  }
};

}  // namespace longhaul::overlay::testing
