#pragma once
// The header of the models that the workers of gadmm.cpp send. Empty: the stream says it all.
#include "longhaul/core/message.h"

namespace longhaul::sync {

struct GadmmHeader {
  LONGHAUL_MESSAGE(0, "header");  // not a message by itself: it is in one
  static void fields(auto&, auto&&) {}
};

}  // namespace longhaul::sync
