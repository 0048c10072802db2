#include "longhaul/focus/log.h"

#include "longhaul/codec/half.h"

namespace longhaul::focus {

std::vector<std::uint16_t> halves_of(std::span<const float> values) {
  std::vector<std::uint16_t> halves;
  for (const float value : values) halves.push_back(codec::to_half(value));
  return halves;
}

std::vector<float> floats_of(std::span<const std::uint16_t> halves) {
  std::vector<float> values;
  for (const std::uint16_t half : halves) values.push_back(codec::from_half(half));
  return values;
}

std::vector<float> rounded(std::span<const float> values) { return floats_of(halves_of(values)); }

namespace {

constexpr const char* kRemedy =
    "; the log is of another job, or damaged: start with an empty folder";

bool can_be(const Chosen& chosen, const IndexConfig& index) {
  return chosen.K > 0 && chosen.T >= 0 && chosen.specialised <= index.classes &&
         (chosen.list.empty() || chosen.list.size() == chosen.specialised);
}

Status apply(const LogRecord& record, std::uint32_t source, Index& index, Verdicts& verdicts,
             KeptModels& models) {
  for (const LoggedModel& one : record.models)
    models[one.number] = std::make_shared<const GivenModel>(one.model);
  for (const Chosen& chosen : record.adopted) {
    if (!can_be(chosen, index.config()))
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
    for (const std::uint16_t half : item.feature)
      if (!codec::half_is_finite(half))
        return malformed("object " + std::to_string(item.seen.seq) +
                         " has a feature that is not finite" + kRemedy);
    Seen seen = item.seen;
    seen.feature = floats_of(item.feature);
    const auto added = index.add(seen, source, item.values);
    if (added && added->cluster != item.cluster)
      return malformed("object " + std::to_string(item.seen.seq) + " was in cluster " +
                       std::to_string(item.cluster) + ", now in " + std::to_string(added->cluster) +
                       kRemedy);
  }
  for (const LoggedVerdict& v : record.verdicts) {
    if (v.cluster >= index.clusters())
      return malformed("a verdict on cluster " + std::to_string(v.cluster) + kRemedy);
    LH_TRY(verdicts.put(v.cluster, v.version, v.cls));
  }
  return Ok{};
}

}  // namespace

Status replay_record(std::span<const std::byte> bytes, std::uint64_t number, std::uint32_t source,
                     Index& index, Verdicts& verdicts, KeptModels& models) {
  const auto record = from_wire<LogRecord>(bytes);
  if (!record)
    return malformed("record " + std::to_string(number) + " of the log " + record.error().what +
                     kRemedy);
  return apply(*record, source, index, verdicts, models);
}

Result<std::uint64_t> replay(std::span<const Bytes> records, std::uint32_t source, Index& index,
                             Verdicts& verdicts, KeptModels& models) {
  for (std::size_t i = 0; i < records.size(); ++i) {
    if (i + 1 == records.size() && !from_wire<LogRecord>(*records[i])) return i;
    LH_TRY(replay_record(*records[i], i + 1, source, index, verdicts, models));
  }
  return records.size();
}

}  // namespace longhaul::focus
