#include "longhaul/learn/models/families.h"

namespace longhaul::learn {

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
  b.linear("fc" + std::to_string(++layer), width, outputs(data) == 2 ? 1 : outputs(data));
  return std::move(b).finish();
}

}  // namespace longhaul::learn
