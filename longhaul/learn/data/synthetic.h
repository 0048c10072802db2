#pragma once
// Data made from a seed, for tests and quick studies; a pure function of its options.
//
//   classification  `clusters` means per class, each number ~ N(0, 1); a sample is a mean of its
//                   class plus `noise` x N(0, 1), times `scale`; the means take turns, those of a
//                   class follow each other
//   ... by teacher  samples ~ N(0, 1); the class is the largest output of a network of kHidden tanh
//                   units with weights ~ N(0, 1) / sqrt(inputs), each output plus `noise` x N(0, 1)
//   regression      samples ~ N(0, 1); the target is teacher . sample + bias + `noise` x N(0, 1),
//                   teacher and bias ~ N(0, 1), the teacher divided by sqrt(width)
#include <cstdint>
#include <vector>

#include "longhaul/learn/data/dataset.h"

namespace longhaul::learn {

struct SyntheticOptions {
  DataShape shape;
  std::size_t samples = 0;
  double noise = 1.0;
  std::size_t clusters = 1;
  double scale = 1.0;
  std::uint64_t seed = 1;
  bool test = false;     // other samples from the same means or teacher
  bool teacher = false;  // classification: labels of a teacher instead of means of classes
};

DataSet make_synthetic(const SyntheticOptions&);

}  // namespace longhaul::learn
