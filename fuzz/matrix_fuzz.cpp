// Any text is a square matrix of positive numbers or one Error.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "longhaul/base/check.h"
#include "longhaul/run/job/matrix_wan.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace longhaul::run;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  auto matrix = parse_matrix(text, "mbps.csv", kRateCells);
  if (!matrix) {
    LH_CHECK(!matrix.error().what.empty());
    return 0;
  }
  const std::size_t n = matrix->names.size();
  LH_CHECK(matrix->cells.size() == n * n);
  for (std::size_t from = 0; from < n; ++from)
    for (std::size_t to = 0; to < n; ++to) LH_CHECK((matrix->at(from, to) > 0) == (from != to));
  LH_CHECK(wan_of_matrices(*matrix, *matrix, {}));
  return 0;
}
