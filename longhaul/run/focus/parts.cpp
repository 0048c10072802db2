#include "longhaul/run/focus/parts.h"

#include <algorithm>
#include <cmath>
#include <ctime>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "longhaul/base/rng.h"
#include "longhaul/core/cheap_models.h"
#include "longhaul/focus/tracks.h"
#include "longhaul/learn/data/load.h"
#include "longhaul/run/atomic_file.h"
#include "longhaul/run/nodes.h"
#include "longhaul/run/torch_library.h"

namespace longhaul::run {
namespace {

using focus::Tracks;

// Purposes of random numbers, distinct from those of Tracks.
constexpr std::uint32_t kImageTrack = 4, kImageObject = 5;
constexpr double kMoves = 1.5, kTurns = 0.12;        // for a track, in pixels and radians
constexpr double kMovesOn = 0.04, kTurnsOn = 0.004;  // from object to object, at most
constexpr double kBrightness = 0.1, kNoise = 4;      // share; of a pixel, of 255

double between(Random& random, double most) { return (2 * random.uniform() - 1) * most; }

struct Pose {
  double x, y, angle, brightness;
};

// Returns the bilinear value; outside it is 0.
double pixel_at(const std::uint8_t* from, std::int64_t height, std::int64_t width, double y,
                double x) {
  const auto top = std::int64_t(std::floor(y)), left = std::int64_t(std::floor(x));
  double sum = 0;
  for (std::int64_t i = top; i <= top + 1; ++i)
    for (std::int64_t j = left; j <= left + 1; ++j)
      if (i >= 0 && i < height && j >= 0 && j < width)
        sum += from[i * width + j] * (1 - std::abs(y - double(i))) * (1 - std::abs(x - double(j)));
  return sum;
}

using focus::Tracks;

constexpr std::size_t kSampleBatch = 64;

// Returns the CPU time of the process. Real time would include other load of the host.
double cpu_seconds() { return double(std::clock()) / CLOCKS_PER_SEC; }

}  // namespace

class FocusParts::InferTimes final : public sim::ComputeTime {
 public:
  InferTimes(std::vector<double> cheap_ms, double gt_ms, std::shared_ptr<GivenTimes> given)
      : cheap_ms_(std::move(cheap_ms)), gt_ms_(gt_ms), given_(std::move(given)) {}
  Time duration(Rank rank, std::uint64_t, Time, const Work& work) const override {
    const auto* infer = std::get_if<Infer>(&work);
    LH_CHECK(infer);
    return Time{std::llround(ms(rank, infer->model) * 1e6 * double(infer->items.size()))};
  }

 private:
  double ms(Rank rank, Infer::Model model) const {
    if (model == Infer::Model::accurate) return gt_ms_;
    const std::uint32_t number = cheap_number(model);
    if (number < cheap_ms_.size()) return cheap_ms_[number];
    const std::lock_guard lock(given_->mutex);
    return given_->ms.at({rank, number});
  }

