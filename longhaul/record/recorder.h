#pragma once
// Records the inputs and actions of a node. Each input goes to the sink before the node takes it,
// together with the answers to the previous one: the input that kills a run is in the file.
#include "longhaul/core/node.h"
#include "longhaul/core/tap.h"
#include "longhaul/record/entries.h"

namespace longhaul::record {

class Recorder final : public Tap {
 public:
  // Tap a node that has taken no input since it was made or loaded; in the second case its learner
  // must not be computing when the next input comes.
  Recorder(Header header, Sink& sink) : header_(std::move(header)), frames_(sink) { add(header_); }

  void input(Time now, const Input& input, Node& node, Learner* learner) override {
    if (inputs_++ == 0) begin(input, node, learner);
    InputEntry entry{now, input, {}};
    if (std::holds_alternative<Stepped>(input))
      entry.vectors = LearnerVectors::of(learner, header_.mode);
    add(entry);
    (void)frames_.flush();  // finish() tells of a failure
  }

  void action(const Action& action, Learner* idle) override {
    answer_.answers.push_back(answer_of(action, idle));
  }

  void answered(const Status& status) override {
    if (!status) answer_.answers.push_back(refusal(status.error()));
    add(answer_);
    answer_.answers.clear();
  }

  // Ends the recording. Error: the first failed write, after which nothing was written.
  Status finish() {
    EndEntry end{inputs_};
    add(end);
    return frames_.flush();
  }

  std::uint64_t inputs() const { return inputs_; }

 private:
  template <class Entry>
  void add(Entry& entry) {
    frames_.add(Entry::kType, encode(entry));
  }
  void begin(const Input& input, Node& node, Learner* learner) {
    InitialState begin{.fresh = std::holds_alternative<Started>(input)};
    begin.vectors = LearnerVectors::of(learner, header_.mode);
    if (!begin.fresh) {
      Archive saved, learned;
      node.state(saved);
      begin.node = saved.take();
      if (learner) learner->state(learned);
      begin.learner = learned.take();
    }
    add(begin);
  }

  Header header_;
  FrameWriter frames_;
  AnswerEntry answer_;
  std::uint64_t inputs_ = 0;
};

}  // namespace longhaul::record
