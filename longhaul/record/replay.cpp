#include "longhaul/record/replay.h"

#include <algorithm>
#include <bit>

#include <fmt/format.h>

#include "longhaul/record/replay_host.h"

namespace longhaul::record {
namespace {

std::string at(const InputEntry& entry, std::uint64_t number) {
  return fmt::format("input {} ({}, at {})", number, describe(entry.input), describe(entry.time));
}

Error other_bits(const std::string& where, const std::string& what, const Header& header,
                 const std::string& cpu) {
  return invalid(fmt::format(
      "{}: {} here than when it was recorded, on {}{}; a recording made with --record=full is "
      "replayed without the learner",
      where, what, header.cpu, header.cpu == cpu ? ", as here" : ", here on " + cpu));
}

// The results of steps, apart from how long they took.
bool same_result(StepResult a, StepResult b) {
  a.elapsed = b.elapsed = Time{0};
  return encode(a) == encode(b);
}

std::optional<Difference> compare(const std::vector<Answer>& recorded,
                                  const std::vector<Answer>& replayed) {
  const std::size_t both = std::min(recorded.size(), replayed.size());
  std::size_t i = 0;
  while (i < both && recorded[i].hash == replayed[i].hash) ++i;
  if (i == recorded.size() && i == replayed.size()) return std::nullopt;
  Difference difference;
  difference.action = i + 1;
  if (i < recorded.size()) difference.recorded = recorded[i].text;
  if (i < replayed.size()) difference.replayed = replayed[i].text;
  return difference;
}

}  // namespace

// A learner whose steps were taken long ago.
class Replay::RecordedLearner final : public Learner {
 public:
  RecordedLearner(std::shared_ptr<const Layout> layout, const LearnerVectors& now)
      : layout_(std::move(layout)), params_(now.params), grads_(now.grads) {}

  std::shared_ptr<const Layout> layout() const override { return layout_; }
  std::span<float> params() override { return params_; }
  std::span<float> grads() override { return grads_; }
  Result<StepResult> step(const Work&) override {
    return invalid("a recording cannot take new steps");
  }
  void state(Archive&) override {}
  bool set(const LearnerVectors& after) {
    if (after.params.size() != params_.size() || after.grads.size() != grads_.size()) return false;
    std::copy(after.params.begin(), after.params.end(), params_.begin());
    std::copy(after.grads.begin(), after.grads.end(), grads_.begin());
    return true;
  }

