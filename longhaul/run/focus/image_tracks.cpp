#include "longhaul/run/focus/image_tracks.h"

#include <algorithm>
#include <cmath>

#include "longhaul/base/rng.h"
#include "longhaul/focus/tracks.h"

namespace longhaul::run {
namespace {

using focus::Tracks;

// What a random number is for; apart from those of Tracks.
constexpr std::uint32_t kImageTrack = 4, kImageObject = 5;
constexpr double kMoves = 1.5, kTurns = 0.12;        // of a track, pixels and radians
constexpr double kMovesOn = 0.04, kTurnsOn = 0.004;  // of it from object to object, at most
constexpr double kBrightness = 0.1, kNoise = 4;      // share; of a pixel, of 255

double between(Random& random, double most) { return (2 * random.uniform() - 1) * most; }

struct Pose {
  double x, y, angle, brightness;
};

// Bilinear; outside it is 0.
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

}  // namespace

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
