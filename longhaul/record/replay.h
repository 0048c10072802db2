#pragma once
// Feeds a recording to a fresh node and compares every answer.
#include <functional>

#include "longhaul/core/node.h"
#include "longhaul/record/entries.h"

namespace longhaul::record {

class ReplayHost;

// The first difference between the recorded and the replayed actions.
struct Difference {
  std::uint64_t input = 0;  // counts from 1
  Time time{0};
  std::string what = {};                     // the input, in words
  std::uint64_t action = 0;                  // number from 1; 0: the input was impossible
  std::string recorded = {}, replayed = {};  // "": none
};

struct Outcome {
  std::uint64_t inputs = 0;   // inputs with equal answers
  std::uint64_t actions = 0;  // actions in those inputs
  std::optional<Difference> difference;
  // The reason why this machine's learner cannot replace the recorded one.
  std::optional<Error> refused;
  // Empty: the recording is complete. Else the run was killed or still runs, or the file is
  // damaged.
  std::optional<StreamEnd> ending;
  bool unanswered = false;  // the last input has no recorded answer
  bool stopped = false;     // by `go_on`
};

struct ReplayOptions {
  // Computes the steps again. nullptr: results come from the recording, which must be full.
  Learner* learner = nullptr;
  std::string cpu = {};  // this machine's CPU, for messages
  // Called after each input with the bytes read so far; false stops.
  std::function<bool(const Outcome&, std::uint64_t bytes)> go_on = {};
};

class Replay {
 public:
  explicit Replay(Source& source) : frames_(source) {}

  // Reads up to the first input. Error: names byte and remedy.
  Status open();
  const Header& header() const { return header_; }
  // Replays the whole recording, once; `place` and `strategy` are those of header().job. Error: the
  // file cannot be read or is not valid.
  Result<Outcome> run(Place place, std::unique_ptr<Strategy> strategy, const ReplayOptions&);

 private:
  class RecordedLearner;

  Result<std::optional<Frame>> next(Outcome&);
  Status set_up(Node&, Learner*, const ReplayOptions&, Outcome&);
  Status take_step(const InputEntry&, ReplayHost&, Learner*, const ReplayOptions&, Outcome&);
  Result<bool> one_input(const Frame&, Node&, ReplayHost&, Learner*, const ReplayOptions&,
                         Outcome&);

  FrameReader frames_;
  Header header_;
  std::optional<InitialState> initial_state_;
  std::optional<Frame> first_;  // read by open() but not an InitialState: no input was recorded
};

}  // namespace longhaul::record
