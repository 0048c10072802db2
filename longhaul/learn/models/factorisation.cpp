#include "longhaul/learn/models/families.h"

namespace longhaul::learn {

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

}  // namespace longhaul::learn
