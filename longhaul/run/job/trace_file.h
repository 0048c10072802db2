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

inline constexpr std::size_t kMaxTraceRows = 65536;  // in all files of a job together

struct TraceRows {
  std::vector<double> at_s, values;
};

// Values are from 0, or above it, to the kind's maximum.
Result<TraceRows> parse_trace(std::string_view text, const std::string& file, const CellKind&);

// Replaces every `file` of a [[wan.trace]] by at_s and values, and every `step_trace` of a [[site]]
// by step_at_s and step_values. The job and its hash then contain the values. Paths are relative to
// the job file.
Status read_trace_files(Document&);

}  // namespace longhaul::run
