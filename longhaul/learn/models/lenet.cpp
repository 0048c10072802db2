#include "longhaul/learn/models/families.h"

namespace longhaul::learn {

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
  b.linear("fc3", 84, outputs(data));
  return std::move(b).finish();
}

}  // namespace longhaul::learn