  std::vector<double> cheap_ms_;
  double gt_ms_;
  std::shared_ptr<GivenTimes> given_;
};

Result<FocusParts> FocusParts::load(const Job& job) {
  FocusParts parts(job);
  parts.cheap_ = job.cheap;
  const focus::Config& config = *job.focus;
  if (config.stream == "tracks") {
    if (parts.cheap_.empty()) parts.cheap_.push_back({.ms = config.cheap_ms});
    return parts;
  }
  LH_LET(data, learn::read_data(job.data));
  LH_LET(split, learn::load_data(data));
  parts.images_ = config.images == "train" ? split.train : split.test;
  const learn::DataSet& images = *parts.images_;
  if (images.pixels.empty() || images.shape.sample.size() != 3 || images.size() == 0)
    return invalid(job.file + ": [data] kind = \"" + data.kind +
                   "\": expected images of bytes with [focus] stream = \"images\"");
  for (std::size_t i = 0; i < job.queries.size(); ++i)
    if (job.queries[i].cls >= parts.classes())
      return invalid(fmt::format("{}: [[focus.query]] class = {}: expected 0 to {}", job.file,
                                 job.queries[i].cls, parts.classes() - 1));
  LH_TRY(parts.try_files());
  return parts;
}

std::uint32_t FocusParts::classes() const {
  return images_ ? std::uint32_t(images_->shape.outputs) : Tracks::kClasses;
}

std::uint32_t FocusParts::specialised(std::uint32_t number) const {
  const std::uint32_t own = cheap_.at(number).outputs;
  return std::min(own > 0 ? own : job_->focus->Ls.value_or(classes()), classes());
}

ImageTracks FocusParts::image_tracks(Rank rank) const {
  return ImageTracks(images_, job_->job.seed, rank);
}

std::function<Item(std::uint64_t)> FocusParts::stream(Rank rank) const {
  const double rate = job_->focus->rate;
  if (images_)
    return
        [tracks = image_tracks(rank), rate](std::uint64_t seq) { return tracks.item(seq, rate); };
  return [tracks = Tracks(job_->job.seed, rank), rate](std::uint64_t seq) {
    return tracks.item(seq, rate);
  };
}

Result<std::unique_ptr<Learner>> FocusParts::make_learner(Rank rank) const {
  const bool exact = job_->focus->baseline == "ingest_all";
  if (!images_) {
    std::vector<focus::TracksLearner::Cheap> cheap;
    for (std::uint32_t i = 0; i < cheap_models(); ++i)
      cheap.push_back({exact ? classes() : specialised(i), cheap_[i].noise});
    return std::unique_ptr<Learner>(
        std::make_unique<focus::TracksLearner>(job_->job.seed, std::move(cheap)));
  }
  LH_LET(torch, torch_library());
  auto learner = torch->make_inference(files(rank));
  if (!learner) {
    Error error = learner.error();
    error.what = job_->file + ": [focus] " + error.what;
    return error;
  }
  return learner;
}

learn::InferenceParts FocusParts::files(Rank rank) const {
  learn::InferenceParts parts{
      .accurate = job_->focus->gt, .cheap = {}, .shape = images_->shape, .rank = rank};
  for (std::uint32_t i = 0; i < cheap_models(); ++i)
    parts.cheap.push_back({cheap_[i].path, specialised(i)});
  return parts;
}

// Tries all files of the job together, in a copy of this process.
Status FocusParts::try_files() const {
  LH_LET(torch, torch_library());
  const auto trial = [&]() -> Status {
    const auto learner = torch->make_inference(files(0));
    return learner ? Status(Ok{}) : Status(learner.error());
  };
  const Status tried = try_in_copy("a model of [focus]", limits(), trial);
  if (tried) return Ok{};
  return Error{tried.error().kind, job_->file + ": [focus] " + tried.error().what};
}

TrialLimits FocusParts::limits() const { return {job_->focus->trial_s, job_->focus->trial_mb}; }

Status FocusParts::try_given(const focus::GivenModel& model, const std::string& program,
                             std::stop_token stop) const {
  const auto list = [](const auto& numbers) { return fmt::format("{}", fmt::join(numbers, ",")); };
  std::vector<std::string> command = {program,     "try-model",
                                      "--sample",  list(images_->shape.sample),
                                      "--outputs", std::to_string(images_->shape.outputs)};
  if (!model.classes.empty()) {
    command.push_back("--classes");
    command.push_back(list(model.classes));
  }
  return try_in_command("the given model", limits(), std::move(command), model.file,
                        std::move(stop));
}

std::unique_ptr<sim::ComputeTime> FocusParts::times() const {
  std::vector<double> cheap_ms;
  for (const focus::CheapConfig& cheap : cheap_) cheap_ms.push_back(cheap.ms);
  return std::make_unique<InferTimes>(std::move(cheap_ms), job_->focus->gt_ms, given_);
}

focus::NodeConfig::PutModel FocusParts::put_model(Rank rank, Learner& learner) const {
  auto* models = dynamic_cast<CheapModels*>(&learner);
  LH_CHECK(models);
  return [models, rank, given = given_](std::uint32_t number,
                                        const focus::GivenModel& model) -> Status {
    LH_TRY(models->put_cheap(number, model.classes, std::as_bytes(std::span(model.file))));
    const std::lock_guard lock(given->mutex);
    given->ms[{rank, number}] = model.seconds * 1000;
    return Ok{};
  };
}

Result<focus::GivenModel> given_model(const Job& job, const focus::ModelConfig& config) {
  focus::GivenModel model;
  for (const double cls : config.classes) model.classes.push_back(std::uint32_t(cls));
  model.seconds = config.ms / 1000;
  model.K = config.K;
  model.T = config.T.value_or(-1);
  model.file = fmt::format("noise = {}", config.noise);
  if (config.path.empty()) return model;
  LH_LET(bytes, read_file(config.path));
  if (bytes.size() > focus::GivenModel::kMostFile)
    return invalid(fmt::format("{}: {}: {} bytes, expected {} at most", job.file, config.path,
                               bytes.size(), focus::GivenModel::kMostFile));
  model.file.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return model;
}

focus::Targets FocusParts::targets() const {
  return {.recall = job_->focus->recall,
          .precision = job_->focus->precision,
          .margin = job_->focus->margin};
}

focus::IndexConfig FocusParts::base() const {
  focus::IndexConfig base;
  base.classes = classes();
  base.most_active = job_->focus->M;
  base.vote_mean = job_->focus->vote == "mean";
  return base;
}

Result<LabelledSample> FocusParts::sample(Learner& learner, Rank rank, std::uint64_t first,
                                          std::uint64_t count, std::uint64_t every,
                                          bool cheap) const {
  LabelledSample sample;
  sample.cheap_s.resize(cheap ? cheap_.size() : 0);
  for (std::uint32_t i = 0; i < sample.cheap_s.size(); ++i)
    sample.cheap.push_back({cheap_[i].ms / 1000, specialised(i), {}});
  const auto stream = this->stream(rank);
  const auto run = [&](Infer::Model model, const std::vector<Item>& items, double& seconds) {
    const double begun = cpu_seconds();
    auto result = learner.step(Infer{model, items});
    seconds += (cpu_seconds() - begun) / double(count);
    return result;
  };
  for (std::uint64_t done = 0; done < count;) {
    std::vector<Item> items;
    for (; done < count && items.size() < kSampleBatch; ++done) {
      items.push_back(stream(first + done * every));
      sample.tracks.push_back(Tracks::track_of(items.back().seq));
    }
    LH_LET(labels, run(Infer::Model::accurate, items, sample.accurate_s));
    for (const float cls : labels.outputs) sample.labels.push_back(std::uint32_t(cls));
    for (std::uint32_t i = 0; i < sample.cheap.size(); ++i) {
      LH_LET(said, run(cheap_model(i), items, sample.cheap_s[i]));
      for (std::size_t at = 0; at < items.size(); ++at)
        sample.cheap[i].seen.push_back(focus::seen_by_cheap(
            items[at], at, items.size(), said.outputs, sample.cheap[i].specialised));
    }
  }
  return sample;
}

focus::Grid FocusParts::grid() const {
  if (!images_) return {};
  return {.K = {1, 2, 3, 4, 6, 8}, .T = {0, 1, 2, 3, 4, 6}, .in_usual_distances = true};
}

std::vector<focus::Point> FocusParts::points(const LabelledSample& sample) const {
  return focus::evaluate(base(), sample.cheap, sample.labels, sample.tracks, grid(),
                         targets().least);
}

// Chooses cheap model, K and T on a sample of the node's stream that the accurate model labels. The
// sample takes no virtual time.
Status FocusParts::choose(focus::Config& config, std::uint32_t& cheap, Rank rank,
                          Learner& learner) const {
  LH_LET(sample, this->sample(learner, rank, 1, config.sample));
  const auto point = focus::choose(points(sample), targets(), config.policy);
  if (!point) return invalid(job_->file + ": [focus] T: " + point.error().what);
  cheap = std::uint32_t(point->model);
  config.K = point->K;
  config.T = point->T;
  return Ok{};
}

Result<focus::NodeConfig> FocusParts::node_config(Rank rank, Learner& learner) const {
  focus::Config config = *job_->focus;
  std::uint32_t cheap = 0;
  const bool needs_cheap = config.baseline == "none" || config.baseline == "no_cluster";
  if (needs_cheap && cheap_.empty())
    return invalid(job_->file + ": [[focus.cheap]]: missing; expected one cheap model at least");
  if (config.baseline != "none") {
    config.T = 0;
  } else if (!config.T) {
    LH_TRY(choose(config, cheap, rank, learner));
  }
  const Members members = job_->members();
  Rank hub = 0;
  while (config.hub && members[hub].site != *config.hub) ++hub;
  if (needs_cheap) config.Ls = specialised(cheap);
  focus::NodeConfig node = focus::node_config(config, classes(), hub);
  node.index.cheap = cheap;
  node.put_model = put_model(rank, learner);
  node.own_models = cheap_models();
  node.length = std::uint32_t(stream(rank)(1).values.size());
  if (!job_->focus->T && config.baseline == "none") {  // a given model needs a sample without drift
    node.resample = focus::ResampleConfig{.drift = config.drift > 0 ? config.drift : 1,
                                          .sample = config.sample,
                                          .models = {},
                                          .grid = grid(),
                                          .targets = targets(),
                                          .policy = config.policy,
                                          .track_of = &Tracks::track_of};
    for (std::uint32_t i = 0; i < cheap_models(); ++i)
      node.resample->models.push_back(
          {.seconds = cheap_[i].ms / 1000, .specialised = specialised(i)});
  }
  return node;
}

TrackSource::TrackSource(const Job& job, std::function<Item(std::uint64_t)> stream)
    : stream_(std::move(stream)), rate_(job.focus->rate), length_(job.focus->objects) {}

std::vector<Item> TrackSource::due(Time now, std::size_t most) {
  std::vector<Item> items;
  for (auto at = next_at(); at && *at <= now && items.size() < most; at = next_at())
    items.push_back(stream_(next_++));
  return items;
}

std::optional<Time> TrackSource::next_at() const {
  if (length_ && next_ > *length_) return std::nullopt;
  return from_seconds(double(next_ - 1) / rate_);
}

ImageTracks::ImageTracks(std::shared_ptr<const learn::DataSet> images, std::uint64_t seed,
                         std::uint32_t source)
    : images_(std::move(images)), seed_(seed), source_(source) {
  LH_CHECK(images_ && images_->size() > 0 && !images_->pixels.empty() &&
           images_->shape.sample.size() == 3);
}

std::uint32_t ImageTracks::row(std::uint64_t seq) const {
  Random track(seed_, {Purpose::items, Tracks::track_of(seq), source_, kImageTrack});
  return std::uint32_t(track.below(images_->size()));
}

std::vector<std::uint8_t> ImageTracks::pixels(std::uint64_t seq) const {
  Random track(seed_, {Purpose::items, Tracks::track_of(seq), source_, kImageTrack});
  Random object(seed_, {Purpose::items, seq & 0xFFFFFFFF, source_, kImageObject});
  const std::size_t image = track.below(images_->size());
  const Pose first{between(track, kMoves), between(track, kMoves), between(track, kTurns),
                   1 + between(track, kBrightness)};
  const Pose step{between(track, kMovesOn), between(track, kMovesOn), between(track, kTurnsOn), 0};
  const std::uint64_t length = Tracks::kTrackLength * Tracks::kInterleaved;
  const double k = double((seq - 1) % length / Tracks::kInterleaved);
  const Pose pose{first.x + k * step.x, first.y + k * step.y, first.angle + k * step.angle,
                  first.brightness};
  const std::int64_t channels = images_->shape.sample[0], height = images_->shape.sample[1],
                     width = images_->shape.sample[2];
  const std::uint8_t* from = images_->pixels.data() + image * images_->shape.width();
  const double cosine = std::cos(pose.angle), sine = std::sin(pose.angle);
  const double middle_y = double(height - 1) / 2, middle_x = double(width - 1) / 2;
  std::vector<std::uint8_t> pixels;
  pixels.reserve(images_->shape.width());
  for (std::int64_t c = 0; c < channels; ++c)
    for (std::int64_t i = 0; i < height; ++i)
      for (std::int64_t j = 0; j < width; ++j) {
        const double y = double(i) - middle_y - pose.y, x = double(j) - middle_x - pose.x;
        const double value =
            pixel_at(from + c * height * width, height, width, middle_y + cosine * y - sine * x,
                     middle_x + sine * y + cosine * x);
        const double seen = value * pose.brightness + kNoise * object.normal();
        pixels.push_back(std::uint8_t(std::clamp(std::round(seen), 0.0, 255.0)));
      }
  return pixels;
}

Item ImageTracks::item(std::uint64_t seq, double rate) const {
  Item item{source_, seq, from_seconds(double(seq - 1) / rate), {}};
  const std::vector<std::uint8_t> bytes = pixels(seq);
  const std::size_t area = bytes.size() / std::size_t(images_->shape.sample[0]);
  for (std::size_t i = 0; i < bytes.size(); ++i)
    item.values.push_back(images_->pixel_values[i / area * 256 + bytes[i]]);
  return item;
}

}  // namespace longhaul::run
