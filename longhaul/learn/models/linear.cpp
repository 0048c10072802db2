#include "longhaul/learn/models/families.h"

namespace longhaul::learn {

Result<ModelSpec> linear_spec(const ModelConfig& config, const DataShape& data) {
  LH_TRY(expect_no_text("linear", data));
  if (data.task != Task::regression)
    return invalid(
        "[model] kind = \"linear\" fits numbers, and these data have classes: use \"logistic\"");
  SpecBuilder b("linear");
  b.line("x = torch.flatten(x, 1)");
  b.linear("linear", features(data), outputs(data), SpecBuilder::Start::zeros, config.bias);
  return std::move(b).finish();
}

Result<ModelSpec> logistic_spec(const ModelConfig& config, const DataShape& data) {
  LH_TRY(expect_classes("logistic", data));
  const bool binary = data.task == Task::classification && outputs(data) == 2;
  const std::int64_t logits = binary ? 1 : outputs(data);
  SpecBuilder b("logistic");
  b.line("x = torch.flatten(x, 1)");
  b.linear("linear", features(data), logits, SpecBuilder::Start::zeros, config.bias);
  return std::move(b).finish();
}

}  // namespace longhaul::learn
