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
  std::vector<std::string_view> keys;  // keys of [model], besides kind and device
  // Returns an Error if the data do not fit the model. nullptr: the model comes from a file.
  Result<ModelSpec> (*spec)(const ModelConfig&, const DataShape&);
  bool phantom = false;  // sizes without numbers: nothing to train or to score
};

std::span<const ModelEntry> model_registry();
// Returns the entry of that name, or an Error with the nearest name.
Result<const ModelEntry*> find_model(const std::string& kind);

// Reads the [model] table. Errors name file, line and key. Errors: an unknown kind, a key that this
// kind does not read, a hidden layer that is not a whole number of units, a script without a path.
Result<ModelConfig> read_model(const Settings&);

// Returns the spec of a registered kind, or an Error if there is none (script) or the data do not
// fit.
Result<ModelSpec> model_spec(const ModelConfig&, const DataShape&);
// Returns the layout of the values that sites exchange: all but the model's constants, and with
// [model] bn = "local" only its parameters.
std::shared_ptr<const Layout> exchanged_layout(const ModelConfig&,
                                               std::shared_ptr<const Layout> whole);

}  // namespace longhaul::learn
