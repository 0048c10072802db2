#include "longhaul/record/replay.h"

#include <gmock/gmock.h>

#include <cmath>
#include <functional>

#include "longhaul/base/testing/result.h"
#include "longhaul/core/testing/message_of.h"
#include "longhaul/core/testing/quadratic.h"
#include "longhaul/record/recorder.h"
#include "longhaul/record/testing/memory.h"

namespace longhaul::record {
namespace {

using longhaul::testing::Quadratic;
using ::testing::AllOf;
using ::testing::HasSubstr;
using namespace testing;

constexpr std::uint64_t kSize = 6;  // of the model
constexpr std::uint64_t kInputs = 11;

struct Word {
  LONGHAUL_MESSAGE(1, "word");
  double value = 0;
  LONGHAUL_FIELDS(value)
};

Message word(double value) {
  Message m = longhaul::testing::message_of(Word{value});
  m.machine = Path().child(2);
  return m;
}

// What a replay may do otherwise than the run did.
struct Variation {
  float pull = 0.5f;    // of the model towards 1 after each step: other parameters
  bool silent = false;  // does not answer messages
  bool talks = false;   // says one thing more
  Time timer{1000};     // sets another time
};

// Answers every kind of input.
class Scripted final : public Strategy {
 public:
  explicit Scripted(Variation variation = {}) : variation_(variation) {}

  void on_start(Turn& turn) override {
    turn.set_timer(*this, TimerId{1}, variation_.timer);
    turn.compute(LocalStep{}, 100);
  }

  void on_step(const StepResult& result, Turn& turn) override {
    ++steps_;
    for (float& x : turn.params()) x += variation_.pull * (1 - x);
    turn.record("loss", steps_, result.loss);
    turn.report(steps_, nullptr);
  }

  Status on_message(Rank from, const Message& message, Turn& turn) override {
    return dispatch(MessageList<Word>{}, message, [&](const Word& said) -> Status {
      if (variation_.silent) return Ok{};
      turn.send(from, word(said.value + double(steps_)));
      if (variation_.talks) turn.record("said", steps_, 1);
      return Ok{};
    });
  }

  void on_timer(TimerId, Turn& turn) override { turn.send(2, word(-1), {.priority = 6}); }
  void on_writable(Rank peer, Turn& turn) override { turn.record("room", peer, 1); }
  void on_scored(Round round, const Evaluation& e, Turn& turn) override {
    turn.record("scored", round, e.loss);
  }
  Round rounds_done() const override { return steps_; }
  std::string waiting_for() const override { return ""; }
  void state(Archive& ar) override { ar(steps_); }

 private:
  const Variation variation_;
  std::uint64_t steps_ = 0;
};

// Takes the steps; the script below says when the rest comes.
class OneStep final : public Host {
 public:
  explicit OneStep(Learner& learner) : learner_(learner) {}
  void send(Rank, Send) override {}
  void set_timer(Rank, const SetTimer&) override {}
  void cancel_timer(Rank, const CancelTimer&) override {}
  void compute(Rank, ComputeStep step) override {
    auto result = learner_.step(step.work);
    LH_CHECK(result);
    last = *result;
    last.elapsed = Time(7);
  }
  void report(Rank, Report) override {}
  void record(Rank, const Record&) override {}
  void finish(Rank) override {}
  void fail(Rank, const Error&) override {}
  StepResult last;

