// The models that are made of layers, one function each, and the table of them.
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "longhaul/base/check.h"
#include "longhaul/base/decimal.h"
#include "longhaul/learn/models/registry.h"

namespace longhaul::learn {
namespace {

// Writes a ModelSpec layer by layer. Every method appends one statement that replaces `x` (or the
// variable named) and declares the tensors that it reads.
class SpecBuilder {
  static constexpr std::int64_t kGroups = 8;  // groups of a GroupNorm, or gcd(8, width)

  static std::string pair(std::int64_t value) {
    return "[" + std::to_string(value) + ", " + std::to_string(value) + "]";
  }

 public:
  explicit SpecBuilder(std::string kind) { spec_.kind = std::move(kind); }

  enum class Start : std::uint8_t { zeros, torch_default, he_normal, he_inputs };
  // weight {out, in}, bias {out}
  void linear(const std::string& name, std::int64_t in, std::int64_t out,
              Start start = Start::torch_default, bool bias = true) {
    weight(name, {out, in}, bias, start);
    product(name, "x", bias);
  }

  // weight {out, in} normal, bias {out} zero, applied to `variable`
  struct Linear {
    std::int64_t in, out;
    double deviation;
    std::string variable;
  };
  void linear(const std::string& name, const Linear& l) {
    tensor(name + ".weight", {l.out, l.in}, TensorSpec::Init::normal, l.deviation);
    tensor(name + ".bias", {l.out}, TensorSpec::Init::zeros);
    product(name, l.variable);
  }

  // weight {rows, width} normal: no statement
  void table(const std::string& name, std::int64_t rows, std::int64_t width, double deviation) {
    tensor(name + ".weight", {rows, width}, TensorSpec::Init::normal, deviation);
  }

  // Declares that a batch reads the rows of the table named by number `column` of its samples.
  void looks_up(const std::string& name, std::size_t column) {
    spec_.lookups.push_back({name + ".weight", column});
  }

  // LayerNorm over the last dimension
  void layer_norm(const std::string& name, std::int64_t width, const std::string& variable) {
    tensor(name + ".weight", {width}, TensorSpec::Init::ones);
    tensor(name + ".bias", {width}, TensorSpec::Init::zeros);
    line(variable + " = torch.layer_norm(" + variable + ", [" + std::to_string(width) + "], self." +
         name + ".weight, self." + name + ".bias, 1e-05)");
  }

  struct Conv {
    std::int64_t in, out, kernel;
    std::int64_t stride = 1, padding = 0;
    bool bias = true;
    Start start = Start::torch_default;
  };
  // weight {out, in, kernel, kernel}, bias {out}
  void conv(const std::string& name, const Conv& c, const std::string& variable = "x") {
    weight(name, {c.out, c.in, c.kernel, c.kernel}, c.bias, c.start);
    line(variable + " = torch.conv2d(" + variable + ", self." + name + ".weight, " +
         (c.bias ? "self." + name + ".bias" : "None") + ", " + pair(c.stride) + ", " +
         pair(c.padding) + ")");
  }

  // GroupNorm: no state. BatchNorm: running_mean and running_var are buffers, because a model
  // averaged without them is another model. num_batches_tracked is no buffer: with momentum 0.1
  // nothing reads it, and an integer has no mean.
  enum class Norm : std::uint8_t { group, batch };
  void norm(const std::string& name, std::int64_t channels, Norm kind,
            const std::string& variable = "x") {
    const std::string self = "self." + name;
    tensor(name + ".weight", {channels}, TensorSpec::Init::ones);
    tensor(name + ".bias", {channels}, TensorSpec::Init::zeros);
    const std::string head = variable + " = torch.";
    if (kind == Norm::group) {
      const std::string groups = std::to_string(std::gcd(channels, kGroups));
      return line(head + "group_norm(" + variable + ", " + groups + ", " + self + ".weight, " +
                  self + ".bias, 1e-05)");
    }
    const auto buffer = LayerRange::Role::buffer;
    tensor(name + ".running_mean", {channels}, TensorSpec::Init::zeros, 0, buffer);
    tensor(name + ".running_var", {channels}, TensorSpec::Init::ones, 0, buffer);
    line(head + "batch_norm(" + variable + ", " + self + ".weight, " + self + ".bias, " + self +
         ".running_mean, " + self + ".running_var, self.training, 0.1, 1e-05, True)");
  }

