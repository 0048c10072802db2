#include "longhaul/run/answers.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "longhaul/run/data_file.h"
#include "longhaul/run/run_folder.h"
#include "longhaul/run/torch_library.h"

namespace longhaul::run {
namespace {

std::vector<double> softmax(std::span<const float> logits) {
  const double most = *std::ranges::max_element(logits);
  std::vector<double> shares;
  double sum = 0;
  for (const float logit : logits) sum += shares.emplace_back(std::exp(double(logit) - most));
  for (double& share : shares) share /= sum;
  return shares;
}

void answer_class(std::span<const float> logits, Answers& all) {
  const auto best = std::size_t(std::ranges::max_element(logits) - logits.begin());
  all.predicted.push_back({all.classes.at(best)});
  all.probabilities.push_back(softmax(logits));
}

void answer_labels(std::span<const float> logits, Answers& all) {
  std::vector<std::string>& held = all.predicted.emplace_back();
  std::vector<double>& shares = all.probabilities.emplace_back();
  for (const float logit : logits) {
    held.push_back(logit > 0 ? "1" : "0");
    shares.push_back(1 / (1 + std::exp(-double(logit))));
  }
}

void answer_numbers(std::span<const float> values, Answers& all) {
  std::vector<std::string>& said = all.predicted.emplace_back();
  for (const float value : values) said.push_back(fmt::format("{}", value));
  all.probabilities.emplace_back();
}

}  // namespace

Result<Answers> answers(const std::string& run, const std::string& csv) {
  LH_LET(job, job_of_run(run));
  if (job.kind("data") != "csv")
    return invalid(
        fmt::format("{}: [data] kind = \"{}\": predict reads csv files; model.pt takes other "
                    "data in Python or C++",
                    run, job.kind("data")));
  LH_LET(meaning, read_data_file(run));
  LH_LET(config, learn::read_data(job.data));
  auto model = learn::read_model(job.model);
  if (!model) return model.error();
  LH_LET(data, learn::load_to_predict(config, csv, meaning.like, meaning.scales, meaning.fills));
  LH_LET(torch, torch_library());
  learn::ModelConfig file = *std::move(model);
  file.kind = "script";
  file.path = run + "/model.pt";
  file.device = "cpu";
  LH_LET(outputs, torch->outputs_of(file, data));
  Answers all{
      .targets = meaning.like.target_columns, .classes = {}, .predicted = {}, .probabilities = {}};
  const auto width = std::size_t(data.shape.outputs);
  const bool classifies = data.shape.task == learn::Task::classification;
  if (classifies) all.classes = meaning.like.names;
  for (std::size_t i = all.classes.size(); classifies && i < width; ++i)
    all.classes.push_back(std::to_string(i));
  const std::size_t named = classifies ? 1 : width;
  for (std::size_t i = all.targets.size(); i < named; ++i)
    all.targets.push_back(named == 1 ? "prediction" : fmt::format("prediction {}", i + 1));
  for (std::size_t at = 0; at < outputs.size(); at += width) {
    const std::span<const float> one(outputs.data() + at, width);
    if (classifies)
      answer_class(one, all);
    else if (data.shape.task == learn::Task::multilabel)
      answer_labels(one, all);
    else
      answer_numbers(one, all);
  }
  return all;
}

}  // namespace longhaul::run
