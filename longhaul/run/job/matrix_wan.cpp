#include "longhaul/run/job/matrix_wan.h"

#include <algorithm>

#include <fmt/format.h>

#include "longhaul/base/settings.h"

namespace longhaul::run {
namespace {

// Sites of `a` that `b` lacks, or "".
std::string missing_from(const Matrix& b, const Matrix& a) {
  std::string list;
  for (const std::string& name : a.names)
    if (!b.find(name)) list += (list.empty() ? "" : ", ") + name;
  return list;
}

Status check_same_sites(const Matrix& rates, const Matrix& rtts) {
  std::string why;
  for (const auto& [has, lacks] : {std::pair{&rates, &rtts}, std::pair{&rtts, &rates}})
    if (const std::string list = missing_from(*lacks, *has); !list.empty())
      why += fmt::format("{}{} lacks {}", why.empty() ? "" : ", ", lacks->file, list);
  if (why.empty()) return Ok{};
  return invalid(fmt::format("{} and {} name different sites: {}; expected the same ones in both",
                             rates.file, rtts.file, why));
}

Result<std::vector<std::uint32_t>> rows_of(const Matrix& matrix,
                                           const std::vector<std::string>& sites) {
  std::vector<std::uint32_t> rows;
  for (const std::string& name : sites) {
    const auto row = matrix.find(name);
    if (!row) {
      const std::vector<std::string_view> known(matrix.names.begin(), matrix.names.end());
      return invalid(
          fmt::format("{}: has no site '{}'{}", matrix.file, name, suggestion(name, known)));
    }
    rows.push_back(*row);
  }
  return rows;
}

}  // namespace

Result<flow::Wan> wan_of_matrices(const std::optional<Matrix>& mbps,
                                  const std::optional<Matrix>& rtt_ms,
                                  const std::vector<std::string>& sites) {
  LH_CHECK(mbps || rtt_ms);
  if (mbps && rtt_ms && sites.empty()) LH_TRY(check_same_sites(*mbps, *rtt_ms));
  const std::vector<std::string>& names = !sites.empty() ? sites : (mbps ? mbps : rtt_ms)->names;
  std::vector<std::uint32_t> rate_rows, rtt_rows;
  for (auto [matrix, rows] : {std::pair{&mbps, &rate_rows}, std::pair{&rtt_ms, &rtt_rows}}) {
    if (!*matrix) continue;
    auto found = rows_of(**matrix, names);
    if (!found) return found.error();
    *rows = *std::move(found);
  }
  flow::Wan wan;
  for (const std::string& name : names) wan.sites.push_back({name, {}, {}, {}});
  for (std::uint32_t from = 0; from < names.size(); ++from)
    for (std::uint32_t to = 0; to < names.size(); ++to) {
      if (from == to) continue;
      flow::Wan::Pair& pair = wan.pairs[{from, to}];
      if (mbps) pair.rate = flow::bytes_per_second(mbps->at(rate_rows[from], rate_rows[to]));
      if (rtt_ms) pair.delay_s = rtt_ms->at(rtt_rows[from], rtt_rows[to]) / 2 / 1000;
    }
  return wan;
}

}  // namespace longhaul::run
