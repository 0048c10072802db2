#pragma once
// Parts says how a gradient of the layout travels: fully connected layers that go as factors, each
// a part by number, and the rest, which is one dense vector.
#include <optional>
#include <span>
#include <vector>

#include "longhaul/base/result.h"
#include "longhaul/core/layout.h"
#include "longhaul/sync/sfb/rule.h"

namespace longhaul::sync::sfb {

struct FactorLayer {
  std::uint32_t entry = 0;  // of the layout: the weight
  Range weight;
  std::optional<Range> bias;  // its gradient is the sum of the rows of u
  std::uint64_t out = 0, in = 0;
};

// What a backward pass reaches at once (wait_free): the layers whose entries of the layout are from
// `first` to before `end`. From the output to the input.
struct BackwardStage {
  std::uint32_t first = 0, end = 0;
  std::vector<std::uint32_t> layers =
      {};                        // numbers of FactorLayers among them, from the output down
  std::vector<Range> rest = {};  // of the parameters, ascending: what is no layer's
  std::uint64_t rest_length = 0;
  double share = 1;  // of a step's time; the first has the forward pass, too
};

class Parts {
 public:
  Parts() = default;
  // `rows`, `parties`: see LayerShape; `bytes` for each number of either kind.
  Parts(const Layout&, std::uint64_t rows, std::uint64_t parties, double factor_bytes,
        double matrix_bytes, const Config&);

  const std::vector<FactorLayer>& layers() const { return layers_; }
  std::vector<std::uint32_t> entries() const;
  // A stage begins at each fully connected layer; a phantom's at each layer. `shares`: as
  // Config::backward_shares. An Error: not one for each stage, or more than a step together.
  Result<std::vector<BackwardStage>> stages(const Layout&, bool phantom,
                                            const std::vector<double>& shares) const;
  // Of the parameters, ascending: what is no layer's.
  const std::vector<Range>& rest() const { return rest_; }
  std::uint64_t rest_length() const { return rest_length_; }

  // The rest of a whole gradient, and back. `whole`: one value a parameter.
  std::vector<float> gather(std::span<const float> whole) const {
    return gather_ranges(rest_, whole);
  }
  void scatter(std::span<const float> rest, std::span<float> whole) const {
    scatter_ranges(rest_, rest, whole);
  }
  // The same of some ranges.
  static std::vector<float> gather_ranges(const std::vector<Range>&, std::span<const float> whole);
  static void scatter_ranges(const std::vector<Range>&, std::span<const float> rest,
                             std::span<float> whole);

 private:
  std::vector<FactorLayer> layers_;
  std::vector<Range> rest_;
  std::uint64_t rest_length_ = 0;
};

}  // namespace longhaul::sync::sfb
