#pragma once
// The log from which an index is rebuilt after a crash: one record for each batch of objects, gap,
// or batch of verdicts. A record is written before its objects are acknowledged. Replay is
// idempotent by seq: an object that is already indexed changes nothing.
#include "longhaul/base/bytes.h"
#include "longhaul/focus/index.h"

namespace longhaul::focus {

// A feature in the log: IEEE binary16, two bytes a value. Values that are already rounded
// (rounded()) do not change, so that replay makes the same clusters.
std::vector<std::uint16_t> halves_of(std::span<const float>);
std::vector<float> floats_of(std::span<const std::uint16_t>);
std::vector<float> rounded(std::span<const float>);

struct LoggedItem {
  Seen seen;  // without its feature
  std::vector<std::uint16_t> feature = {};
  std::uint64_t cluster = 0;
  std::vector<float> values;  // representatives only, else empty
  static void fields(auto& self, auto&& visit) {
    visit(Field{.name = "seq"}, self.seen.seq);
    visit(Field{.name = "at_ns"}, self.seen.at_ns);
    LONGHAUL_FIELD(feature);
    visit(Field{.name = "scores"}, self.seen.scores);
    LONGHAUL_FIELD(cluster);
    LONGHAUL_FIELD(values);
  }
};
struct LoggedGap {
  std::uint64_t last_seq = 0;
  Interval interval;
  LONGHAUL_FIELDS(last_seq, interval)
};
struct LoggedVerdict {
  std::uint64_t cluster = 0;
  std::uint32_t version = 0, cls = 0;
  LONGHAUL_FIELDS(cluster, version, cls)
};
struct LoggedModel {
  std::uint32_t number = 0;  // the learner's number of the model
  GivenModel model;
  LONGHAUL_FIELDS(number, model)
};
struct LogRecord {
  std::vector<LoggedModel> models = {};  // applied first
  std::vector<Chosen> adopted;           // before the gaps
  std::vector<LoggedGap> gaps;           // before the items
  std::vector<LoggedItem> items;
  std::vector<LoggedVerdict> verdicts;
  LONGHAUL_FIELDS(models, adopted, gaps, items, verdicts)
};

// Replays record `number` of a log, which is whole. Returns an Error if the record is damaged or of
// another index.
Status replay_record(std::span<const std::byte> record, std::uint64_t number, std::uint32_t source,
                     Index&, Verdicts&, KeptModels&);
// Rebuilds index and verdicts. Ignores a last record that is torn: nothing that depends on it was
// acknowledged. Returns the number of records used, or an Error if a record is of another index or
// damaged before the last.
Result<std::uint64_t> replay(std::span<const Bytes> records, std::uint32_t source, Index&,
                             Verdicts&, KeptModels&);

}  // namespace longhaul::focus
