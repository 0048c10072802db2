#pragma once
// Resampler notices that the classes of a site's objects drift, and then chooses cheap model, K and
// T again: it keeps the next objects as a sample, has the accurate model and all cheap models look
// at them, between the site's other work, and chooses as at the start (parameters.h).
#include "longhaul/core/item.h"
#include "longhaul/core/work.h"
#include "longhaul/focus/parameters.h"

namespace longhaul::focus {

struct ResampleConfig {
  double drift = 0.2;  // total variation of the cheap model's best classes; beyond it a new sample
  std::uint32_t sample = 2000;
  struct Model {
    double seconds = 0;  // for an object
    std::uint32_t specialised = 0;
    // Of one that was given while the site runs: under which the learner has it, and what it is.
    std::optional<std::uint32_t> number = {};
    ModelVersion version = {};
    std::vector<std::uint32_t> list = {};
    void state(auto& ar) { ar(seconds, specialised, number, version, list); }
  };
  std::vector<Model> models;  // by number
  Grid grid;
  Targets targets;
  std::string policy = "balance";
  // On which track an object is; objects of one track err alike. nullptr: each is alone.
  std::uint64_t (*track_of)(std::uint64_t seq) = nullptr;
};

// What the cheap model said of object `at` of `items`, whose outputs these are; the feature is
// rounded as the log holds it.
Seen seen_by_cheap(const Item&, std::size_t at, std::size_t items, std::span<const float> outputs,
                   std::uint32_t specialised);

class Resampler {
 public:
  explicit Resampler(const ResampleConfig& config) : config_(config), models_(config.models) {}

  // Takes a given model into the choice, in place of another of its number. `anew`: the next
  // objects are a sample, whatever their classes.
  void add(const ResampleConfig::Model&, bool anew);
  // An object was indexed.
  void indexed(const Item&, const Seen&);
  bool has_work() const { return collected() && !decided_; }
  // The next batch for a model; has_work() must hold. `most`: objects.
  Infer work(std::size_t most) const;
  void done(std::span<const float> outputs, std::size_t items, const IndexConfig& now);
  // Once after a sample: what was chosen. An Error: nothing reaches the targets; things stay.
  std::optional<Result<Chosen>> take();
  std::uint64_t samples() const { return samples_; }
  void state(Archive& ar);

 private:
  std::uint32_t number_of(std::size_t model) const {
    return models_[model].number.value_or(std::uint32_t(model));
  }
  bool collected() const { return collecting_ && items_.size() == config_.sample; }
  void decide(const IndexConfig& now);

  ResampleConfig config_;
  std::vector<ResampleConfig::Model> models_;
  std::vector<double> before_, window_;  // best classes: of the sample, and since
  std::uint64_t in_window_ = 0, samples_ = 0;
  bool collecting_ = false;
  std::optional<Result<Chosen>> decided_;
  std::vector<Item> items_;
  std::vector<std::uint32_t> labels_;
  std::vector<std::vector<Seen>> seen_;  // by model of models_, as far as they have come
};

}  // namespace longhaul::focus
