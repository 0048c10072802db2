#include "longhaul/learn/outputs.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <numeric>

#include "longhaul/learn/batch_loader.h"
#include "longhaul/learn/net.h"
#include "longhaul/learn/threads.h"
#include "longhaul/learn/torch_error.h"

namespace longhaul::learn {

Result<std::vector<float>> outputs_of(const ModelConfig& config, const DataSet& data) {
  constexpr std::size_t kBatch = 500;
  use_one_thread_per_learner();
  LH_LET(net, Net::make(config, data.shape));
  const auto width = data.shape.outputs;
  std::vector<float> all;
  for (std::size_t first = 0; first < data.size(); first += kBatch) {
    std::vector<std::uint32_t> rows(std::min(kBatch, data.size() - first));
    std::iota(rows.begin(), rows.end(), std::uint32_t(first));
    auto part = guarded<at::Tensor>(
        "'" + config.path + "' cannot compute these samples", [&]() -> Result<at::Tensor> {
          at::NoGradGuard no_grad;
          const Batch batch = gather(data, rows);
          LH_LET(answer, net.answer(batch.input, batch.target, /*train=*/false));
          if (!answer.output.defined())
            return invalid("'" + config.path + "' answers its loss alone: nothing to predict with");
          at::Tensor output = answer.output;
          if (output.dim() == 2 && output.size(1) == 1 && width == 2)
            output = at::cat({at::zeros_like(output), output}, 1);
          return output.to(at::kFloat).contiguous();
        });
    if (!part) return part.error();
    if (part->numel() != std::int64_t(rows.size()) * width)
      return invalid("'" + config.path + "' answers in another shape than in training");
    const float* values = part->data_ptr<float>();
    all.insert(all.end(), values, values + part->numel());
  }
  return all;
}

}  // namespace longhaul::learn
