#include "longhaul/sync/sfb/rule.h"

#include "longhaul/sync/sfb/spread.h"

namespace longhaul::sync::sfb {
namespace {

double product(const LayerShape& s) { return double(s.out) * double(s.in); }
double edge(const LayerShape& s) { return double(s.out) + double(s.in); }
double receivers_of(const LayerShape& s) {
  return double(s.receivers == 0 ? s.parties - 1 : s.receivers);
}
double bytes_per_second_of(const Config& config) { return config.rule_mbps * 1e6 / 8; }

}  // namespace

LayerShape shape_of(std::uint64_t out, std::uint64_t in, std::uint64_t rows, std::uint64_t parties,
                    const Config& config) {
  const bool is_partial = config.spread == "partial";
  return {out, in, rows, parties, is_partial ? partial_peers(config.partial_peers, parties) : 0};
}

double factor_numbers(const LayerShape& s) { return double(s.rows) * receivers_of(s) * edge(s); }

double matrix_numbers(const LayerShape& s) {
  return 2 * product(s) * double(s.parties - 1) / double(s.parties);
}

double server_numbers(const LayerShape& s, std::uint64_t workers, std::uint64_t servers) {
  return 2 * product(s) * double(workers + servers - 2) / double(servers);
}

double most_rows(const LayerShape& s) {
  const double all = 2 * product(s) / (double(s.parties) * edge(s));
  return s.receivers == 0 ? all : all * double(s.parties - 1) / double(s.receivers);
}

double factor_time(const LayerShape& s, double bytes_per_number, const Config& config) {
  const double multiply = 2 * (receivers_of(s) + 1) * double(s.rows) * product(s);
  return factor_numbers(s) * bytes_per_number / bytes_per_second_of(config) +
         config.rule_delay_ms * 1e-3 + multiply / (config.rule_gflops * 1e9);
}

double matrix_time(const LayerShape& s, double bytes_per_number, const Config& config) {
  return matrix_numbers(s) * bytes_per_number / bytes_per_second_of(config) +
         2 * config.rule_delay_ms * 1e-3;
}

bool goes_as_factors(const LayerShape& s, double factor_bytes, double matrix_bytes,
                     const Config& config) {
  if (config.rule == "always") return true;
  if (config.rule == "never") return false;
  if (config.rule == "time")
    return factor_time(s, factor_bytes, config) <= matrix_time(s, matrix_bytes, config);
  return factor_numbers(s) * factor_bytes <= matrix_numbers(s) * matrix_bytes;
}

}  // namespace longhaul::sync::sfb
