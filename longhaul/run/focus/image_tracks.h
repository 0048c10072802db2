#pragma once
// A stream of objects made of the images of a data set: tracks as those of focus/tracks.h, each a
// run of transformed copies of one image, drawn by seed: it moves, turns and changes its brightness
// as an object before a camera does, and every copy has noise of its own.
#include <memory>

#include "longhaul/core/item.h"
#include "longhaul/learn/data/dataset.h"

namespace longhaul::run {

class ImageTracks {
 public:
  // Any number of objects; `source`: the rank whose stream it is. CHECKs that it holds images.
  ImageTracks(std::shared_ptr<const learn::DataSet>, std::uint64_t seed, std::uint32_t source);

  // `rate`: objects in a second; the object of seq 1 is seen at 0. Values as a model sees them.
  Item item(std::uint64_t seq, double rate) const;
  // The same as bytes, row-major.
  std::vector<std::uint8_t> pixels(std::uint64_t seq) const;
  // The image of which it is a copy.
  std::uint32_t row(std::uint64_t seq) const;

 private:
  std::shared_ptr<const learn::DataSet> images_;
  std::uint64_t seed_;
  std::uint32_t source_;
};

}  // namespace longhaul::run
