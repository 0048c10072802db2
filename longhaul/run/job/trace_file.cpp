#include "longhaul/run/job/trace_file.h"

#include <filesystem>

#include <fmt/format.h>

#include "longhaul/run/job/check.h"
#include "longhaul/run/job/tables.h"

namespace longhaul::run {
namespace {

constexpr double kLatest = 1e9;  // s, as of at_s

class TraceReader {
 public:
  TraceReader(std::string file, const CellKind& kind) : file_(std::move(file)), kind_(kind) {}

  Status take(std::string_view line, int number) {
    line_ = number;
    const auto cells = cells_of(line);
    if (!head_seen_) {
      head_seen_ = true;
      if (cells.size() == 2 && cells[0] == "seconds" && cells[1] == "value") return Ok{};
      return expected("a first line seconds,value", line);
    }
    if (cells.size() != 2)
      return expected(fmt::format("two cells, seconds and value, not {}", cells.size()), line);
    if (rows_.at_s.size() == kMaxTraceRows)
      return expected(fmt::format("at most {} rows", kMaxTraceRows), line);
    LH_TRY(take_time(cells[0]));
    const auto value = number_in(cells[1]);
    if (!value || *value < 0 || *value > kind_.max || (kind_.positive && *value == 0))
      return expected(fmt::format("{} {} {:g} in column 2", kind_.noun,
                                  kind_.positive ? "above 0 and at most" : "from 0 to", kind_.max),
                      cells[1]);
    rows_.values.push_back(*value);
    return Ok{};
  }

  Result<TraceRows> finish() && {
    if (rows_.values.empty())
      return malformed(fmt::format(
          "{}: {}; expected a first line seconds,value and a row for each change, the first at 0",
          file_, head_seen_ ? "has no rows" : "empty"));
    return std::move(rows_);
  }

 private:
  Error expected(const std::string& what, std::string_view found) const {
    return malformed(fmt::format("{}:{}: expected {}, found {}", file_, line_, what, shown(found)));
  }

  Status take_time(std::string_view cell) {
    const auto at = number_in(cell);
    if (rows_.at_s.empty() && at != 0.0) return expected("0 as the first time", cell);
    if (!rows_.at_s.empty() && (!at || *at <= rows_.at_s.back() || *at > kLatest))
      return expected(fmt::format("a time in s above that of the row before, {}, and at most "
                                  "{:g} in column 1",
                                  rows_.at_s.back(), kLatest),
                      cell);
    rows_.at_s.push_back(*at);
    return Ok{};
  }

  const std::string file_;
  const CellKind kind_;
  TraceRows rows_;
  bool head_seen_ = false;
  int line_ = 0;
};

CellKind kind_of(const Settings& table) {
  const std::string what = table.text("what").value_or("");
  if (what == "delay") return {"a delay in ms", kMaxDelay};
  if (what == "loss") return {"a share of packets lost", kMaxLoss};
  return {"a rate in Mbit/s", kMaxRate};
}

// The keys of a table for a trace.
struct Keys {
  const char *file, *at_s, *values;
};
constexpr Keys kOfWan{"file", "at_s", "values"};
constexpr Keys kOfSite{"step_trace", "step_at_s", "step_values"};

Status check_beside(const Settings& table, const Keys& keys) {
  const auto kind = table.text("kind");
  if (kind && *kind != "steps")
    return about(table, keys.file,
                 fmt::format("no {} with kind = \"{}\": one holds steps", keys.file, *kind));
  for (const char* key : {keys.at_s, keys.values})
    if (table.find(key))
      return about(table, keys.file,
                   fmt::format("no {} beside {}: it has times and values", keys.file, key));
  return Ok{};
}

// In front of an error of the file: the key that led to it.
Error through(const Settings& table, const Keys& keys, const Error& error) {
  const std::string place = source_of(*table.find(keys.file));
  return {error.kind, fmt::format("{}: [{}] {}: {}", place, table.table, keys.file, error.what)};
}

// What a repetition needs the file alone can say.
Status check_repeat(const Settings& table, const TraceRows& rows) {
  const Setting* entry = table.find("repeat_s");
  if (!entry) return Ok{};
  double repeat_s = 0;
  const Status read = read_value(table, *entry, {.name = "repeat_s"}, repeat_s);
  if (!read || repeat_s == 0 || repeat_s > rows.at_s.back()) return Ok{};
  return about(table, "repeat_s",
               fmt::format("more than the last time of the file, {}, or 0", rows.at_s.back()));
}

// `left`: rows that the files of the job may still have.
Status read_trace_file(const Document& doc, Settings& table, const Keys& keys, const CellKind& kind,
                       std::size_t& left) {
  const std::string named = table.text(keys.file).value_or("");
  if (named.empty()) return Ok{};
  LH_TRY(check_beside(table, keys));
  const auto path = (std::filesystem::path(doc.file).parent_path() / named).string();
  const auto text = read_csv(path, "trace (CSV)");
  if (!text) return through(table, keys, text.error());
  auto rows = parse_trace(*text, path, kind);
  if (!rows) return through(table, keys, rows.error());
  if (rows->values.size() > left)
    return about(table, keys.file,
                 fmt::format("at most {} rows in all files of a job", kMaxTraceRows));
  left -= rows->values.size();
  LH_TRY(check_repeat(table, *rows));
  std::erase_if(table.entries, [&](const Setting& entry) { return entry.key == keys.file; });
  table.set({keys.at_s, to_value(rows->at_s), path, 0});
  table.set({keys.values, to_value(rows->values), path, 0});
  return Ok{};
}

}  // namespace

Result<TraceRows> parse_trace(std::string_view text, const std::string& file,
                              const CellKind& kind) {
  TraceReader reader(file, kind);
  LH_TRY(each_line(text,
                   [&](std::string_view line, int number) { return reader.take(line, number); }));
  return std::move(reader).finish();
}

Status read_trace_files(Document& doc) {
  std::size_t left = kMaxTraceRows;
  for (Settings& table : doc.traces)
    LH_TRY(read_trace_file(doc, table, kOfWan, kind_of(table), left));
  for (Settings& table : doc.sites)
    LH_TRY(read_trace_file(doc, table, kOfSite, {"a step time in ms", kMaxStep, true}, left));
  return Ok{};
}

}  // namespace longhaul::run
