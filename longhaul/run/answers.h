#pragma once
// What a run's model says of samples that it has not seen: `longhaul predict`.
#include <string>
#include <vector>

#include "longhaul/base/result.h"

namespace longhaul::run {

struct Answers {
  std::vector<std::string> targets;  // what is predicted; one, or several numbers or labels
  std::vector<std::string> classes;  // of a classification; else empty
  std::vector<std::vector<std::string>> predicted;  // by sample: a class, or a text for each target
  // By sample: of each class, or of each label that it holds; of numbers empty.
  std::vector<std::vector<double>> probabilities;
};
// `run`: a run's folder with model.pt and data.json. Errors name the file, line and column.
Result<Answers> answers(const std::string& run, const std::string& csv);

}  // namespace longhaul::run
