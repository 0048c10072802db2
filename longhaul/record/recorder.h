#pragma once
// Records the inputs and actions of a node. Each input goes to the sink before the node takes it,
// together with the answers to the previous one: the input that kills a run is in the file.
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

  // Ends the recording. Error: the first failed write, after which nothing was written.
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
