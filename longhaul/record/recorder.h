#pragma once
// Writes down all that happens to a node. Each input is handed to the sink before the node takes
// it, together with the answers to the one before: what kills a run is the last thing recorded.
#include "longhaul/core/tap.h"
#include "longhaul/record/entries.h"

namespace longhaul::record {

class Recorder final : public Tap {
 public:
  // Tap a node that has taken no input since it was made or loaded; in the second case its learner
  // must not be computing when the next input comes.
  Recorder(Header, Sink&);

  void input(Time, const Input&, Node&, Learner*) override;
  void action(const Action&, Learner* idle) override;
  void answered(const Status&) override;

  // The run is over: nothing more comes. The Error of the first write that failed, after which
  // nothing was written.
  Status finish();
  std::uint64_t inputs() const { return inputs_; }

 private:
  template <class Entry>
  void add(Entry& entry) {
    frames_.add(Entry::kType, encode(entry));
  }
  void begin(const Input&, Node&, Learner*);

  Header header_;
  FrameWriter frames_;
  AnswerEntry answer_;
  std::uint64_t inputs_ = 0;
};

}  // namespace longhaul::record
