#pragma once
// Resampler detects drift of the classes of a site's objects, and then chooses cheap model, K and T
// again. The next objects become a sample. Between the site's other work, the accurate model and
// all cheap models process it. The choice is made as at the start (parameters.h).
#include <algorithm>

#include "longhaul/core/cheap_models.h"
#include "longhaul/core/item.h"
#include "longhaul/core/work.h"
#include "longhaul/focus/log.h"
#include "longhaul/focus/parameters.h"

namespace longhaul::focus {

struct ResampleConfig {
  double drift = 0.2;  // limit of the total variation of the cheap model's best classes
  std::uint32_t sample = 2000;
  struct Model {
    double seconds = 0;  // per object
    std::uint32_t specialised = 0;
    // For a model given while the site runs: its number at the learner, and its identity.
    std::optional<std::uint32_t> number = {};
    ModelVersion version = {};
    std::vector<std::uint32_t> list = {};
    void state(auto& ar) { ar(seconds, specialised, number, version, list); }
  };
  std::vector<Model> models;  // by number
  Grid grid;
  Targets targets;
  std::string policy = "balance";
  // Returns the track of an object; objects of one track have similar errors. Null: one track each.
  std::uint64_t (*track_of)(std::uint64_t seq) = nullptr;
};

// Returns the cheap model's results for object `at` of `items`, from their outputs. The feature is
// rounded like that in the log.
inline Seen seen_by_cheap(const Item& item, std::size_t at, std::size_t items,
                          std::span<const float> outputs, std::uint32_t specialised) {
  const std::size_t scores = specialised + 1;
  LH_CHECK(items > 0 && outputs.size() % items == 0 && outputs.size() / items >= scores);
  const auto own = outputs.subspan(at * (outputs.size() / items), outputs.size() / items);
  const auto middle = own.end() - std::ptrdiff_t(scores);
  return {item.seq, item.at.count(), rounded({own.begin(), middle}), {middle, own.end()}};
}

class Resampler {
 public:
  explicit Resampler(const ResampleConfig& config) : config_(config), models_(config.models) {}

  // Adds a given model to the choice, instead of another with its number. `anew`: the next objects
  // are a sample, whatever their classes.
  void add(const ResampleConfig::Model& model, bool anew) {
    std::erase_if(models_, [&](const auto& other) { return other.number == model.number; });
    models_.push_back(model);
    if (!anew && !collecting_) return;
    collecting_ = true;  // not all models have seen the earlier objects
    items_.clear();
    labels_.clear();
    seen_.clear();
  }

  // Called when an object has been indexed.
  void indexed(const Item& item, const Seen& seen) {
    if (collecting_) {
      if (items_.size() < config_.sample) items_.push_back(item);
      return;
    }
    const auto best = std::ranges::max_element(seen.scores);
    window_.resize(seen.scores.size());
    ++window_[std::size_t(best - seen.scores.begin())];
    if (++in_window_ < config_.sample) return;
    const bool first = before_.size() != window_.size();
    collecting_ = !first && drift(before_, window_) > config_.drift;
    if (first) before_ = window_;
    window_.clear();
    in_window_ = 0;
  }

  bool has_work() const { return collected() && !decided_; }
  // Returns the next batch for a model; has_work() must hold. `most`: objects.
  Infer work(std::size_t most) const {
    LH_CHECK(has_work());
    Infer infer;
    std::size_t from = labels_.size();
    infer.model = Infer::Model::accurate;
    if (from == items_.size()) {
      const std::size_t model = seen_.empty() ? 0 : seen_.size() - 1;
      const bool next = !seen_.empty() && seen_.back().size() == items_.size();
      infer.model = cheap_model(number_of(next ? model + 1 : model));
      from = next || seen_.empty() ? 0 : seen_.back().size();
    }
    const std::size_t to = std::min(items_.size(), from + most);
    infer.items.assign(items_.begin() + std::ptrdiff_t(from), items_.begin() + std::ptrdiff_t(to));
    return infer;
  }

  void done(std::span<const float> outputs, std::size_t items, const IndexConfig& now) {
    if (labels_.size() < items_.size()) {
      LH_CHECK(outputs.size() == items);
      for (const float cls : outputs) labels_.push_back(std::uint32_t(cls));
      return;
    }
    if (seen_.empty() || seen_.back().size() == items_.size()) seen_.emplace_back();
    const std::uint32_t specialised = models_.at(seen_.size() - 1).specialised;
    for (std::size_t i = 0; i < items; ++i)
      seen_.back().push_back(
          seen_by_cheap(items_[seen_.back().size()], i, items, outputs, specialised));
    if (seen_.size() == models_.size() && seen_.back().size() == items_.size()) decide(now);
  }

  // Returns the choice, once after a sample. An Error: no choice reaches the targets; parameters
  // stay.
  std::optional<Result<Chosen>> take() {
    if (!decided_) return std::nullopt;
    auto chosen = std::exchange(decided_, std::nullopt);
    collecting_ = false;
    ++samples_;
    items_.clear();
    labels_.clear();
    seen_.clear();
    return chosen;
  }

  std::uint64_t samples() const { return samples_; }
  void state(Archive& ar) {
    LH_CHECK(!decided_);  // taken in the event that decides
    ar(models_, before_, window_, in_window_, samples_, collecting_, items_, labels_, seen_);
  }

 private:
  std::uint32_t number_of(std::size_t model) const {
    return models_[model].number.value_or(std::uint32_t(model));
  }
  bool collected() const { return collecting_ && items_.size() == config_.sample; }
  void decide(const IndexConfig& now) {
    std::vector<CheapModel> models;
    for (std::size_t i = 0; i < seen_.size(); ++i)
      models.push_back({models_[i].seconds, models_[i].specialised, seen_[i], models_[i].list});
    std::vector<std::uint64_t> tracks;
    for (const Item& item : items_)
      tracks.push_back(config_.track_of ? config_.track_of(item.seq) : item.seq);
    const auto point =
        choose(evaluate(now, models, labels_, tracks, config_.grid, config_.targets.least),
               config_.targets, config_.policy);
    std::size_t cheap = 0;
    while (cheap + 1 < models_.size() && number_of(cheap) != now.cheap) ++cheap;
    if (point) {
      cheap = point->model;
      const ResampleConfig::Model& model = models_[cheap];
      decided_ = Result<Chosen>(Chosen{number_of(cheap), point->K, model.specialised, point->T,
                                       model.version, model.list});
    } else {
      decided_ = Result<Chosen>(point.error());
    }
    before_.assign(models_[cheap].specialised + 1, 0);
    for (const Seen& seen : seen_[cheap])
      ++before_[std::size_t(std::ranges::max_element(seen.scores) - seen.scores.begin())];
  }

  ResampleConfig config_;
  std::vector<ResampleConfig::Model> models_;
  std::vector<double> before_, window_;  // best classes: in the sample, and since then
  std::uint64_t in_window_ = 0, samples_ = 0;
  bool collecting_ = false;
  std::optional<Result<Chosen>> decided_;
  std::vector<Item> items_;
  std::vector<std::uint32_t> labels_;
  std::vector<std::vector<Seen>> seen_;  // by model of models_, as far as computed
};

}  // namespace longhaul::focus
