#include "longhaul/learn/models/families.h"

namespace longhaul::learn {

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
  b.linear("fc" + std::to_string(++layer), width, outputs(data), start);
  return std::move(b).finish();
}

}  // namespace longhaul::learn
