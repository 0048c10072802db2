#pragma once
// The header of the models that the workers of dpsgd.cpp send.
#include "longhaul/core/message.h"
#include "longhaul/core/sample_count.h"

namespace longhaul::sync {

struct DpsgdHeader {
  LONGHAUL_MESSAGE(0, "header");  // not a message by itself: it is in one
  bool is_whole = true;           // else the difference to the model of the round before
  double samples = 0;             // sender's estimate of the samples per worker in the mean
  LONGHAUL_FIELDS(is_whole, (samples, .min = 0, .max = kMostSamples))
};

}  // namespace longhaul::sync