 private:
  Learner& learner_;
};

// Rank 0 of three.
Place place() {
  Place p;
  p.members = std::make_shared<const Members>(Members{{"lima"}, {"oslo"}, {"rome"}});
  p.layout = Layout::flat(kSize);
  return p;
}

Quadratic quadratic() { return Quadratic(kSize, {.target = 2}); }

Header header(Mode mode) {
  Header h{.cpu = "the first CPU",
           .job = "[job]\n",
           .job_hash = 17,
           .mode = mode,
           .nodes = 3,
           .site = "lima",
           .learner = true,
           .layout = place().layout};
  return h;
}

// The recording of a run of kInputs inputs; with `resumed` only from the fifth on.
Buffer record_run(Mode mode, bool resumed = false) {
  Quadratic learner = quadratic();
  OneStep host(learner);
  Node node(place(), std::make_unique<Scripted>(), &learner, host);
  MemorySink sink;
  Recorder recorder(header(mode), sink);
  Message bad = word(1);
  bad.kind = 9;
  const std::vector<std::function<void(Time)>> inputs = {
      [&](Time now) { node.start(now); },
      [&](Time now) { node.stepped(now, host.last); },
      [&](Time now) { (void)node.deliver(now, 1, word(5)); },
      [&](Time now) { node.scored(now, 1, {.loss = 3}); },
      [&](Time now) { (void)node.deliver(now, 2, word(6)); },
      [&](Time now) { node.stepped(now, host.last); },
      [&](Time now) { node.writable(now, 1, 4); },
      [&](Time now) { (void)node.deliver(now, 2, bad); },
      [&](Time now) { node.timer(now, Path().child(2), TimerId{1}); },
      [&](Time now) { node.stepped(now, host.last); },
      [&](Time now) { node.unreachable(now, 2, true); }};
  LH_CHECK(inputs.size() == kInputs);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (i == (resumed ? 4u : 0u)) node.tap(&recorder);
    inputs[i](Time(100 * i));
  }
  LH_CHECK(recorder.finish());
  return sink.bytes;
}

// With its own learner if one is given, else from the recording.
Result<Outcome> replay(std::span<const std::byte> bytes, Variation variation = {},
                       Learner* learner = nullptr, const std::string& cpu = "the second CPU") {
  MemorySource source(bytes);
  Replay replay(source);
  LH_TRY(replay.open());
  return replay.run(place(), std::make_unique<Scripted>(variation),
                    {.learner = learner, .cpu = cpu, .go_on = {}});
}

Outcome outcome_of(std::span<const std::byte> bytes, Variation variation = {},
                   Learner* learner = nullptr) {
  auto outcome = replay(bytes, variation, learner);
  if (!outcome) ADD_FAILURE() << outcome.error().what;
  return outcome ? *outcome : Outcome{};
}

void expect_same(const Outcome& outcome, std::uint64_t inputs = kInputs) {
  EXPECT_EQ(outcome.inputs, inputs);
  EXPECT_FALSE(outcome.difference)
      << outcome.difference->recorded << " | " << outcome.difference->replayed;
  EXPECT_FALSE(outcome.refused);
  EXPECT_FALSE(outcome.ending);
  EXPECT_FALSE(outcome.unanswered);
}

// A run does again what it did: from the vectors that were recorded, or taking the steps again.
TEST(Replay, TheSameNodeAnswersTheSame) {
  expect_same(outcome_of(record_run(Mode::full)));
  Quadratic learner = quadratic();
  expect_same(outcome_of(record_run(Mode::hashes), {}, &learner));
  Quadratic again = quadratic();
  expect_same(outcome_of(record_run(Mode::full), {}, &again));
  EXPECT_GT(outcome_of(record_run(Mode::full)).actions, kInputs);
}

TEST(Replay, HashesAreSmallAndNeedALearner) {
  EXPECT_LT(record_run(Mode::hashes).size() + 4 * 2 * kSize * sizeof(float),
            record_run(Mode::full).size() + 1);
  EXPECT_THAT(failure(replay(record_run(Mode::hashes))).what, HasSubstr("hashes only"));
}

// The first difference is named: which input, which action, what it was and what it is.
TEST(Replay, ADifferenceIsLocated) {
  struct Expected {
    Variation variation;
    std::uint64_t input, action;
    std::string what, recorded, replayed;  // "": none
  };
  const Buffer bytes = record_run(Mode::full);
  for (const auto& [variation, input, action, what, recorded, replayed] : std::vector<Expected>{
           {{.timer = Time(1001)}, 1, 1, "start", "at 0.000001000 s", "at 0.000001001 s"},
           {{.silent = true}, 3, 1, "message from rank 1", "message to rank 1", ""},
           {{.talks = true}, 3, 2, "message from rank 1", "", "record said"},
           // Other parameters, the same words: what the report shows, the next step begins with.
           {{.pull = 0.25f},
            2,
            3,
            "step done",
            "report round 1, the model as it stands",
            "report round 1, the model as it stands"}}) {
    const Outcome outcome = outcome_of(bytes, variation);
    ASSERT_TRUE(outcome.difference) << what;
    EXPECT_EQ(outcome.inputs, input - 1);
    EXPECT_EQ(outcome.difference->input, input);
    EXPECT_EQ(outcome.difference->time, Time(100 * (input - 1)));
    EXPECT_EQ(outcome.difference->action, action);
    EXPECT_THAT(outcome.difference->what, HasSubstr(what));
    EXPECT_THAT(outcome.difference->recorded, HasSubstr(recorded));
    EXPECT_THAT(outcome.difference->replayed, HasSubstr(replayed));
    EXPECT_EQ(outcome.difference->recorded.empty(), recorded.empty());
    EXPECT_EQ(outcome.difference->replayed.empty(), replayed.empty());
  }
}

// Takes its steps right, but for one bit of a parameter, or of the loss.
class Off final : public Learner {
 public:
  explicit Off(bool loss) : loss_(loss) {}
  std::shared_ptr<const Layout> layout() const override { return inner_.layout(); }
  std::span<float> params() override { return inner_.params(); }
  std::span<float> grads() override { return inner_.grads(); }
  Result<StepResult> step(const Work& work) override {
    auto result = inner_.step(work);
    if (loss_) result->loss = std::nextafter(result->loss, 100.);
    if (!loss_) params()[5] = std::nextafter(params()[5], 100.f);
    return result;
  }
  void state(Archive& ar) override { inner_.state(ar); }

