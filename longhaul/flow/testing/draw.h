#pragma once
// Random numbers of property tests.
#include <rapidcheck.h>

namespace longhaul::flow::testing {

// From 0 on; of full range in small cases too.
inline int number(int below) {
  return *rc::gen::resize(rc::kNominalSize, rc::gen::inRange(0, below));
}

}  // namespace longhaul::flow::testing
