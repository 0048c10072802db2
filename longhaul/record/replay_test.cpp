#include "longhaul/record/replay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "longhaul/record/recorder.h"
#include "longhaul/record/testing/memory.h"
#include "longhaul/record/testing/script.h"

namespace longhaul::record {
namespace {

using longhaul::testing::Quadratic;
using ::testing::AllOf;
using ::testing::HasSubstr;
using namespace testing;

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
  const auto outcome = replay(record_run(Mode::hashes));
  ASSERT_FALSE(outcome);
  EXPECT_THAT(outcome.error().what, HasSubstr("hashes only"));
}

// The first difference is named: which input, which action, what it was and what it is.
TEST(Replay, ADifferenceIsLocated) {
  const Buffer bytes = record_run(Mode::full);
  Outcome outcome = outcome_of(bytes, {.timer = Time(1001)});
  ASSERT_TRUE(outcome.difference);
  EXPECT_EQ(outcome.difference->input, 1u);
  EXPECT_EQ(outcome.difference->what, "start");
  EXPECT_EQ(outcome.difference->action, 1u);
  EXPECT_THAT(outcome.difference->recorded, HasSubstr("at 0.000001000 s"));
  EXPECT_THAT(outcome.difference->replayed, HasSubstr("at 0.000001001 s"));
  EXPECT_EQ(outcome.inputs, 0u);

  outcome = outcome_of(bytes, {.silent = true});  // an action that does not come
  ASSERT_TRUE(outcome.difference);
  EXPECT_EQ(outcome.difference->input, 3u);
  EXPECT_EQ(outcome.difference->time, Time(200));
  EXPECT_THAT(outcome.difference->what, HasSubstr("message from rank 1"));
  EXPECT_EQ(outcome.difference->action, 1u);
  EXPECT_THAT(outcome.difference->recorded, HasSubstr("message to rank 1"));
  EXPECT_EQ(outcome.difference->replayed, "");
  EXPECT_EQ(outcome.inputs, 2u);

  outcome = outcome_of(bytes, {.talks = true});  // one that comes in addition
  ASSERT_TRUE(outcome.difference);
  EXPECT_EQ(outcome.difference->input, 3u);
  EXPECT_EQ(outcome.difference->action, 2u);
  EXPECT_EQ(outcome.difference->recorded, "");
  EXPECT_THAT(outcome.difference->replayed, HasSubstr("record said"));

  // Other parameters, the same words: what the report shows and the next step begins with.
  outcome = outcome_of(bytes, {.pull = 0.25f});
  ASSERT_TRUE(outcome.difference);
  EXPECT_EQ(outcome.difference->input, 2u);
  EXPECT_EQ(outcome.difference->action, 3u);
  EXPECT_EQ(outcome.difference->recorded, outcome.difference->replayed);
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
class Forged : public ::testing::Test {
 protected:
  Forged() {
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

TEST_F(Forged, AStepThatNobodyAskedFor) {
  EXPECT_THAT(impossible(Stepped{}), HasSubstr("no step"));
}

TEST_F(Forged, ATimerOfNoMachine) {
  EXPECT_THAT(impossible(TimerFired{Path().child(9), TimerId{1}}), HasSubstr("not set"));
}

TEST_F(Forged, APeerThatIsNotThere) {
  EXPECT_THAT(impossible(Reachability{7, true}), HasSubstr("no such peer"));
}

TEST_F(Forged, AScoreThatNobodyAskedFor) {
  EXPECT_THAT(impossible(Scored{1, {}}), HasSubstr("no score"));
}

TEST_F(Forged, AMessageToItselfOrWithoutBytes) {
  EXPECT_THAT(impossible(Delivered{0, {}}), HasSubstr("itself"));
}

TEST_F(Forged, ABodyWithoutItsBytes) {
  Delivered delivered{1, {}};
  delivered.message.body = Payload::phantom(100);
  EXPECT_THAT(impossible(delivered), HasSubstr("body"));
}

TEST_F(Forged, AnEndThatCountsOtherwise) {
  EndEntry end{5};
  add(end);
  const auto outcome = result();
  ASSERT_FALSE(outcome);
  EXPECT_THAT(outcome.error().what, HasSubstr("counts 5 inputs where there are 0"));
}

TEST_F(Forged, VectorsOfAnotherSize) {
  input(Started{});
  AnswerEntry answer = answer_to_start();
  add(answer);
  initial_state_.vectors.grads.resize(kSize + 1);
  input(Stepped{});
  const auto outcome = result();
  ASSERT_FALSE(outcome);
  EXPECT_THAT(outcome.error().what, HasSubstr("vectors of another size"));
}

TEST_F(Forged, ASecondStart) {
  input(Started{});
  AnswerEntry answer = answer_to_start();
  add(answer);
  EXPECT_THAT(impossible(Started{}), HasSubstr("started already"));
}

TEST(Header, AnyBytesAreAHeaderOrAnError) {
  Header h = header(Mode::full);
  const Buffer whole = encode(h);
  Frame frame{EntryType::header, 0, 12, 0, whole};
  ASSERT_TRUE(decode<Header>(frame));
  EXPECT_TRUE(same_layout(*decode<Header>(frame)->layout, *h.layout));
  for (std::size_t size = 0; size < whole.size(); ++size) {
    frame.payload.assign(whole.begin(), whole.begin() + std::ptrdiff_t(size));
    const auto cut = decode<Header>(frame);
    ASSERT_FALSE(cut);
    EXPECT_THAT(cut.error().what, HasSubstr("entry 0 at byte 12"));
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
