// A quantised model of GADMM: any bytes move q by finite values or leave it as it was.
#include <cmath>
#include <vector>

#include "longhaul/base/check.h"
#include "longhaul/sync/gadmm/quantiser.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace longhaul;
  if (size < 2) return 0;
  const std::uint32_t bits = 2 + data[0] % (sync::gadmm::kMostBits - 1);
  const std::vector<double> before(data[1], 0.5);
  std::vector<double> q = before;
  const auto bytes = std::as_bytes(std::span(data + 2, size - 2));
  if (!sync::gadmm::dequantise(bytes, q, bits)) LH_CHECK(q == before);
  for (const double value : q) LH_CHECK(std::isfinite(value));
  return 0;
}
