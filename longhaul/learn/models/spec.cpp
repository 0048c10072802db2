#include "longhaul/learn/models/spec.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "longhaul/base/check.h"
#include "longhaul/base/rng.h"

namespace longhaul::learn {
namespace {

constexpr std::int64_t kGroups = 8;  // of a GroupNorm, or as many as divide both 8 and the width

std::string pair(std::int64_t value) {
  return "[" + std::to_string(value) + ", " + std::to_string(value) + "]";
}

}  // namespace

std::uint64_t TensorSpec::size() const {
  std::uint64_t product = 1;
  for (std::int64_t extent : shape) product *= std::uint64_t(extent);
  return product;
}

void SpecBuilder::line(const std::string& statement) { spec_.body += "  " + statement + "\n"; }

void SpecBuilder::tensor(const std::string& name, std::vector<std::int64_t> shape,
                         TensorSpec::Init init, double scale, LayerRange::Role role) {
  spec_.tensors.push_back(
      {.name = name, .shape = std::move(shape), .role = role, .init = init, .scale = scale});
}

// torch_default is what torch::nn::Linear and Conv2d do: weight and bias uniform in
// +-1/sqrt(fan_in). he_normal: He et al., "Delving deep into rectifiers" (2015), by fan_out;
// he_inputs: the same by fan_in, biases 0.
void SpecBuilder::weight(const std::string& name, std::vector<std::int64_t> shape, bool bias,
                         Start start) {
  const std::int64_t out = shape.front();
  double area = 1;
  for (std::size_t i = 2; i < shape.size(); ++i) area *= double(shape[i]);
  const double bound = 1 / std::sqrt(double(shape[1]) * area);
  using enum TensorSpec::Init;
  switch (start) {
    case Start::zeros:
      tensor(name + ".weight", std::move(shape), zeros);
      break;
    case Start::torch_default:
      tensor(name + ".weight", std::move(shape), uniform, bound);
      break;
    case Start::he_normal:
      tensor(name + ".weight", std::move(shape), normal, std::sqrt(2 / (double(out) * area)));
      break;
    case Start::he_inputs:
      tensor(name + ".weight", std::move(shape), normal, std::sqrt(2.0) * bound);
      break;
  }
  const bool no_bias = start == Start::zeros || start == Start::he_inputs;
  if (bias) tensor(name + ".bias", {out}, no_bias ? zeros : uniform, bound);
}

void SpecBuilder::linear(const std::string& name, std::int64_t in, std::int64_t out, Start start,
                         bool bias) {
  weight(name, {out, in}, bias, start);
  product(name, "x", bias);
}

void SpecBuilder::linear(const std::string& name, const Linear& l) {
  tensor(name + ".weight", {l.out, l.in}, TensorSpec::Init::normal, l.deviation);
  tensor(name + ".bias", {l.out}, TensorSpec::Init::zeros);
  product(name, l.variable);
}

void SpecBuilder::table(const std::string& name, std::int64_t rows, std::int64_t width,
                        double deviation) {
  tensor(name + ".weight", {rows, width}, TensorSpec::Init::normal, deviation);
}

void SpecBuilder::looks_up(const std::string& name, std::size_t column) {
  spec_.lookups.push_back({name + ".weight", column});
}

void SpecBuilder::layer_norm(const std::string& name, std::int64_t width,
                             const std::string& variable) {
  tensor(name + ".weight", {width}, TensorSpec::Init::ones);
  tensor(name + ".bias", {width}, TensorSpec::Init::zeros);
  line(variable + " = torch.layer_norm(" + variable + ", [" + std::to_string(width) + "], self." +
       name + ".weight, self." + name + ".bias, 1e-05)");
}

// The statements of a linear layer, whose input and output keep names of their own.
void SpecBuilder::product(const std::string& name, const std::string& variable, bool bias) {
  const auto index = std::uint32_t(spec_.linears.size());
  const std::string k = std::to_string(index);
  spec_.linears.push_back({name + ".weight", index, spec_.body.size()});
  using Linear = LayerRange::Linear;
  spec_.tensors[spec_.tensors.size() - (bias ? 2 : 1)].linear = Linear::weight;
  if (bias) spec_.tensors.back().linear = Linear::bias;
  line("in_" + k + " = " + variable);
  line("out_" + k + " = torch.linear(in_" + k + ", self." + name + ".weight, " +
       (bias ? "self." + name + ".bias" : "None") + ")");
  line(variable + " = out_" + k);
}

void SpecBuilder::conv(const std::string& name, const Conv& c, const std::string& variable) {
  weight(name, {c.out, c.in, c.kernel, c.kernel}, c.bias, c.start);
  line(variable + " = torch.conv2d(" + variable + ", self." + name + ".weight, " +
       (c.bias ? "self." + name + ".bias" : "None") + ", " + pair(c.stride) + ", " +
       pair(c.padding) + ")");
}

void SpecBuilder::norm(const std::string& name, std::int64_t channels, Norm kind,
                       const std::string& variable) {
  const std::string self = "self." + name;
  tensor(name + ".weight", {channels}, TensorSpec::Init::ones);
  tensor(name + ".bias", {channels}, TensorSpec::Init::zeros);
  const std::string head = variable + " = torch.";
  if (kind == Norm::group) {
    const std::string groups = std::to_string(std::gcd(channels, kGroups));
    return line(head + "group_norm(" + variable + ", " + groups + ", " + self + ".weight, " + self +
                ".bias, 1e-05)");
  }
  const auto buffer = LayerRange::Role::buffer;
  tensor(name + ".running_mean", {channels}, TensorSpec::Init::zeros, 0, buffer);
  tensor(name + ".running_var", {channels}, TensorSpec::Init::ones, 0, buffer);
  line(head + "batch_norm(" + variable + ", " + self + ".weight, " + self + ".bias, " + self +
       ".running_mean, " + self + ".running_var, self.training, 0.1, 1e-05, True)");
}

ModelSpec SpecBuilder::finish() && {
  std::stable_partition(spec_.tensors.begin(), spec_.tensors.end(),
                        [](const TensorSpec& t) { return t.role == LayerRange::Role::parameter; });
  return std::move(spec_);
}

std::shared_ptr<const Layout> layout_of(const ModelSpec& spec) {
  std::vector<LayerRange> layers;
  std::uint64_t offset = 0;
  for (const TensorSpec& tensor : spec.tensors) {
    layers.push_back(
        {tensor.name, {offset, tensor.size()}, tensor.shape, tensor.role, tensor.linear});
    offset += tensor.size();
  }
  return std::make_shared<const Layout>(std::move(layers));
}

std::vector<Range> reads_of(const ModelSpec& spec, const DataSet& data,
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

void initialise(const ModelSpec& spec, std::uint64_t seed, std::span<float> flat) {
  std::size_t offset = 0;
  std::uint32_t index = 0;
  for (const TensorSpec& tensor : spec.tensors) {
    const std::span<float> values = flat.subspan(offset, tensor.size());
    Random random(seed, {.purpose = Purpose::init, .range = index++});
    switch (tensor.init) {
      case TensorSpec::Init::zeros:
        std::fill(values.begin(), values.end(), 0.f);
        break;
      case TensorSpec::Init::ones:
        std::fill(values.begin(), values.end(), 1.f);
        break;
      case TensorSpec::Init::uniform:
        for (float& value : values) value = float(tensor.scale * (2 * random.uniform() - 1));
        break;
      case TensorSpec::Init::normal:
        for (float& value : values) value = float(tensor.scale * random.normal());
        break;
    }
    offset += values.size();
  }
  LH_CHECK(offset == flat.size());
}

}  // namespace longhaul::learn
