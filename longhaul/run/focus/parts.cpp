#include "longhaul/run/focus/parts.h"

#include <cmath>

#include "longhaul/focus/parameters.h"
#include "longhaul/run/nodes.h"

namespace longhaul::run {
namespace {

using focus::Tracks;

class InferTimes final : public sim::ComputeTime {
 public:
  InferTimes(double cheap_ms, double gt_ms) : cheap_ms_(cheap_ms), gt_ms_(gt_ms) {}
  Time duration(Rank, std::uint64_t, Time, const Work& work) const override {
    const auto* infer = std::get_if<Infer>(&work);
    LH_CHECK(infer);
    const double ms = infer->model == Infer::Model::cheap ? cheap_ms_ : gt_ms_;
    return Time{std::llround(ms * 1e6 * double(infer->items.size()))};
  }

 private:
  double cheap_ms_, gt_ms_;
};

// K and T, on a sample of the node's stream that the accurate model labels. The sample takes no
// virtual time.
Status choose_parameters(focus::Config& config, std::uint64_t seed, Rank rank) {
  const Tracks tracks(seed, rank);
  const std::uint32_t specialised =
      std::min(config.Ls.value_or(Tracks::kClasses), Tracks::kClasses);
  focus::CheapModel model{config.cheap_ms / 1000, specialised, {}};
  std::vector<std::uint32_t> labels;
  for (std::uint64_t seq = 1; seq <= config.sample; ++seq) {
    const Item item = tracks.item(seq, config.rate);
    model.seen.push_back(
        {seq, item.at.count(), item.values, tracks.scores(seq, item.values, specialised)});
    labels.push_back(tracks.label(seq));
  }
  focus::IndexConfig base;
  base.most_active = config.M;
  base.vote_mean = config.vote == "mean";
  const focus::Targets targets{config.recall, config.precision};
  const auto point =
      focus::choose(focus::evaluate(base, std::span(&model, 1), labels, {}, targets.least), targets,
                    config.policy);
  if (!point) return point.error();
  config.K = point->K;
  config.T = point->T;
  return Ok{};
}

}  // namespace

Result<focus::NodeConfig> focus_node_config(const Job& job, Rank rank) {
  focus::Config config = *job.focus;
  if (config.baseline != "none") {
    config.T = 0;
  } else if (!config.T) {
    if (const Status chosen = choose_parameters(config, job.job.seed, rank); !chosen)
      return invalid(job.file + ": [focus] T: " + chosen.error().what);
  }
  const Members members = job.members();
  Rank hub = 0;
  while (config.hub && members[hub].site != *config.hub) ++hub;
  return node_config(config, Tracks::kClasses, hub);
}

std::unique_ptr<Learner> focus_learner(const Job& job, const focus::NodeConfig& config) {
  return std::make_unique<focus::TracksLearner>(job.job.seed, config.index.specialised);
}

std::unique_ptr<sim::ComputeTime> infer_times(const Job& job) {
  return std::make_unique<InferTimes>(job.focus->cheap_ms, job.focus->gt_ms);
}

TrackSource::TrackSource(const Job& job, Rank rank)
    : tracks_(job.job.seed, rank), rate_(job.focus->rate), length_(job.focus->objects) {}

std::vector<Item> TrackSource::due(Time now, std::size_t most) {
  std::vector<Item> items;
  for (auto at = next_at(); at && *at <= now && items.size() < most; at = next_at())
    items.push_back(tracks_.item(next_++, rate_));
  return items;
}

std::optional<Time> TrackSource::next_at() const {
  if (length_ && next_ > *length_) return std::nullopt;
  return from_seconds(double(next_ - 1) / rate_);
}

}  // namespace longhaul::run
