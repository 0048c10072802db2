#include "longhaul/run/job/wan_tables.h"

namespace longhaul::run {

flow::Trace trace_of(const TraceTable& table, double rate_scale) {
  using Kind = flow::Trace::Kind;
  const double unit = table.what == "delay" ? 1e-3 : table.what == "loss" ? 1 : 125000 * rate_scale;
  flow::Trace trace{.kind = table.kind == "steps"    ? Kind::steps
                            : table.kind == "redraw" ? Kind::redraw
                            : table.kind == "markov" ? Kind::markov
                                                     : Kind::day,
                    .at = table.at_s,
                    .values = table.values,
                    .repeat_s = table.repeat_s,
                    .low = table.low * unit,
                    .high = table.high * unit,
                    .every_s = table.every_s,
                    .low_s = table.low_s,
                    .high_s = table.high_s,
                    .period_s = table.period_s,
                    .peak_s = table.peak_s};
  for (double& value : trace.values) value *= unit;
  return trace;
}

}  // namespace longhaul::run
