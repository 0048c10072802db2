#pragma once
// A trace from CSV text, for [[wan.trace]] file and [[site]] step_trace:
//   # comment
//   seconds,value
//   0,80
//   12.5,20
// Each value holds from its time to that of the next row; the first time is 0, and they ascend.
// Every other text is an Error that names file, line, column and what was expected.
#include <string>
#include <string_view>
#include <vector>

#include "longhaul/base/result.h"
#include "longhaul/run/job/csv.h"
#include "longhaul/run/job/document.h"

namespace longhaul::run {

inline constexpr std::size_t kMaxTraceRows = 65536;  // of all files of a job

struct TraceRows {
  std::vector<double> at_s, values;
};

// Values are from 0, or above it, to the kind's maximum.
Result<TraceRows> parse_trace(std::string_view text, const std::string& file, const CellKind&);

// Puts at_s and values in the place of every `file` of a [[wan.trace]], step_at_s and step_values
// in that of every `step_trace` of a [[site]], so that the job and its hash hold what the file
// holds. Paths are relative to the job file.
Status read_trace_files(Document&);

}  // namespace longhaul::run
