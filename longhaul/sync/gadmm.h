#pragma once
// The header of the models that the workers of gadmm.cpp send.
#include "longhaul/core/message.h"

namespace longhaul::sync {

struct GadmmHeader {
  LONGHAUL_MESSAGE(0, "header");  // not a message by itself: it is in one
  Round end = 0;                  // rounds of the run, by a stopping rule; 0: unknown
  LONGHAUL_FIELDS((end, .max = 0x1p50))
};

}  // namespace longhaul::sync
