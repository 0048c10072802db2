#pragma once
// none: the mean update is applied as it is.
#include "longhaul/base/fields.h"
#include "longhaul/core/transform.h"

namespace longhaul::outer {

struct NoneConfig {
  template <class Self, class Visit>
  static void fields(Self&, Visit&&) {}
};

class None final : public Transform {
 public:
  explicit None(const NoneConfig&) {}
  void apply(std::span<float>) override {}
};

}  // namespace longhaul::outer
