#pragma once
// A square matrix of rates or round trips between sites, from CSV text:
//   # comment
//   src,tokyo,lima
//   tokyo,,80
//   lima,75.5,
// One row a source, in the order of the head; the cell is from the row to the column; the diagonal
// is empty and nothing else is. Every other text is an Error that names file, line, column and
// what was expected; nothing is filled in.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "longhaul/base/result.h"
#include "longhaul/run/job/csv.h"

namespace longhaul::run {

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

}  // namespace longhaul::run