 private:
  const bool loss_;
  Quadratic inner_ = quadratic();
};

// A learner that computes other bits is refused at its first step, and both CPUs are named.
TEST(Replay, ALearnerOfOtherBitsIsRefused) {
  for (Mode mode : {Mode::hashes, Mode::full})
    for (bool loss : {false, true}) {
      Off learner(loss);
      const Outcome outcome = outcome_of(record_run(mode), {}, &learner);
      ASSERT_TRUE(outcome.refused);
      EXPECT_EQ(outcome.inputs, 1u);
      EXPECT_FALSE(outcome.difference);
      EXPECT_THAT(outcome.refused->what, AllOf(HasSubstr("input 2 (step done"),
                                               HasSubstr("the first CPU, here on the second CPU"),
                                               HasSubstr("--record=full")));
    }
  Off learner(true);
  const auto here = replay(record_run(Mode::hashes), {}, &learner, "the first CPU");
  ASSERT_TRUE(here && here->refused);
  EXPECT_THAT(here->refused->what, HasSubstr("the first CPU, as here"));
}

TEST(Replay, AnotherBeginningIsRefusedToo) {
  Quadratic moved = quadratic();
  moved.params()[1] = 3;
  const Outcome outcome = outcome_of(record_run(Mode::hashes), {}, &moved);
  ASSERT_TRUE(outcome.refused);
  EXPECT_THAT(outcome.refused->what, HasSubstr("before the first input"));
}

// The recording of a run that was resumed begins with the node and the learner as they were saved,
// in the midst of a step whose work nobody remembers.
TEST(Replay, ARunThatWasResumed) {
  const std::uint64_t rest = kInputs - 4;
  expect_same(outcome_of(record_run(Mode::full, true)), rest);
  Quadratic learner = quadratic();
  expect_same(outcome_of(record_run(Mode::hashes, true), {}, &learner), rest);
  const Outcome outcome = outcome_of(record_run(Mode::full, true), {.talks = true});
  ASSERT_TRUE(outcome.difference);
  EXPECT_EQ(outcome.difference->input, 1u);
}

// Killed at any byte, what is whole is replayed; the last input may lack its answer.
TEST(Replay, ATornRecordingIsReplayedAsFarAsItGoes) {
  const Buffer whole = record_run(Mode::full);
  std::uint64_t last = 0;
  std::size_t nothing = 0, unanswered = 0;
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const auto outcome = replay(std::span(whole).first(size));
    if (!outcome) {
      EXPECT_THAT(outcome.error().what,
                  ::testing::AnyOf(HasSubstr("not a recording"), HasSubstr("nothing to replay")));
      EXPECT_EQ(last, 0u);
      ++nothing;
      continue;
    }
    ASSERT_TRUE(outcome->ending) << size;
    EXPECT_NE(outcome->ending->kind, StreamEnd::Kind::damaged);
    EXPECT_LE(outcome->ending->offset, size);
    EXPECT_FALSE(outcome->difference || outcome->refused);
    EXPECT_GE(outcome->inputs, last);
    last = outcome->inputs;
    unanswered += outcome->unanswered;
  }
  EXPECT_EQ(last, kInputs) << "without its end entry";
  EXPECT_GT(nothing, 100u);
  EXPECT_GT(unanswered, kInputs * 25);
}

TEST(Replay, AFlippedBitIsLocatedOrRefused) {
  const Buffer whole = record_run(Mode::full);
  for (std::size_t i = 0; i < whole.size(); ++i) {
    Buffer bytes = whole;
    bytes[i] ^= std::byte(1u << (i % 8));
    const auto outcome = replay(bytes);
    if (!outcome) {
      EXPECT_THAT(outcome.error().what, HasSubstr("byte")) << i;
      continue;
    }
    ASSERT_TRUE(outcome->ending) << i;
    EXPECT_EQ(outcome->ending->kind, StreamEnd::Kind::damaged);
    EXPECT_LE(outcome->ending->offset, i);
    EXPECT_LT(i, outcome->ending->offset + outcome->ending->size);
    EXPECT_FALSE(outcome->difference || outcome->refused);
  }
}

