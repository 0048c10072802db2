#include "longhaul/record/testing/script.h"

#include <functional>

#include "longhaul/record/recorder.h"
#include "longhaul/record/testing/memory.h"

namespace longhaul::record::testing {

using longhaul::testing::Quadratic;

namespace {

struct Word {
  static constexpr std::uint16_t kKind = 1;
  static constexpr std::string_view kName = "word";
  double value = 0;
  LONGHAUL_FIELDS(value)
};

Message word(double value) {
  Message m;
  m.machine = Path().child(2);
  m.kind = Word::kKind;
  m.head = Payload(share(to_wire(Word{value})));
  return m;
}

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

}  // namespace

void Scripted::on_start(Turn& turn) {
  turn.set_timer(*this, TimerId{1}, variation_.timer);
  turn.compute(LocalStep{}, 100);
}

void Scripted::on_step(const StepResult& result, Turn& turn) {
  ++steps_;
  for (float& x : turn.params()) x += variation_.pull * (1 - x);
  turn.record("loss", steps_, result.loss);
  turn.report(steps_, nullptr);
}

Status Scripted::on_message(Rank from, const Message& message, Turn& turn) {
  return dispatch(MessageList<Word>{}, message, [&](const Word& said) -> Status {
    if (variation_.silent) return Ok{};
    turn.send(from, word(said.value + double(steps_)));
    if (variation_.talks) turn.record("said", steps_, 1);
    return Ok{};
  });
}

void Scripted::on_timer(TimerId, Turn& turn) { turn.send(2, word(-1), {.priority = 6}); }
void Scripted::on_writable(Rank peer, Turn& turn) { turn.record("room", peer, 1); }
void Scripted::on_scored(Round round, const Evaluation& e, Turn& turn) {
  turn.record("scored", round, e.loss);
}

Place place() {
  Place p;
  p.members = std::make_shared<const Members>(Members{{"lima"}, {"oslo"}, {"rome"}});
  p.layout = Layout::flat(kSize);
  return p;
}

Quadratic quadratic(float target) { return Quadratic(kSize, {.target = target}); }

Header header(Mode mode) {
  Header h;
  h.cpu = "the first CPU";
  h.job = "[job]\n";
  h.job_hash = 17;
  h.mode = mode;
  h.nodes = 3;
  h.site = "lima";
  h.learner = true;
  h.layout = place().layout;
  return h;
}

Buffer record_run(Mode mode, bool resumed) {
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

}  // namespace longhaul::record::testing
