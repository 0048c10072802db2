#pragma once
// With late = "return": what the receiver did not count, kept by the sender until it is added to
// the next vector. A residual is taken when a push is made; what its receipt does not count comes
// back, and all that was taken comes back if the push is cancelled. So over a run
//   sum of what was counted = sum of what was given - residual.
#include <map>
#include <span>
#include <vector>

#include "longhaul/base/archive.h"
#include "longhaul/transfer/dgt/messages.h"

namespace longhaul::transfer::dgt {

class Residuals {
 public:
  using Vector = std::pair<std::uint32_t, std::uint32_t>;  // group, range
  // Adds the residual to these values of the vector, and forgets it. What was added.
  std::vector<float> take(const Vector&, std::uint64_t offset, std::span<float> values);
  void give(const Vector&, std::uint64_t offset, std::span<const float> values);
  std::span<const float> of(const Vector&) const;
  void state(Archive& ar) { ar(vectors_); }

 private:
  std::map<Vector, std::vector<float>> vectors_;  // as long as what was given to them
};

// A push whose receipt has not come.
struct Unsettled {
  struct Part {  // a block that was offered
    std::uint32_t number = 0;
    std::uint64_t offset = 0;
    std::vector<float> sent;   // empty: it went reliably
    std::vector<float> taken;  // of it, from the residual; empty: nothing
    void state(auto& ar) { ar(number, offset, sent, taken); }
  };
  Residuals::Vector vector;
  std::vector<Part> parts;
  void state(auto& ar) { ar(vector, parts); }
};
void settle(const Unsettled&, const Bitmap& counted, Residuals&);
void cancel(const Unsettled&, Residuals&);

}  // namespace longhaul::transfer::dgt
