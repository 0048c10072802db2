#include "longhaul/run/inputs.h"

#include <fmt/format.h>
#include <xxhash.h>

#include "longhaul/core/kept_values.h"
#include "longhaul/learn/data/digest.h"

namespace longhaul::run {
namespace {

net::SharedInput input(std::string part, std::string text, std::uint64_t digest) {
  return {std::move(part), fmt::format("{}, digest {:016x}", text, digest), digest};
}

net::SharedInput of_set(std::string part, const std::string& path, const learn::DataSet& data) {
  return input(std::move(part), fmt::format("{}, {} samples", path, data.size()),
               learn::digest_of(data));
}

}  // namespace

std::vector<net::SharedInput> shared_inputs(const Workload& workload, Learner* learner) {
  std::vector<net::SharedInput> inputs;
  const std::string path = workload.model_path();
  // Those of a model of ours follow from the job and the columns, which sites with files of their
  // own compare by name when they have met.
  if (learner && !(path.empty() && workload.meets())) {
    const std::vector<float> start = whole_model(learner, learner->params());
    inputs.push_back(input(
        path.empty() ? "start values of the model" : "[model] path",
        fmt::format("{}{} numbers", path.empty() ? "" : path + ", ", start.size()),
        XXH3_64bits_withSeed(start.data(), start.size() * sizeof(float), workload.code_digest())));
  }
  const auto [train, test] = workload.shared_sets();
  if (train) inputs.push_back(of_set("[data] path", workload.data_paths().first, *train));
  if (test) inputs.push_back(of_set("[data] test_path", workload.data_paths().second, *test));
  return inputs;
}

}  // namespace longhaul::run