// Sealed entries as no recorder writes them: said to be wrong, never fed to a machine that trusts
// its host.
class ForgedRecording {
 public:
  ForgedRecording() {
    add(head_);
    Quadratic learner = quadratic();
    initial_state_.vectors = LearnerVectors::of(&learner, Mode::full);
    add(initial_state_);
  }
  template <class Entry>
  void add(Entry& entry) {
    frames_.add(Entry::kType, encode(entry));
  }
  void input(Input input) {
    InputEntry entry{Time(1), std::move(input), initial_state_.vectors};
    add(entry);
  }
  Result<Outcome> result() {
    LH_CHECK(frames_.flush());
    return replay(sink_.bytes);
  }
  // As a true recording has it: the fourth entry.
  static AnswerEntry answer_to_start() {
    const Buffer bytes = record_run(Mode::full);
    MemorySource source(bytes);
    FrameReader reader(source);
    for (int i = 0; i < 3; ++i) LH_CHECK(reader.next());
    auto fourth = reader.next();
    LH_CHECK(fourth);
    return *decode<AnswerEntry>(std::get<Frame>(*fourth));
  }
  std::string impossible(Input in) {
    input(std::move(in));
    const auto outcome = result();
    if (!outcome || !outcome->difference) return "";
    EXPECT_EQ(outcome->difference->action, 0u);
    return outcome->difference->replayed;
  }
  MemorySink sink_;
  FrameWriter frames_{sink_};
  Header head_ = header(Mode::full);
  InitialState initial_state_;
};

TEST(Forged, InputsThatNoHostCouldGive) {
  Delivered empty{1, {}};
  empty.message.body = Payload::phantom(100);
  for (const auto& [input, why] : std::vector<std::pair<Input, std::string>>{
           {Stepped{}, "no step"},
           {TimerFired{Path().child(9), TimerId{1}}, "not set"},
           {Reachability{7, true}, "no such peer"},
           {Scored{1, {}}, "no score"},
           {Delivered{0, {}}, "itself"},
           {empty, "body"}})
    EXPECT_THAT(ForgedRecording().impossible(input), HasSubstr(why));
}

TEST(Forged, AnEndThatCountsOtherwise) {
  ForgedRecording forged;
  EndEntry end{5};
  forged.add(end);
  EXPECT_THAT(failure(forged.result()).what, HasSubstr("counts 5 inputs where there are 0"));
}

TEST(Forged, VectorsOfAnotherSize) {
  ForgedRecording forged;
  forged.input(Started{});
  AnswerEntry answer = forged.answer_to_start();
  forged.add(answer);
  forged.initial_state_.vectors.grads.resize(kSize + 1);
  forged.input(Stepped{});
  EXPECT_THAT(failure(forged.result()).what, HasSubstr("vectors of another size"));
}

TEST(Forged, ASecondStart) {
  ForgedRecording forged;
  forged.input(Started{});
  AnswerEntry answer = forged.answer_to_start();
  forged.add(answer);
  EXPECT_THAT(forged.impossible(Started{}), HasSubstr("started already"));
}

TEST(Header, AnyBytesAreAHeaderOrAnError) {
  Header h = header(Mode::full);
  const Buffer whole = encode(h);
  Frame frame{EntryType::header, 0, 12, 0, whole};
  ASSERT_TRUE(decode<Header>(frame));
  EXPECT_TRUE(same_layout(*decode<Header>(frame)->layout, *h.layout));
  for (std::size_t size = 0; size < whole.size(); ++size) {
    frame.payload.assign(whole.begin(), whole.begin() + std::ptrdiff_t(size));
    EXPECT_THAT(failure(decode<Header>(frame)).what, HasSubstr("entry 0 at byte 12"));
  }
  frame.type = EntryType::answer;
  EXPECT_THAT(decode<Header>(frame).error().what, HasSubstr("type 4 where type 1"));
}

TEST(HeaderDeathTest, ALayoutThatDoesNotTileIsAnError) {
  Header h = header(Mode::full);
  const Buffer whole = encode(h);
  // The offset of the only range is the first of the last numbers: offset, length, shape, role.
  Frame frame{EntryType::header, 0, 12, 0, whole};
  frame.payload[whole.size() - (8 + 8 + 8 + 8 + 1)] = std::byte{1};
  EXPECT_FALSE(decode<Header>(frame));
}

}  // namespace
}  // namespace longhaul::record
