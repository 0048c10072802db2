#pragma once
// A node whose strategy answers every kind of input, and a host that gives it some.
#include "longhaul/core/node.h"
#include "longhaul/core/testing/quadratic.h"
#include "longhaul/record/entries.h"

namespace longhaul::record::testing {

// What a replay may do otherwise than the run did.
struct Variation {
  float pull = 0.5f;    // of the model towards 1 after each step: other parameters
  bool silent = false;  // does not answer messages
  bool talks = false;   // says one thing more
  Time timer{1000};     // sets another time
};

class Scripted final : public Strategy {
 public:
  explicit Scripted(Variation variation = {}) : variation_(variation) {}
  void on_start(Turn& turn) override;
  void on_step(const StepResult&, Turn& turn) override;
  Status on_message(Rank from, const Message&, Turn&) override;
  void on_timer(TimerId, Turn& turn) override;
  void on_writable(Rank peer, Turn& turn) override;
  void on_scored(Round, const Evaluation&, Turn& turn) override;
  Round rounds_done() const override { return steps_; }
  std::string waiting_for() const override { return ""; }
  void state(Archive& ar) override { ar(steps_); }

 private:
  const Variation variation_;
  std::uint64_t steps_ = 0;
};

inline constexpr std::uint64_t kSize = 6;  // of the model
inline constexpr std::uint64_t kInputs = 11;
Place place();  // rank 0 of three
longhaul::testing::Quadratic quadratic(float target = 2);
Header header(Mode);

// The recording of a run of kInputs inputs; with `resumed` only from the fifth on.
Buffer record_run(Mode, bool resumed = false);

}  // namespace longhaul::record::testing