  void line(const std::string& statement) { spec_.body += "  " + statement + "\n"; }

  ModelSpec finish() && {
    std::stable_partition(spec_.tensors.begin(), spec_.tensors.end(), [](const TensorSpec& t) {
      return t.role == LayerRange::Role::parameter;
    });
    return std::move(spec_);
  }

 private:
  void tensor(const std::string& name, std::vector<std::int64_t> shape, TensorSpec::Init init,
              double scale = 0, LayerRange::Role role = LayerRange::Role::parameter) {
    spec_.tensors.push_back(
        {.name = name, .shape = std::move(shape), .role = role, .init = init, .scale = scale});
  }

  // Appends the statements of a linear layer, whose input and output keep names of their own.
  void product(const std::string& name, const std::string& variable, bool bias = true) {
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

  // torch_default is the default of torch::nn::Linear and Conv2d: weight and bias uniform in
  // +-1/sqrt(fan_in). he_normal: He et al., "Delving deep into rectifiers" (2015), by fan_out;
  // he_inputs: the same by fan_in, biases 0.
  void weight(const std::string& name, std::vector<std::int64_t> shape, bool bias, Start start) {
    const std::int64_t out = shape.front();
    double area = 1;
    for (std::size_t i = 2; i < shape.size(); ++i) area *= double(shape[i]);
    const double bound = 1 / std::sqrt(double(shape[1]) * area);
    using enum TensorSpec::Init;
    const double deviation =
        start == Start::he_normal ? std::sqrt(2 / (double(out) * area)) : std::sqrt(2.0) * bound;
    if (start == Start::zeros)
      tensor(name + ".weight", std::move(shape), zeros);
    else if (start == Start::torch_default)
      tensor(name + ".weight", std::move(shape), uniform, bound);
    else
      tensor(name + ".weight", std::move(shape), normal, deviation);
    const bool no_bias = start == Start::zeros || start == Start::he_inputs;
    if (bias) tensor(name + ".bias", {out}, no_bias ? zeros : uniform, bound);
  }

  ModelSpec spec_;
};

std::int64_t features(const DataShape& data) {
  std::int64_t product = 1;
  for (std::int64_t extent : data.sample) product *= extent;
  return product;
}

struct Image {
  std::int64_t channels, height, width;
};

Image image(const DataShape& data) {
  LH_CHECK(data.sample.size() == 3);
  return {data.sample[0], data.sample[1], data.sample[2]};
}

Error takes_no_text(const std::string& kind) {
  return invalid("[model] kind = \"" + kind +
                 "\" takes no text: use \"gpt\", or data of another kind");
}

Status expect_no_text(const std::string& kind, const DataShape& data) {
  return data.task == Task::text ? Status(takes_no_text(kind)) : Ok{};
}

Status expect_classes(const std::string& kind, const DataShape& data) {
  if (data.task == Task::classification || data.task == Task::multilabel) return Ok{};
  if (data.task == Task::text) return takes_no_text(kind);
  return invalid("[model] kind = \"" + kind +
                 "\" tells classes apart, and these data have numbers to fit: use \"linear\" or "
                 "\"mlp\"");
}

Status expect_image(const std::string& kind, const DataShape& data) {
  if (data.sample.size() == 3) return Ok{};
  return invalid("[model] kind = \"" + kind + "\" takes images, and these samples are rows of " +
                 std::to_string(features(data)) + " numbers: use \"mlp\" or \"logistic\"");
}

// Least squares: one output a target, on the flattened sample.
Result<ModelSpec> linear_spec(const ModelConfig& config, const DataShape& data) {
  LH_TRY(expect_no_text("linear", data));
  if (data.task != Task::regression)
    return invalid(
        "[model] kind = \"linear\" fits numbers, and these data have classes: use \"logistic\"");
  SpecBuilder b("linear");
  b.line("x = torch.flatten(x, 1)");
  b.linear("linear", features(data), data.outputs, SpecBuilder::Start::zeros, config.bias);
  return std::move(b).finish();
}

// Multinomial logistic regression: one logit a class; with two classes a single logit, that of
// class 1; one for each of several labels. Starts at zero, where the loss is ln(classes) or ln 2.
Result<ModelSpec> logistic_spec(const ModelConfig& config, const DataShape& data) {
  LH_TRY(expect_classes("logistic", data));
  const bool binary = data.task == Task::classification && data.outputs == 2;
  const std::int64_t logits = binary ? 1 : data.outputs;
  SpecBuilder b("logistic");
  b.line("x = torch.flatten(x, 1)");
  b.linear("linear", features(data), logits, SpecBuilder::Start::zeros, config.bias);
  return std::move(b).finish();
}

// Layers of `hidden` ReLU units on the flattened sample.
Result<ModelSpec> mlp_spec(const ModelConfig& config, const DataShape& data) {
  LH_TRY(expect_no_text("mlp", data));
  SpecBuilder b("mlp");
  b.line("x = torch.flatten(x, 1)");
  std::int64_t width = features(data);
  int layer = 0;
  using Start = SpecBuilder::Start;
  const Start start = config.start == "he" ? Start::he_inputs : Start::torch_default;
  for (double units : config.hidden) {
    b.linear("fc" + std::to_string(++layer), width, std::int64_t(units), start);
    b.line("x = torch.relu(x)");
    width = std::int64_t(units);
  }
  b.linear("fc" + std::to_string(++layer), width, data.outputs, start);
  return std::move(b).finish();
}

// LeNet-5 (LeCun et al., "Gradient-based learning applied to document recognition", 1998) with ReLU
// and max-pooling for its sigmoids and averages: conv 6 and 16 of 5x5, then 120, 84, classes.
// Images of 28x28 (padded by 2) or 32x32, any number of channels; 61,706 parameters on MNIST.
Result<ModelSpec> lenet_spec(const ModelConfig& config, const DataShape& data) {
  LH_TRY(expect_classes("lenet", data));
  LH_TRY(expect_image("lenet", data));
  const auto [channels, height, width] = image(data);
  if (height != width || (height != 28 && height != 32))
    return invalid("[model] kind = \"lenet\" takes images of 28x28 or 32x32, and these have " +
                   std::to_string(height) + "x" + std::to_string(width) +
                   ": use \"mlp\", or \"resnet20\" for other images");
  const std::string pool = "x = torch.max_pool2d(torch.relu(x), [2, 2], [2, 2])";
  SpecBuilder b("lenet");
  const auto norm = [&](const std::string& name, std::int64_t channels) {
    if (config.norm == "group") b.norm(name, channels, SpecBuilder::Norm::group);
    if (config.norm == "batch") b.norm(name, channels, SpecBuilder::Norm::batch);
  };
  b.conv("conv1", {.in = channels, .out = 6, .kernel = 5, .padding = height == 28 ? 2 : 0});
  norm("norm1", 6);
  b.line(pool);
  b.conv("conv2", {.in = 6, .out = 16, .kernel = 5});
  norm("norm2", 16);
  b.line(pool);
  b.line("x = torch.flatten(x, 1)");
  b.linear("fc1", 16 * 5 * 5, 120);
  b.line("x = torch.relu(x)");
  b.linear("fc2", 120, 84);
  b.line("x = torch.relu(x)");
  b.linear("fc3", 84, data.outputs);
  return std::move(b).finish();
}

using Norm = SpecBuilder::Norm;

SpecBuilder::Conv conv3x3(std::int64_t in, std::int64_t out, std::int64_t stride) {
  return {.in = in,
          .out = out,
          .kernel = 3,
          .stride = stride,
          .padding = 1,
          .bias = false,  // the norm behind it has one
          .start = SpecBuilder::Start::he_normal};
}

// relu(norm(conv(relu(norm(conv(x))))) + shortcut(x)). Where the width doubles, the shortcut takes
// every second pixel and fills the new channels with zeros, half before and half behind.
void block(SpecBuilder& b, const std::string& name, std::int64_t in, std::int64_t out, Norm norm) {
  const std::int64_t stride = in == out ? 1 : 2;
  b.line("y = x");
  b.conv(name + "_conv1", conv3x3(in, out, stride), "y");
  b.norm(name + "_norm1", out, norm, "y");
  b.line("y = torch.relu(y)");
  b.conv(name + "_conv2", conv3x3(out, out, 1), "y");
  b.norm(name + "_norm2", out, norm, "y");
  if (in != out) {
    const std::string more = std::to_string((out - in) / 2);
    b.line("x = torch.constant_pad_nd(x[:, :, ::2, ::2], [0, 0, 0, 0, " + more + ", " + more +
           "], 0.0)");
  }
  b.line("x = torch.relu(x + y)");
}

// ResNet-20 for CIFAR (He et al., "Deep residual learning", 2016, section 4.2): 3 stages of 3
// blocks, 16, 32, 64 channels, shortcuts without parameters (their option A), global mean.
// Images of at least 8x8.
Result<ModelSpec> resnet20_spec(const ModelConfig& config, const DataShape& data) {
  LH_TRY(expect_classes("resnet20", data));
  LH_TRY(expect_image("resnet20", data));
  const auto [channels, height, width] = image(data);
  if (height < 8 || width < 8)
    return invalid("[model] kind = \"resnet20\" takes images of at least 8x8, and these have " +
                   std::to_string(height) + "x" + std::to_string(width) + ": use \"mlp\"");
  if (config.norm == "none")
    return invalid("[model] norm = \"none\": resnet20 has \"group\" or \"batch\"");
  const Norm norm = config.norm == "batch" ? Norm::batch : Norm::group;
  SpecBuilder b("resnet20");
  b.conv("conv1", conv3x3(channels, 16, 1));
  b.norm("norm1", 16, norm);
  b.line("x = torch.relu(x)");
  std::int64_t in = 16;
  for (int stage = 1; stage <= 3; ++stage) {
    const std::int64_t out = std::int64_t{8} << stage;
    for (int i = 1; i <= 3; ++i) {
      block(b, "block" + std::to_string(stage) + std::to_string(i), in, out, norm);
      in = out;
    }
  }
  b.line("x = torch.mean(x, [2, 3])");
  b.linear("fc", 64, data.outputs);
  return std::move(b).finish();
}

// Ratings of items by users: mean + bias of the user + bias of the item + p . q, p and q being rows
// of two tables of `factors` numbers (Koren, Bell, Volinsky, "Matrix factorization techniques for
// recommender systems", 2009). A batch reads the rows of its users and items alone.
Result<ModelSpec> factorisation_spec(const ModelConfig& config, const DataShape& data) {
  if (data.tables.size() != 2 || data.task != Task::regression)
    return invalid(
        "[model] kind = \"matrix_factorisation\" fits ratings of items by users, and these data "
        "are none: set [data] kind = \"ratings\"");
  const std::int64_t users = data.tables[0], items = data.tables[1];
  constexpr double kDeviation = 0.1;
  SpecBuilder b("matrix_factorisation");
  b.line("user = x[:, 0].long()");
  b.line("item = x[:, 1].long()");
  b.table("users", users, config.factors, kDeviation);
  b.table("items", items, config.factors, kDeviation);
  b.table("user_bias", users, 1, 0);
  b.table("item_bias", items, 1, 0);
  b.table("mean", 1, 1, 0);
  b.looks_up("users", 0);
  b.looks_up("items", 1);
  b.looks_up("user_bias", 0);
  b.looks_up("item_bias", 1);
  b.line("p = torch.embedding(self.users.weight, user)");
  b.line("q = torch.embedding(self.items.weight, item)");
  b.line("x = torch.sum(p * q, [1], True) + torch.embedding(self.user_bias.weight, user)");
  b.line("x = x + torch.embedding(self.item_bias.weight, item) + self.mean.weight");
  return std::move(b).finish();
}

// Clicks: a row of `factors` numbers for each value of each field, and layers of `hidden` ReLU
// units on the rows of a sample side by side (as the deep part of Cheng et al., "Wide & deep
// learning for recommender systems", 2016). A batch reads the rows of its samples and the layers.
Result<ModelSpec> clicks_spec(const ModelConfig& config, const DataShape& data) {
  if (data.tables.empty() || data.task != Task::classification)
    return invalid(
        "[model] kind = \"clicks\" tells clicks apart by the rows of a table that a sample names, "
        "and these data name none: set [data] kind = \"clicks\"");
  constexpr double kDeviation = 0.01;
  const auto fields = std::int64_t(data.tables.size());
  SpecBuilder b("clicks");
  b.table("embed", data.tables[0], config.factors, kDeviation);
  for (std::size_t field = 0; field < data.tables.size(); ++field) b.looks_up("embed", field);
  b.line("x = torch.flatten(torch.embedding(self.embed.weight, x.long()), 1)");
  std::int64_t width = fields * config.factors;
  int layer = 0;
  for (double units : config.hidden) {
    b.linear("fc" + std::to_string(++layer), width, std::int64_t(units));
    b.line("x = torch.relu(x)");
    width = std::int64_t(units);
  }
  b.linear("fc" + std::to_string(++layer), width, data.outputs == 2 ? 1 : data.outputs);
  return std::move(b).finish();
}

struct GptShape {
  std::int64_t width, heads, layers;
};

// y <- causal self-attention of y: softmax(q k^T / sqrt(width of a head)) v, head by head.
void attention(SpecBuilder& b, const std::string& name, const GptShape& shape) {
  const std::int64_t d = shape.width, each = d / shape.heads;
  b.linear(name + "_qkv", {.in = d, .out = 3 * d, .deviation = 0.02, .variable = "y"});
  b.line(
      fmt::format("qkv = y.view([n, t, 3, {}, {}]).permute([2, 0, 3, 1, 4])", shape.heads, each));
  b.line(fmt::format("y = torch.matmul(qkv[0], qkv[1].transpose(2, 3)) * {:.9g}",
                     1 / std::sqrt(double(each))));
  b.line("y = torch.softmax(torch.masked_fill(y, future, float(\"-inf\")), 3)");
  b.line(fmt::format("y = torch.matmul(y, qkv[2]).transpose(1, 2).reshape([n, t, {}])", d));
}

void gpt_block(SpecBuilder& b, const std::string& name, const GptShape& shape) {
  const std::int64_t d = shape.width;
  // The output of a block is scaled so that the sum over all blocks starts with the same variance.
  const double added = 0.02 / std::sqrt(2.0 * double(shape.layers));
  b.line("y = x");
  b.layer_norm(name + "_norm1", d, "y");
  attention(b, name, shape);
  b.linear(name + "_out", {.in = d, .out = d, .deviation = added, .variable = "y"});
  b.line("x = x + y");
  b.line("y = x");
  b.layer_norm(name + "_norm2", d, "y");
  b.linear(name + "_fc1", {.in = d, .out = 4 * d, .deviation = 0.02, .variable = "y"});
  b.line("y = torch.gelu(y)");
  b.linear(name + "_fc2", {.in = 4 * d, .out = d, .deviation = added, .variable = "y"});
  b.line("x = x + y");
}

// A decoder of bytes or tokens: pre-norm blocks of causal self-attention and a GELU layer of four
// times the width, learned positions, the output tied to the embedding (Radford et al., "Language
// models are unsupervised multitask learners", 2019). Text only.
Result<ModelSpec> gpt_spec(const ModelConfig& config, const DataShape& data) {
  if (data.task != Task::text)
    return invalid(
        "[model] kind = \"gpt\" predicts bytes of text or tokens, and these data are none: set "
        "[data] kind = \"text\" or \"tokens\"");
  const std::int64_t context = config.context ? std::int64_t{config.context} : features(data);
  if (context < features(data))
    return invalid(
        fmt::format("[model] context = {}: samples hold {} bytes or tokens ([data] context)",
                    context, features(data)));
  const GptShape shape = {config.width, config.heads, config.layers};
  if (shape.width % shape.heads != 0)
    return invalid(fmt::format("[model] width = {}: expected a multiple of heads = {}", shape.width,
                               shape.heads));
  SpecBuilder b("gpt");
  b.line("n = x.size(0)");
  b.line("t = x.size(1)");
  b.line("place = torch.arange(t, device=x.device)");
  b.line("future = place.unsqueeze(0) > place.unsqueeze(1)");
  b.table("embed", data.outputs, shape.width, 0.02);
  b.table("position", context, shape.width, 0.01);
  b.line("x = torch.embedding(self.embed.weight, x) + self.position.weight[:t]");
  for (std::int64_t i = 1; i <= shape.layers; ++i) gpt_block(b, fmt::format("block{}", i), shape);
  b.layer_norm("norm", shape.width, "x");
  b.line("x = torch.matmul(x, self.embed.weight.t())");
  ModelSpec spec = std::move(b).finish();
  spec.is_chain = false;  // residual connections pass by each linear layer
  return spec;
}

constexpr std::int64_t kMostUnits = std::int64_t(1) << 31, kMostValues = std::int64_t(1) << 38;

// Returns whole numbers from 1 on, separated by 'x'; empty if the text is no such list.
std::vector<std::int64_t> shape_of(std::string_view text) {
  std::vector<std::int64_t> shape;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (true) {
    std::int64_t extent = 0;
    const auto [next, error] = std::from_chars(at, end, extent);
    if (error != std::errc() || extent < 1 || extent > kMostValues) return {};
    shape.push_back(extent);
    if (next == end) return shape;
    if (*next != 'x') return {};
    at = next + 1;
  }
}

// One flat parameter of `mbytes`, or `shapes`, without numbers: timing studies.
Result<ModelSpec> phantom_spec(const ModelConfig& config, const DataShape&) {
  ModelSpec spec;
  spec.kind = "phantom";
  if (config.shapes.empty()) {
    const auto size = std::int64_t(whole_up(config.mbytes * 1e6 / 4));
    spec.tensors.push_back({.name = "flat", .shape = {size}});
    return spec;
  }
  for (const std::string& layer : config.shapes) {
    const auto shape = shape_of(layer);
    const bool is_linear = shape.size() == 2;
    if (shape.empty() || shape.size() > 2 ||
        (is_linear &&
         (shape[0] > kMostUnits || shape[1] > kMostUnits || shape[0] * shape[1] > kMostValues)))
      return invalid(
          "[model] shapes: expected \"OUTPUTSxINPUTS\" or a number of parameters, found \"" +
          layer + "\"");
    spec.tensors.push_back(
        {.name = "layer" + std::to_string(spec.tensors.size() + 1),
         .shape = shape,
         .linear = is_linear ? LayerRange::Linear::weight : LayerRange::Linear::none});
  }
  return spec;
}

const std::array kModels = {
    ModelEntry{"linear", "least squares", {"bias"}, linear_spec},
    ModelEntry{"logistic", "multinomial or binary logistic regression", {"bias"}, logistic_spec},
    ModelEntry{"mlp", "fully connected layers with ReLU", {"hidden", "start"}, mlp_spec},
    ModelEntry{"lenet", "LeNet-5 for images of 28x28 or 32x32", {"norm", "bn"}, lenet_spec},
    ModelEntry{"resnet20", "ResNet-20 for CIFAR", {"norm", "bn"}, resnet20_spec},
    ModelEntry{"gpt",
               "a transformer that predicts bytes or tokens",
               {"layers", "width", "heads", "context"},
               gpt_spec},
    ModelEntry{
        "matrix_factorisation", "ratings of items by users", {"factors"}, factorisation_spec},
    ModelEntry{"clicks",
               "a table of embeddings and fully connected layers",
               {"factors", "hidden"},
               clicks_spec},
    ModelEntry{"script",
               "your own: a TorchScript file",
               {"path", "output", "trial_s", "trial_mb"},
               nullptr},
    ModelEntry{"phantom",
               "sizes without numbers: timing studies",
               {"mbytes", "shapes"},
               phantom_spec,
               true},
};

}  // namespace

std::span<const ModelEntry> model_registry() { return kModels; }

}  // namespace longhaul::learn
