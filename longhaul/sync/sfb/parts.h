#pragma once
// Parts says how a gradient of the layout travels: fully connected layers that go as factors, each
// a part by number, and the rest, which is one dense vector.
#include <optional>
#include <span>
#include <vector>

#include "longhaul/core/layout.h"
#include "longhaul/sync/sfb/rule.h"

namespace longhaul::sync::sfb {

struct FactorLayer {
  std::uint32_t entry = 0;  // of the layout: the weight
  Range weight;
  std::optional<Range> bias;  // its gradient is the sum of the rows of u
  std::uint64_t out = 0, in = 0;
};

class Parts {
 public:
  Parts() = default;
  // `rows`, `parties`: see LayerShape; `bytes` for each number of either kind.
  Parts(const Layout&, std::uint64_t rows, std::uint64_t parties, double factor_bytes,
        double matrix_bytes, const Config&);

  const std::vector<FactorLayer>& layers() const { return layers_; }
  std::vector<std::uint32_t> entries() const;
  // Of the parameters, ascending: what is no layer's.
  const std::vector<Range>& rest() const { return rest_; }
  std::uint64_t rest_length() const { return rest_length_; }

  // The rest of a whole gradient, and back. `whole`: one value a parameter.
  std::vector<float> gather(std::span<const float> whole) const;
  void scatter(std::span<const float> rest, std::span<float> whole) const;

 private:
  std::vector<FactorLayer> layers_;
  std::vector<Range> rest_;
  std::uint64_t rest_length_ = 0;
};

}  // namespace longhaul::sync::sfb
