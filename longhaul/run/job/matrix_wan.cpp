#include "longhaul/run/job/matrix_wan.h"

#include <algorithm>

#include <fmt/format.h>

#include "longhaul/base/settings.h"
#include "longhaul/run/job/check.h"

namespace longhaul::run {
namespace {

constexpr std::size_t kMaxSites = 2000;  // more than a file of the largest size has room for

class MatrixReader {
 public:
  MatrixReader(std::string file, const CellKind& kind) : kind_(kind) {
    matrix_.file = std::move(file);
  }

  Status take(std::string_view line, int number) {
    line_ = number;
    const auto cells = cells_of(line);
    if (!head_seen_) return take_head(cells);
    return take_row(cells);
  }

  Result<Matrix> finish() && {
    if (!head_seen_)
      return malformed(
          fmt::format("{}: empty; expected a first line src,NAME,NAME...; one row "
                      "for each site follows",
                      matrix_.file));
    if (rows_ < matrix_.names.size())
      return malformed(
          fmt::format("{}:{}: ends before the row of '{}'; expected {} rows, one for "
                      "each site of the first line, found {}",
                      matrix_.file, line_, matrix_.names[rows_], matrix_.names.size(), rows_));
    return std::move(matrix_);
  }

 private:
  // `column`: 1 is the first, which names the source.
  Error at(std::size_t column, const std::string& expected, std::string_view found) const {
    return malformed(fmt::format("{}:{}: column {}: expected {}, found {}", matrix_.file, line_,
                                 column, expected, shown(found)));
  }

  Status take_head(const std::vector<std::string_view>& cells) {
    head_seen_ = true;
    if (cells.front() != "src" || cells.size() < 2)
      return at(1, "a first line src,NAME,NAME... with commas between the names of the sites",
                cells.front());
    if (cells.size() - 1 > kMaxSites)
      return at(kMaxSites + 2, fmt::format("at most {} sites", kMaxSites), cells[kMaxSites + 1]);
    for (std::size_t i = 1; i < cells.size(); ++i) {
      if (!is_name(cells[i]) || cells[i].size() > 64)
        return at(i + 1, "a site's name of letters, digits, - and _", cells[i]);
      if (matrix_.find(cells[i])) return at(i + 1, "a name that no other column has", cells[i]);
      matrix_.names.emplace_back(cells[i]);
    }
    return Ok{};
  }

  Status take_row(const std::vector<std::string_view>& cells) {
    const auto& names = matrix_.names;
    if (rows_ == names.size())
      return at(
          1, fmt::format("no more than {} rows, one for each site of the first line", names.size()),
          cells.front());
    const std::string& from = names[rows_];
    if (cells.front() != from)
      return at(1, fmt::format("the row of '{}': rows are in the order of the first line", from),
                cells.front());
    if (cells.size() != names.size() + 1)
      return malformed(
          fmt::format("{}:{}: the row of '{}' has {} cells; expected {}, one for each "
                      "site of the first line, its own empty",
                      matrix_.file, line_, from, cells.size() - 1, names.size()));
    for (std::size_t to = 0; to < names.size(); ++to) LH_TRY(take_cell(cells[to + 1], to));
    ++rows_;
    return Ok{};
  }

  Status take_cell(std::string_view cell, std::size_t to) {
    const std::string &from = matrix_.names[rows_], &name = matrix_.names[to];
    double value = 0;
    if (to == rows_) {
      if (!cell.empty())
        return at(to + 2, fmt::format("an empty cell: '{}' to itself is no link", from), cell);
    } else {
      const auto number = number_in(cell);
      if (!number || *number <= 0 || *number > kind_.max)
        return at(to + 2,
                  fmt::format("{} above 0 and at most {:g}, from '{}' to '{}'", kind_.noun,
                              kind_.max, from, name),
                  cell);
      value = *number;
    }
    matrix_.cells.push_back(value);
    return Ok{};
  }

  const CellKind kind_;
  Matrix matrix_;
  bool head_seen_ = false;
  std::size_t rows_ = 0;
  int line_ = 0;
};

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
    LH_LET(found, rows_of(**matrix, names));
    *rows = std::move(found);
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

std::optional<std::uint32_t> Matrix::find(std::string_view name) const {
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) return std::nullopt;
  return std::uint32_t(found - names.begin());
}

Result<Matrix> parse_matrix(std::string_view text, std::string file, const CellKind& kind) {
  MatrixReader reader(std::move(file), kind);
  LH_TRY(each_line(text,
                   [&](std::string_view line, int number) { return reader.take(line, number); }));
  return std::move(reader).finish();
}

Result<Matrix> read_matrix(const std::string& path, const CellKind& kind) {
  LH_LET(text, read_csv(path, "matrix (CSV)"));
  return parse_matrix(text, path, kind);
}

}  // namespace longhaul::run