 private:
  std::shared_ptr<const Layout> layout_;
  std::vector<float> params_, grads_;
};

// The next entry, if it is whole; else the outcome says why there is none.
Result<std::optional<Frame>> Replay::next(Outcome& outcome) {
  if (first_) return std::exchange(first_, std::nullopt);
  LH_LET(read, frames_.next());
  if (auto* frame = std::get_if<Frame>(&read)) return std::optional(std::move(*frame));
  outcome.ending = std::get<StreamEnd>(read);
  return std::optional<Frame>();
}

Status Replay::open() {
  Outcome outcome;
  const auto nothing = [&]() -> Status {
    const StreamEnd& ending = *outcome.ending;
    return malformed(
        fmt::format("{} in entry {} at byte {}, before the first input: nothing to "
                    "replay",
                    ending.kind == StreamEnd::Kind::damaged ? "damaged" : "ends early",
                    ending.number, ending.offset));
  };
  LH_LET(first, next(outcome));
  if (!first) return nothing();
  LH_LET(header, decode<Header>(*first));
  header_ = std::move(header);
  LH_LET(frame, next(outcome));
  if (!frame) return nothing();
  if (frame->type == EntryType::end) return first_ = *std::move(frame), Ok{};
  LH_LET(begin, decode<InitialState>(*frame));
  initial_state_ = std::move(begin);
  const std::uint64_t values = header_.phantom || !header_.learner ? 0 : header_.layout->size();
  const LearnerVectors& vectors = initial_state_->vectors;
  if (header_.mode == Mode::full &&
      (vectors.params.size() != values || vectors.grads.size() != values))
    return malformed(
        fmt::format("entry 1 at byte {}: the model has {} values, but {} were recorded",
                    frame->offset, values, vectors.params.size()));
  return Ok{};
}

// Loads the recorded state if the node was resumed. Then the learner's vectors must equal the
// recorded vectors.
Status Replay::set_up(Node& node, Learner* learner, const ReplayOptions& options,
                      Outcome& outcome) {
  if (!initial_state_->fresh) {
    Archive saved(initial_state_->node);
    node.state(saved);
    if (!saved.finish())
      return malformed("the state of the node in entry 1 cannot be loaded: another program");
  }
  if (!options.learner || !header_.learner) return Ok{};
  if (!initial_state_->fresh) {
    Archive saved(initial_state_->learner);
    learner->state(saved);
    if (!saved.finish())
      return malformed("the state of the learner in entry 1 cannot be loaded: another program");
  }
  if (!LearnerVectors::of(learner, Mode::hashes).same_hashes(initial_state_->vectors))
    outcome.refused =
        other_bits("before the first input", "other parameters", header_, options.cpu);
  return Ok{};
}

// Sets the learner's vectors to the result of the step: by taking it, or from the recording.
Status Replay::take_step(const InputEntry& entry, ReplayHost& host, Learner* learner,
                         const ReplayOptions& options, Outcome& outcome) {
  const std::optional<Work> work = host.take_work();
  if (!options.learner) {
    if (static_cast<RecordedLearner*>(learner)->set(entry.vectors)) return Ok{};
    return malformed(at(entry, outcome.inputs + 1) + ": vectors of another size than before");
  }
  const auto differs = [&] {
    outcome.refused = other_bits(at(entry, outcome.inputs + 1), "the learner computes other bits",
                                 header_, options.cpu);
  };
  if (work) {
    const Result<StepResult> result = learner->step(*work);
    if (!result) {
      outcome.refused = result.error();
      return Ok{};
    }
    if (!same_result(*result, std::get<Stepped>(entry.input).result)) differs();
  }
  if (!LearnerVectors::of(learner, Mode::hashes).same_hashes(entry.vectors)) differs();
  return Ok{};
}

// Replays one input. Returns false if the replay cannot continue.
Result<bool> Replay::one_input(const Frame& frame, Node& node, ReplayHost& host, Learner* learner,
                               const ReplayOptions& options, Outcome& outcome) {
  LH_LET(entry, decode<InputEntry>(frame));
  const auto found = [&](Difference difference) {
    difference.input = outcome.inputs + 1;
    difference.time = entry.time;
    difference.what = describe(entry.input);
    outcome.difference = std::move(difference);
    return false;
  };
  if (const auto why = host.impossible(entry.input, node))
    return found({.recorded = "the input", .replayed = *why});
  if (std::holds_alternative<Stepped>(entry.input)) {
    LH_TRY(take_step(entry, host, learner, options, outcome));
    if (outcome.refused) return false;
  }
  (void)node.feed(entry.time, entry.input);  // a refusal is among the answers
  LH_LET(after, next(outcome));
  outcome.unanswered = !after;
  if (!after) return false;
  LH_LET(answer, decode<AnswerEntry>(*after));
  if (auto difference = compare(answer.answers, host.answers()))
    return found(*std::move(difference));
  ++outcome.inputs;
  outcome.actions += answer.answers.size();
  outcome.stopped = options.go_on && !options.go_on(outcome, frames_.offset());
  return !outcome.stopped;
}

Result<Outcome> Replay::run(Place place, std::unique_ptr<Strategy> strategy,
                            const ReplayOptions& options) {
  if (header_.learner && !options.learner && header_.mode != Mode::full)
    return invalid("holds hashes only: a learner must take the steps again");
  std::unique_ptr<RecordedLearner> taken;
  if (initial_state_ && header_.learner && !options.learner)
    taken = std::make_unique<RecordedLearner>(place.layout, initial_state_->vectors);
  Learner* learner = taken ? taken.get() : header_.learner ? options.learner : nullptr;
  ReplayHost host(!initial_state_ || initial_state_->fresh);
  Node node(std::move(place), std::move(strategy), learner, host);
  node.tap(&host);
  Outcome outcome;
  if (initial_state_) LH_TRY(set_up(node, learner, options, outcome));
  for (bool more = !outcome.refused; more;) {
    LH_LET(frame, next(outcome));
    if (!frame) break;
    if (frame->type == EntryType::end) {
      LH_LET(end, decode<EndEntry>(*frame));
      if (end.inputs != outcome.inputs)
        return malformed(fmt::format("the end at byte {} counts {} inputs where there are {}",
                                     frame->offset, end.inputs, outcome.inputs));
      break;
    }
    LH_LET(went_on, one_input(*frame, node, host, learner, options, outcome));
    more = went_on;
  }
  return outcome;
}

}  // namespace longhaul::record
