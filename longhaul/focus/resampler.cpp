#include "longhaul/focus/resampler.h"

#include <algorithm>

#include "longhaul/core/cheap_models.h"
#include "longhaul/focus/log.h"

namespace longhaul::focus {

Seen seen_by_cheap(const Item& item, std::size_t at, std::size_t items,
                   std::span<const float> outputs, std::uint32_t specialised) {
  const std::size_t scores = specialised + 1;
  LH_CHECK(items > 0 && outputs.size() % items == 0 && outputs.size() / items >= scores);
  const auto own = outputs.subspan(at * (outputs.size() / items), outputs.size() / items);
  const auto middle = own.end() - std::ptrdiff_t(scores);
  return {item.seq, item.at.count(), rounded({own.begin(), middle}), {middle, own.end()}};
}

void Resampler::add(const ResampleConfig::Model& model, bool anew) {
  std::erase_if(models_, [&](const auto& other) { return other.number == model.number; });
  models_.push_back(model);
  if (!anew && !collecting_) return;
  collecting_ = true;  // the models have not all seen the objects of before
  items_.clear();
  labels_.clear();
  seen_.clear();
}

void Resampler::indexed(const Item& item, const Seen& seen) {
  if (collecting_) {
    if (items_.size() < config_.sample) items_.push_back(item);
    return;
  }
  const auto best = std::max_element(seen.scores.begin(), seen.scores.end());
  window_.resize(seen.scores.size());
  ++window_[std::size_t(best - seen.scores.begin())];
  if (++in_window_ < config_.sample) return;
  const bool first = before_.size() != window_.size();
  collecting_ = !first && drift(before_, window_) > config_.drift;
  if (first) before_ = window_;
  window_.clear();
  in_window_ = 0;
}

Infer Resampler::work(std::size_t most) const {
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

void Resampler::done(std::span<const float> outputs, std::size_t items, const IndexConfig& now) {
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

void Resampler::decide(const IndexConfig& now) {
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
    decided_ = Result<Chosen>(
        Chosen{number_of(cheap), point->K, model.specialised, point->T, model.version, model.list});
  } else {
    decided_ = Result<Chosen>(point.error());
  }
  before_.assign(models_[cheap].specialised + 1, 0);
  for (const Seen& seen : seen_[cheap])
    ++before_[std::size_t(std::max_element(seen.scores.begin(), seen.scores.end()) -
                          seen.scores.begin())];
}

std::optional<Result<Chosen>> Resampler::take() {
  if (!decided_) return std::nullopt;
  auto chosen = std::exchange(decided_, std::nullopt);
  collecting_ = false;
  ++samples_;
  items_.clear();
  labels_.clear();
  seen_.clear();
  return chosen;
}

void Resampler::state(Archive& ar) {
  LH_CHECK(!decided_);  // taken in the event that decides
  ar(models_, before_, window_, in_window_, samples_, collecting_, items_, labels_, seen_);
}

}  // namespace longhaul::focus
