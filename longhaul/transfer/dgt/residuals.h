#pragma once
// With late = "return": what the receiver did not count, kept by the sender until it is added to
// the next vector. A residual is taken when a push is made; what its receipt does not count comes
// back, and all that was taken comes back if the push is undone. So over a run
//   sum of what was counted = sum of what was given - residual.
#include <map>
#include <optional>
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

// What a push has taken and sent, until its round is over: if the round is repeated, which a third
// node's loss may cause, all of it is given anew, and what this push did is undone.
struct PushRecord {
  struct Part {  // a block that was offered
    std::uint32_t number = 0;
    std::uint64_t offset = 0;
    std::vector<float> sent;   // empty: it went reliably
    std::vector<float> taken;  // of it, from the residual; empty: nothing
    void state(auto& ar) { ar(number, offset, sent, taken); }
  };
  Rank to = 0;
  StreamId stream;
  std::uint64_t push = 0;
  Epoch epoch = 0;
  Round round = 0;
  std::vector<Part> parts;
  std::optional<Bitmap> counted;  // its receipt is here
  Residuals::Vector vector() const { return {stream.group, stream.range}; }
  void state(auto& ar) { ar(to, stream, push, epoch, round, parts, counted); }
};
// Its receipt has come: what does not count goes to the residual.
void settle(PushRecord&, const Bitmap& counted, Residuals&);
// As if it had never been made.
void undo(const PushRecord&, Residuals&);

}  // namespace longhaul::transfer::dgt
