#include <cmath>

#include <fmt/format.h>

#include "longhaul/learn/models/families.h"

namespace longhaul::learn {
namespace {

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
  // What a block adds is scaled so that the sum over all blocks starts with the same variance.
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

}  // namespace

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
  b.table("embed", outputs(data), shape.width, 0.02);
  b.table("position", context, shape.width, 0.01);
  b.line("x = torch.embedding(self.embed.weight, x) + self.position.weight[:t]");
  for (std::int64_t i = 1; i <= shape.layers; ++i) gpt_block(b, fmt::format("block{}", i), shape);
  b.layer_norm("norm", shape.width, "x");
  b.line("x = torch.matmul(x, self.embed.weight.t())");
  ModelSpec spec = std::move(b).finish();
  spec.is_chain = false;  // residual connections pass by each linear layer
  return spec;
}

}  // namespace longhaul::learn
