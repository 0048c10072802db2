#pragma once
// A ModelSpec is a model before it has memory: its tensors in layout order, how they start, and the
// TorchScript statements that turn an input into an output. Layouts, dry runs and fuzzers need no
// more; learn/net.h gives it memory and runs it, learn/model_file.h writes it to model.pt. There is
// no second definition of a model that could disagree with this one.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "longhaul/base/check.h"
#include "longhaul/base/rng.h"
#include "longhaul/core/layout.h"
#include "longhaul/learn/data/dataset.h"

namespace longhaul::learn {

struct TensorSpec {
  enum class Init : std::uint8_t { zeros, ones, uniform, normal };
  std::string name;  // "conv1.weight", as in a state_dict
  std::vector<std::int64_t> shape;
  LayerRange::Role role = LayerRange::Role::parameter;
  LayerRange::Linear linear = LayerRange::Linear::none;
  Init init = Init::zeros;
  double scale = 0;  // uniform: in [-scale, scale); normal: the standard deviation

  std::uint64_t size() const {
    std::uint64_t product = 1;
    for (std::int64_t extent : shape) product *= std::uint64_t(extent);
    return product;
  }
};

// A product with a weight matrix: output = input * weight^T + bias.
struct LinearSpec {
  std::string weight;      // the name of the weight tensor, shape {out, in}
  std::uint32_t index;     // statement k leaves its input in `in_k` and its output in `out_k`
  std::size_t begins = 0;  // where in ModelSpec::body its statements begin
};

// The model reads only those rows of a table that this number of each sample names.
struct LookupSpec {
  std::string table;  // the name of its tensor, shape {rows, width}
  std::size_t column = 0;
};

struct ModelSpec {
  std::string kind;                 // "lenet"
  std::vector<TensorSpec> tensors;  // parameters first, then buffers: the order of the layout
  std::string body;                 // statements over `x`, two spaces in front, no return
  std::vector<LinearSpec> linears;
  // True if earlier values reach the output through the input of each linear layer only: a backward
  // pass can stop at the layer and continue later.
  bool is_chain = true;
  std::vector<LookupSpec> lookups = {};  // empty: a step reads every parameter
};

inline std::shared_ptr<const Layout> layout_of(const ModelSpec& spec) {
  std::vector<LayerRange> layers;
  std::uint64_t offset = 0;
  for (const TensorSpec& tensor : spec.tensors) {
    layers.push_back(
        {tensor.name, {offset, tensor.size()}, tensor.shape, tensor.role, tensor.linear});
    offset += tensor.size();
  }
  return std::make_shared<const Layout>(std::move(layers));
}

// The parameters that a step on these samples reads, ascending and apart: rows of the tables that
// are looked up, all of the others. Empty: the model looks up none, and reads every parameter.
inline std::vector<Range> reads_of(const ModelSpec& spec, const DataSet& data,
                                   std::span<const std::uint32_t> samples) {
  if (spec.lookups.empty()) return {};
  std::set<Range> ranges;
  std::uint64_t offset = 0;
  std::vector<float> sample(data.shape.width());
  for (const TensorSpec& tensor : spec.tensors) {
    std::vector<std::size_t> columns;
    for (const LookupSpec& lookup : spec.lookups)
      if (lookup.table == tensor.name) columns.push_back(lookup.column);
    const auto width = std::uint64_t(tensor.shape.back());
    for (const std::uint32_t row : columns.empty() ? std::span<const std::uint32_t>{} : samples) {
      data.copy_row(row, sample);
      for (const std::size_t column : columns)
        ranges.insert({offset + std::uint64_t(sample.at(column)) * width, width});
    }
    if (columns.empty()) ranges.insert({offset, tensor.size()});
    offset += tensor.size();
  }
  std::vector<Range> joined;
  for (const Range& range : ranges) {
    if (!joined.empty() && joined.back().end() == range.offset)
      joined.back().length += range.length;
    else
      joined.push_back(range);
  }
  return joined;
}

// The initial parameters: the same for all nodes of a job, drawn per tensor from
// (seed, Purpose::init, its index), so that they depend on neither host nor thread.
// `flat` has layout_of(spec)->size() elements.
inline void initialise(const ModelSpec& spec, std::uint64_t seed, std::span<float> flat) {
  std::size_t offset = 0;
  std::uint32_t index = 0;
  for (const TensorSpec& tensor : spec.tensors) {
    const std::span<float> values = flat.subspan(offset, tensor.size());
    Random random(seed, {.purpose = Purpose::init, .range = index++});
    using enum TensorSpec::Init;
    for (float& value : values)
      value = tensor.init == uniform  ? float(tensor.scale * (2 * random.uniform() - 1))
              : tensor.init == normal ? float(tensor.scale * random.normal())
              : tensor.init == ones   ? 1.f
                                      : 0.f;
    offset += values.size();
  }
  LH_CHECK(offset == flat.size());
}

}  // namespace longhaul::learn
