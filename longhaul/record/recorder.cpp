#include "longhaul/record/recorder.h"

#include "longhaul/core/node.h"
#include "longhaul/record/digest.h"

namespace longhaul::record {

Recorder::Recorder(Header header, Sink& sink) : header_(std::move(header)), frames_(sink) {
  add(header_);
}

void Recorder::begin(const Input& input, Node& node, Learner* learner) {
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

void Recorder::input(Time now, const Input& input, Node& node, Learner* learner) {
  if (inputs_++ == 0) begin(input, node, learner);
  InputEntry entry{now, input, {}};
  if (std::holds_alternative<Stepped>(input))
    entry.vectors = LearnerVectors::of(learner, header_.mode);
  add(entry);
  (void)frames_.flush();  // finish() tells of a failure
}

void Recorder::action(const Action& action, Learner* idle) {
  answer_.answers.push_back(answer_of(action, idle));
}

void Recorder::answered(const Status& status) {
  if (!status) answer_.answers.push_back(refusal(status.error()));
  add(answer_);
  answer_.answers.clear();
}

Status Recorder::finish() {
  EndEntry end{inputs_};
  add(end);
  return frames_.flush();
}

}  // namespace longhaul::record
