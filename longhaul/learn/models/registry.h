#pragma once
// The models, one line a kind. A new one is a function that fills a SpecBuilder and a line in the
// table of registry.cpp.
#include <span>
#include <string_view>

#include "longhaul/base/settings.h"
#include "longhaul/learn/data/dataset.h"
#include "longhaul/learn/models/config.h"
#include "longhaul/learn/models/spec.h"

namespace longhaul::learn {

struct ModelEntry {
  std::string_view name, summary;
  std::vector<std::string_view> keys;  // of [model], besides kind and device
  // An Error where the data do not fit the model. nullptr: the model comes from a file.
  Result<ModelSpec> (*spec)(const ModelConfig&, const DataShape&);
  bool phantom = false;  // sizes without numbers: nothing to train or to score
};

std::span<const ModelEntry> model_registry();
// The entry of that name; an Error names the nearest.
Result<const ModelEntry*> find_model(const std::string& kind);

// The [model] table. Errors name file, line and key: unknown kind, a key that this kind does not
// read, a hidden layer that is not a whole number of units, a script without a path.
Result<ModelConfig> read_model(const Settings&);

// The spec of a registered kind; an Error where there is none (script) or the data do not fit.
Result<ModelSpec> model_spec(const ModelConfig&, const DataShape&);
// What of a model sites exchange: all but its constants, and with [model] bn = "local" its
// parameters alone.
std::shared_ptr<const Layout> exchanged_layout(const ModelConfig&,
                                               std::shared_ptr<const Layout> whole);

}  // namespace longhaul::learn
