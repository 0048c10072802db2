#pragma once
// The log that an index is made from again after a crash: one record for each batch of objects,
// gap, or batch of verdicts. It is written before an object is acknowledged. Replay is idempotent
// by seq: what is indexed already changes nothing.
#include "longhaul/base/bytes.h"
#include "longhaul/focus/index.h"

namespace longhaul::focus {

// A feature in the log: IEEE binary16, two bytes a value. What is rounded already comes back the
// same (rounded()), so that replay makes the same clusters.
std::vector<std::uint16_t> halves_of(std::span<const float>);
std::vector<float> floats_of(std::span<const std::uint16_t>);
std::vector<float> rounded(std::span<const float>);

struct LoggedItem {
  Seen seen;  // without its feature
  std::vector<std::uint16_t> feature = {};
  std::uint64_t cluster = 0;
  std::vector<float> values;  // of a representative; else empty
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
  std::uint32_t number = 0;  // under which the learner has it
  GivenModel model;
  LONGHAUL_FIELDS(number, model)
};
struct LogRecord {
  std::vector<LoggedModel> models = {};  // before all else
  std::vector<Chosen> adopted;           // before the gaps
  std::vector<LoggedGap> gaps;           // before the items
  std::vector<LoggedItem> items;
  std::vector<LoggedVerdict> verdicts;
  LONGHAUL_FIELDS(models, adopted, gaps, items, verdicts)
};

// Record `number` of a log, which is whole. Error: it is damaged, or of another index.
Status replay_record(std::span<const std::byte> record, std::uint64_t number, std::uint32_t source,
                     Index&, Verdicts&, KeptModels&);
// Makes index and verdicts again. A last record that is torn is left out: nothing that depends on
// it was acknowledged. Returns the records that count. Error: a record of another index, or a
// damaged one before the last.
Result<std::uint64_t> replay(std::span<const Bytes> records, std::uint32_t source, Index&,
                             Verdicts&, KeptModels&);

}  // namespace longhaul::focus
