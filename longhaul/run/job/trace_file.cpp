#include "longhaul/run/job/trace_file.h"

#include <filesystem>

#include <fmt/format.h>

#include "longhaul/run/job/check.h"
#include "longhaul/run/job/csv.h"
#include "longhaul/run/job/tables.h"

namespace longhaul::run {
namespace {

constexpr double kLatest = 1e9;  // s, as of at_s

class Reader {
 public:
  Reader(std::string file, const CellKind& kind) : file_(std::move(file)), kind_(kind) {}

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
    if (rows_.at_s.size() == kMostTraceRows)
      return expected(fmt::format("at most {} rows", kMostTraceRows), line);
    LH_TRY(take_time(cells[0]));
    const auto value = number_in(cells[1]);
    if (!value || *value < 0 || *value > kind_.max)
      return expected(fmt::format("{} from 0 to {:g} in column 2", kind_.noun, kind_.max),
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
  if (what == "delay") return {"a delay in ms", kLargestDelay};
  if (what == "loss") return {"a share of packets lost", kLargestLoss};
  return {"a rate in Mbit/s", kLargestRate};
}

Status check_beside(const Settings& table) {
  if (const auto kind = table.text("kind"); kind && *kind != "steps")
    return about(table, "file", fmt::format("no file with kind = \"{}\": one holds steps", *kind));
  for (const char* key : {"at_s", "values"})
    if (table.find(key))
      return about(table, "file", fmt::format("no file beside {}: it has times and values", key));
  return Ok{};
}

// In front of an error of the file: the key that led to it.
Error through(const Settings& table, const Error& error) {
  const std::string place = source_of(*table.find("file"));
  return {error.kind, fmt::format("{}: [{}] file: {}", place, table.table, error.what)};
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

}  // namespace

Result<TraceRows> parse_trace(std::string_view text, const std::string& file,
                              const CellKind& kind) {
  Reader reader(file, kind);
  LH_TRY(each_line(text,
                   [&](std::string_view line, int number) { return reader.take(line, number); }));
  return std::move(reader).finish();
}

Status read_trace_files(Document& doc) {
  std::size_t left = kMostTraceRows;
  for (Settings& table : doc.traces) {
    const std::string named = table.text("file").value_or("");
    if (named.empty()) continue;
    LH_TRY(check_beside(table));
    const auto path = (std::filesystem::path(doc.file).parent_path() / named).string();
    const auto text = read_csv(path, "trace (CSV)");
    if (!text) return through(table, text.error());
    auto rows = parse_trace(*text, path, kind_of(table));
    if (!rows) return through(table, rows.error());
    if (rows->values.size() > left)
      return about(table, "file",
                   fmt::format("at most {} rows in all files of a job", kMostTraceRows));
    left -= rows->values.size();
    LH_TRY(check_repeat(table, *rows));
    std::erase_if(table.entries, [](const Setting& entry) { return entry.key == "file"; });
    table.set({"at_s", to_value(rows->at_s), path, 0});
    table.set({"values", to_value(rows->values), path, 0});
  }
  return Ok{};
}

}  // namespace longhaul::run
