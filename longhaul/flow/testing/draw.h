#pragma once
// Random numbers of property tests.
#include <rapidcheck.h>

#include "longhaul/base/testing/effort.h"

namespace longhaul::flow::testing {

// From 0 on; of full range in small cases too.
inline int number(int below) {
  return *rc::gen::resize(rc::kNominalSize, rc::gen::inRange(0, below));
}

// Whether a case of a property is tried: all, in the gate one in `every`. `number` counts them.
inline bool tried(int& number, int every = 5) {
  return !longhaul::testing::kGate || number++ % every == 0;
}

}  // namespace longhaul::flow::testing
