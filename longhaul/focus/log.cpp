#include "longhaul/focus/log.h"

namespace longhaul::focus {
namespace {

constexpr const char* kRemedy =
    "; the log is of another job, or damaged: start with an empty folder";

Status apply(const LogRecord& record, std::uint32_t source, Index& index, Verdicts& verdicts) {
  for (const Chosen& chosen : record.adopted) {
    if (chosen.K == 0 || !(chosen.T >= 0) || chosen.specialised > index.config().classes)
      return malformed(std::string("parameters that cannot be") + kRemedy);
    index.adopt(chosen);
  }
  for (const LoggedGap& gap : record.gaps) index.add_gap(gap.last_seq, gap.interval);
  for (const LoggedItem& item : record.items) {
    const bool needs_scores = index.config().vote_mean || !item.values.empty();
    if ((needs_scores || !item.seen.scores.empty()) &&
        item.seen.scores.size() != index.postings().classes())
      return malformed("object " + std::to_string(item.seen.seq) + " has scores of " +
                       std::to_string(item.seen.scores.size()) + " classes, not of " +
                       std::to_string(index.postings().classes()) + kRemedy);
    const auto added = index.add(item.seen, source, item.values);
    if (added && added->cluster != item.cluster)
      return malformed("object " + std::to_string(item.seen.seq) + " was in cluster " +
                       std::to_string(item.cluster) + ", now in " + std::to_string(added->cluster) +
                       kRemedy);
  }
  for (const LoggedVerdict& v : record.verdicts) {
    if (v.cluster >= index.clusters())
      return malformed("a verdict on cluster " + std::to_string(v.cluster) + kRemedy);
    const auto put = verdicts.put(v.cluster, v.version, v.cls);
    if (!put) return put.error();
  }
  return Ok{};
}

}  // namespace

Status replay_record(std::span<const std::byte> bytes, std::uint64_t number, std::uint32_t source,
                     Index& index, Verdicts& verdicts) {
  const auto record = from_wire<LogRecord>(bytes);
  if (!record)
    return malformed("record " + std::to_string(number) + " of the log " + record.error().what +
                     kRemedy);
  return apply(*record, source, index, verdicts);
}

Result<std::uint64_t> replay(std::span<const Bytes> records, std::uint32_t source, Index& index,
                             Verdicts& verdicts) {
  for (std::size_t i = 0; i < records.size(); ++i) {
    if (i + 1 == records.size() && !from_wire<LogRecord>(*records[i])) return i;
    LH_TRY(replay_record(*records[i], i + 1, source, index, verdicts));
  }
  return records.size();
}

}  // namespace longhaul::focus
