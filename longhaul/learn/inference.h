#pragma once
// The models of an index of growing data (focus/) from TorchScript files, as what a node computes
// with. Without torch's headers.
#include <memory>
#include <string>
#include <vector>

#include "longhaul/core/learner.h"
#include "longhaul/learn/data/dataset.h"

namespace longhaul::learn {

// A file's forward() takes a batch of items, [items, channels, height, width], and answers a score
// (logit) for each class; a cheap model may answer a pair of that and of features, [items, any].
// Without features the scores are the features.
struct InferenceParts {
  std::string accurate;  // answers a score for each class of the data; "": there is none
  struct Cheap {
    std::string path;
    // Classes told apart, the first ones. The file answers these and OTHER behind them, or all
    // classes of the data, of which the rest become OTHER.
    std::uint32_t specialised = 0;
    std::vector<std::uint32_t> classes = {};  // in place of the first ones
  };
  std::vector<Cheap> cheap;
  DataShape shape;
  std::string device = "auto";  // as [model] device
  std::uint32_t rank = 0;
};

// Infer alone, with the models of focus/models.h; runs all items of an Infer as one batch. Scores
// come out as logarithms of probabilities. No parameters to train. The learner is a CheapModels
// (core/cheap_models.h), too.
// Errors name the file: it is missing, no TorchScript, or answers in the wrong shape.
Result<std::unique_ptr<Learner>> make_inference(const InferenceParts&);

}  // namespace longhaul::learn
