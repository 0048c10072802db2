#pragma once
// The log that an index is made from again after a crash: one record for each batch of objects,
// gap, or batch of verdicts. It is written before an object is acknowledged. Replay is idempotent
// by seq: what is indexed already changes nothing.
#include "longhaul/base/bytes.h"
#include "longhaul/focus/index.h"
#include "longhaul/focus/verdicts.h"

namespace longhaul::focus {

struct LoggedItem {
  Seen seen;
  std::uint64_t cluster = 0;
  std::vector<float> values;  // of a representative; else empty
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit(Field{.name = "seq"}, self.seen.seq);
    visit(Field{.name = "at_ns"}, self.seen.at_ns);
    visit(Field{.name = "feature"}, self.seen.feature);
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
struct LogRecord {
  std::vector<Chosen> adopted;  // before all else
  std::vector<LoggedGap> gaps;  // before the items
  std::vector<LoggedItem> items;
  std::vector<LoggedVerdict> verdicts;
  LONGHAUL_FIELDS(adopted, gaps, items, verdicts)
};

// Record `number` of a log, which is whole. Error: it is damaged, or of another index.
Status replay_record(std::span<const std::byte> record, std::uint64_t number, std::uint32_t source,
                     Index&, Verdicts&);
// Makes index and verdicts again. A last record that is torn is left out: nothing that depends on
// it was acknowledged. Returns the records that count. Error: a record of another index, or a
// damaged one before the last.
Result<std::uint64_t> replay(std::span<const Bytes> records, std::uint32_t source, Index&,
                             Verdicts&);

}  // namespace longhaul::focus
