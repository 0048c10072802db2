#pragma once
// From matrices of rates and round trips to a flow::Wan.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "longhaul/base/result.h"
#include "longhaul/flow/wan.h"
#include "longhaul/run/job/csv.h"
#include "longhaul/run/job/tables.h"

namespace longhaul::run {

// A square matrix of rates or round trips between sites, from CSV text:
//   # comment
//   src,tokyo,lima
//   tokyo,,80
//   lima,75.5,
// One row a source, in the order of the head; the cell is from the row to the column; the diagonal
// is empty and nothing else is. Every other text is an Error that names file, line, column and
// what was expected; nothing is filled in.
struct Matrix {
  std::string file;                // as it is named in errors
  std::vector<std::string> names;  // of the sites
  std::vector<double> cells;       // by row; 0 on the diagonal

  double at(std::size_t from, std::size_t to) const { return cells[from * names.size() + to]; }
  std::optional<std::uint32_t> find(std::string_view name) const;
};

// Cells are above 0 and at most the kind's maximum.
Result<Matrix> parse_matrix(std::string_view text, std::string file, const CellKind&);
// Reads the file; one that is missing, a folder or too large is an Error.
Result<Matrix> read_matrix(const std::string& path, const CellKind&);

inline constexpr CellKind kRateCells = {"a rate in Mbit/s", kMaxRate};
inline constexpr CellKind kRttCells = {"a round trip in ms", 2 * kMaxDelay};

// The sites named, in that order; none named: all, and then both matrices must have the same ones.
// A matrix that is absent leaves its half open; the delay of a direction is half of its own cell. A
// name that a matrix lacks is an Error.
Result<flow::Wan> wan_of_matrices(const std::optional<Matrix>& mbps,
                                  const std::optional<Matrix>& rtt_ms,
                                  const std::vector<std::string>& sites);

}  // namespace longhaul::run
