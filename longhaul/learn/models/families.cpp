#include "longhaul/learn/models/families.h"

#include "longhaul/base/check.h"

namespace longhaul::learn {

std::int64_t features(const DataShape& data) {
  std::int64_t product = 1;
  for (std::int64_t extent : data.sample) product *= extent;
  return product;
}

std::int64_t outputs(const DataShape& data) { return data.outputs; }

Image image(const DataShape& data) {
  LH_CHECK(data.sample.size() == 3);
  return {data.sample[0], data.sample[1], data.sample[2]};
}

namespace {

Error takes_no_text(const std::string& kind) {
  return invalid("[model] kind = \"" + kind +
                 "\" takes no text: use \"gpt\", or data of another kind");
}

}  // namespace

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

}  // namespace longhaul::learn
