#pragma once
// Which model an Infer (core/work.h) runs. A job may have several cheap models; one of them
// indexes, the others run on samples, when one is chosen.
#include <span>

#include "longhaul/base/bytes.h"
#include "longhaul/base/result.h"
#include "longhaul/core/work.h"

namespace longhaul {

inline constexpr std::uint32_t kMostCheapModels = 16;

// Cheap model number 0 is Infer::Model::cheap; the values behind `accurate` are 1, 2 ...
inline Infer::Model cheap_model(std::uint32_t number) {
  return number == 0 ? Infer::Model::cheap : Infer::Model(number + 1);
}
// The number of a cheap model; not for `accurate`.
inline std::uint32_t cheap_number(Infer::Model model) {
  return model == Infer::Model::cheap ? 0 : std::uint32_t(model) - 1;
}

// A learner whose cheap models may be replaced while it runs.
class CheapModels {
 public:
  virtual ~CheapModels() = default;
  // Makes model `number` from a file, in place of an existing one; numbers have no gaps. `classes`:
  // classes of the model in the order of its scores, then OTHER; empty: all classes. Must not be
  // called while the learner computes. After an Error the previous model is kept.
  virtual Status put_cheap(std::uint32_t number, std::span<const std::uint32_t> classes,
                           std::span<const std::byte> file) = 0;
};

}  // namespace longhaul
