#pragma once
// Scores models on the test set. Without torch's headers.
#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "longhaul/core/learner.h"
#include "longhaul/learn/data/dataset.h"
#include "longhaul/learn/models/registry.h"

namespace longhaul::learn {

// Rows of the test set, scored as if there were no others.
struct TestRows {
  std::size_t first = 0, end = std::size_t(-1);
};

// The test set in parts of 500 samples (text: fewer, for logits of some 64 MiB). A thread pool can
// score parts in any order and in parallel. The results are combined in the order of the samples,
// so that they are equal with any number of threads.
class Scorer {
 public:
  static constexpr std::size_t kPart = 500;
  struct Part {
    double loss = 0;  // sum over the predictions: samples, bytes of text, or labels
    std::uint64_t samples = 0;
    std::optional<std::uint64_t> correct = {};  // absent: the model answers with a loss, or numbers
  };

  virtual ~Scorer() = default;
  virtual std::size_t parts(TestRows = {}) const = 0;
  // Part i of a model as a whole, a flat vector. Any thread, concurrently: every call at work
  // has a module of its own, kept for the next. An Error is torch's own.
  virtual Result<Part> part(std::span<const float> model, std::size_t i, TestRows = {}) = 0;
  static Evaluation combine(std::span<const Part> in_order);

  // Scores all parts, on this thread and `threads` - 1 more. The virtual functions are pure because
  // the program is not linked to the library that makes scorers.
  virtual Result<Evaluation> score(std::span<const float> model, unsigned threads = 1,
                                   TestRows = {}) = 0;
};

// An Error if the model does not fit the test set, or is a phantom.
Result<std::unique_ptr<Scorer>> make_scorer(const ModelConfig&,
                                            std::shared_ptr<const DataSet> test);

}  // namespace longhaul::learn
