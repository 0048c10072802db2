#include "longhaul/learn/model_file.h"

#include "longhaul/learn/net.h"

namespace longhaul::learn {

Result<std::string> model_file(const ModelConfig& config, const DataShape& shape,
                               std::span<const float> model) {
  auto net = Net::make(config, shape);
  if (!net) return net.error();
  net->assign(model);
  return net->file();
}

Result<std::vector<float>> load_model(const std::string& path, const Layout& layout) {
  auto net = Net::from_file(path);
  if (!net) return net.error();
  const Layout& found = *net->layout();
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
  net->copy_to(values);
  return values;
}

}  // namespace longhaul::learn
