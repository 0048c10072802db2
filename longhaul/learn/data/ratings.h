#pragma once
// Ratings of items by users, made from a seed and shaped as MovieLens' (Harper, Konstan, "The
// MovieLens datasets", 2015): few users and items have most of the ratings, a user rates an item
// once, and ratings are half stars from 0.5 to 5.
//
// A rating is 3.5 + taste of the user + quality of the item + p . q + noise, p and q being of
// kTasteFactors numbers; taste and quality ~ N(0, 0.25), p . q ~ N(0, 0.25), noise ~ N(0, noise^2).
#include "longhaul/learn/data/dataset.h"

namespace longhaul::learn {

struct RatingsOptions {
  std::uint32_t users = 0, items = 0;
  std::size_t samples = 0, test_samples = 0;  // together at most half of users x items
  double noise = 1.0;
  std::uint64_t seed = 1;
};

struct Ratings {
  DataSet train, test;  // samples are (user, item), from 0; both ordered by user, then item
};
Ratings make_ratings(const RatingsOptions&);

}  // namespace longhaul::learn
