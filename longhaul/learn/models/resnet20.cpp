#include "longhaul/learn/models/families.h"

namespace longhaul::learn {
namespace {

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

}  // namespace

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
  b.linear("fc", 64, outputs(data));
  return std::move(b).finish();
}

}  // namespace longhaul::learn
