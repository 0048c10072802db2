#include "longhaul/learn/model_file.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <numeric>

#include "longhaul/learn/batch_loader.h"
#include "longhaul/learn/flat_vectors.h"
#include "longhaul/learn/net.h"
#include "longhaul/learn/threads.h"
#include "longhaul/learn/torch_error.h"

namespace longhaul::learn {

Result<std::string> model_file(const ModelConfig& config, const DataShape& shape,
                               std::span<const float> model) {
  LH_LET(net, Net::make(config, shape));
  net.assign(model);
  return net.file();
}

Result<std::vector<float>> load_model(const std::string& path, const Layout& layout) {
  LH_LET(net, Net::from_file(path));
  const Layout& found = *net.layout();
  bool same = found.layers().size() == layout.layers().size();
  for (std::size_t i = 0; same && i < layout.layers().size(); ++i)
    same = found.layers()[i].name == layout.layers()[i].name &&
           found.layers()[i].shape == layout.layers()[i].shape;
  if (!same)
    return malformed("'" + path + "' holds another model than this job's: expected " +
                     std::to_string(layout.layers().size()) + " tensors, " +
                     std::to_string(layout.size()) + " numbers, found " +
                     std::to_string(found.layers().size()) + " tensors, " +
                     std::to_string(found.size()) + " numbers, or other names");
  std::vector<float> values(layout.size());
  net.copy_to(values);
  return values;
}

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
          return output.to(at::kFloat);
        });
    if (!part) return part.error();
    if (part->numel() != std::int64_t(rows.size()) * width)
      return invalid("'" + config.path + "' answers in another shape than in training");
    append_values(all, *part);
  }
  return all;
}

}  // namespace longhaul::learn
