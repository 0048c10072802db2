#include "longhaul/focus/tracks.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

#include "longhaul/core/cheap_models.h"

namespace longhaul::focus {
namespace {

constexpr double kZipf = 1.1, kTrackSpread = 0.35, kObjectSpread = 0.03;
// What a random number is for; the range of its stream.
constexpr std::uint32_t kCentre = 0, kTrack = 1, kObject = 2, kScore = 3;

double squared_distance(std::span<const float> a, std::span<const double> b) {
  double sum = 0;
  for (std::size_t i = 0; i < b.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return sum;
}

}  // namespace

Tracks::Tracks(std::uint64_t seed, std::uint32_t source) : seed_(seed), source_(source) {
  double sum = 0;
  for (std::uint32_t c = 0; c < kClasses; ++c) up_to_[c] = sum += std::pow(c + 1.0, -kZipf);
  for (double& frequency : up_to_) frequency /= sum;
  centres_.resize(kClasses);
  for (std::uint32_t c = 0; c < kClasses; ++c) {
    Random draw = random(kCentre, c);
    for (double& x : centres_[c]) x = draw.normal();
  }
}

Random Tracks::random(std::uint32_t what, std::uint64_t which) const {
  return Random(seed_, {Purpose::items, which & 0xFFFFFFFF, source_, what});
}

std::uint64_t Tracks::track_of(std::uint64_t seq) {
  LH_CHECK(seq >= 1);
  const std::uint64_t block = (seq - 1) / (kTrackLength * kInterleaved);
  return block * kInterleaved + (seq - 1) % kInterleaved;
}

std::uint32_t Tracks::label(std::uint64_t seq) const {
  const double u = random(kTrack, track_of(seq)).uniform();
  const auto at = std::upper_bound(up_to_.begin(), up_to_.end() - 1, u);
  return std::uint32_t(at - up_to_.begin());
}

Item Tracks::item(std::uint64_t seq, double rate) const {
  Random track = random(kTrack, track_of(seq)), object = random(kObject, seq);
  (void)track.uniform();  // the class
  const Vector& centre = centres_[label(seq)];
  Item item{source_, seq, from_seconds(double(seq - 1) / rate), {}};
  for (std::uint32_t i = 0; i < kDimensions; ++i)
    item.values.push_back(
        float(centre[i] + kTrackSpread * track.normal() + kObjectSpread * object.normal()));
  return item;
}

std::vector<float> Tracks::scores(std::uint64_t seq, std::span<const float> values,
                                  std::uint32_t specialised, double noise) const {
  LH_CHECK(values.size() == kDimensions && specialised <= kClasses);
  Random draw = random(kScore, seq);
  std::vector<float> scores(specialised + 1, std::numeric_limits<float>::lowest());
  for (std::uint32_t c = 0; c < kClasses; ++c) {
    const auto score = float(-squared_distance(values, centres_[c]) + noise * draw.normal());
    float& into = scores[std::min(c, specialised)];
    into = c < specialised ? score : std::max(into, score);
  }
  return scores;
}

TracksLearner::TracksLearner(std::uint64_t seed, std::vector<Cheap> cheap)
    : seed_(seed), cheap_(std::move(cheap)), layout_(Layout::flat(1)) {}

const Tracks& TracksLearner::tracks(std::uint32_t source) {
  return tracks_.try_emplace(source, seed_, source).first->second;
}

std::vector<float> TracksLearner::scores(const Tracks& stream, const Item& item,
                                         const Cheap& cheap) {
  if (cheap.classes.empty())
    return stream.scores(item.seq, item.values, cheap.specialised, cheap.noise);
  std::vector<float> all = stream.scores(item.seq, item.values, Tracks::kClasses, cheap.noise);
  std::vector<float> scores;
  for (const std::uint32_t cls : cheap.classes)
    scores.push_back(std::exchange(all[cls], std::numeric_limits<float>::lowest()));
  scores.push_back(*std::max_element(all.begin(), all.end()));
  return scores;
}

Status TracksLearner::put_cheap(std::uint32_t number, std::span<const std::uint32_t> classes,
                                std::span<const std::byte> file) {
  const std::string text(reinterpret_cast<const char*>(file.data()), file.size());
  double noise = -1;
  int read = 0;
  if (std::sscanf(text.c_str(), "noise = %lf %n", &noise, &read) != 1 ||
      std::size_t(read) != text.size() || !(noise >= 0 && noise <= 1e6))
    return invalid(
        "no model of the stream tracks: expected a file that says noise = N, from 0 to 1e6");
  for (const std::uint32_t cls : classes)
    if (cls >= Tracks::kClasses) return invalid("class " + std::to_string(cls) + ": unknown");
  LH_CHECK(number <= cheap_.size());
  cheap_.resize(std::max<std::size_t>(cheap_.size(), number + 1));
  const auto specialised = classes.empty() ? Tracks::kClasses : std::uint32_t(classes.size());
  cheap_[number] = {specialised, noise, {classes.begin(), classes.end()}};
  return Ok{};
}

Result<StepResult> TracksLearner::step(const Work& work) {
  const auto* infer = std::get_if<Infer>(&work);
  if (!infer) return invalid("the models of the stream tracks cannot be trained");
  StepResult result{.samples = infer->items.size()};
  for (const Item& item : infer->items) {
    if (item.seq == 0 || item.values.size() != Tracks::kDimensions)
      return invalid("an item that is not of the stream tracks");
    const Tracks& stream = tracks(item.source);
    if (infer->model == Infer::Model::accurate) {
      result.outputs.push_back(float(stream.label(item.seq)));
      continue;
    }
    const std::uint32_t number = cheap_number(infer->model);
    if (number >= cheap_.size()) return invalid("there is no such cheap model");
    const std::vector<float> scores = this->scores(stream, item, cheap_[number]);
    result.outputs.insert(result.outputs.end(), item.values.begin(), item.values.end());
    result.outputs.insert(result.outputs.end(), scores.begin(), scores.end());
  }
  return result;
}

}  // namespace longhaul::focus
