// Recordings. The first byte says how the rest is read. 0: a file, entry by entry. 1 to 5: the
// payload of an entry of that type: a value or an error, and a value is written as the same bytes.
// 6: inputs, each behind its length; a node takes those that are possible.
#include <cstddef>
#include <cstdint>

#include "longhaul/record/replay_host.h"
#include "longhaul/record/testing/memory.h"

namespace longhaul::record {
namespace {

// Answers everything, so that a replay goes deep.
class Chatty final : public Strategy {
 public:
  void on_start(Turn& turn) override {
    turn.set_timer(*this, TimerId{1}, Time(5));
    turn.compute(LocalStep{}, 3);
    turn.report(1, nullptr);
  }
  void on_timer(TimerId id, Turn& turn) override { turn.set_timer(*this, id, turn.now()); }
  void on_scored(Round round, const Evaluation&, Turn& turn) override {
    turn.record("scored", round, 1);
  }
  Round rounds_done() const override { return 0; }
  std::string waiting_for() const override { return ""; }
};

class Still final : public Learner {
 public:
  std::shared_ptr<const Layout> layout() const override { return Layout::flat(3); }
  std::span<float> params() override { return params_; }
  std::span<float> grads() override { return params_; }
  Result<StepResult> step(const Work&) override { return StepResult{}; }
  void state(Archive& ar) override { ar.floats(params_); }

 private:
  std::vector<float> params_ = {1, 2, 3};
};

template <class Entry>
void round_trip(const Frame& frame) {
  auto entry = decode<Entry>(frame);
  if (!entry) return;
  Frame again = frame;
  again.payload = encode(*entry);
  auto twice = decode<Entry>(again);
  LH_CHECK(twice);
  LH_CHECK(encode(*twice) == again.payload);
}

void read_file(std::span<const std::byte> bytes) {
  record::testing::MemorySource source(bytes);
  FrameReader reader(source);
  for (;;) {
    const auto next = reader.next();
    if (!next || std::holds_alternative<StreamEnd>(*next)) return;
  }
}

// Two bytes of length, an input, and so on.
void feed(std::span<const std::byte> bytes) {
  Place place;
  place.members = std::make_shared<const Members>(Members{{"a"}, {"b"}});
  place.layout = Layout::flat(3);
  Still learner;
  ReplayHost host(/*fresh=*/true);
  Node node(place, std::make_unique<Chatty>(), &learner, host);
  node.tap(&host);
  while (bytes.size() >= 2) {
    const std::size_t length =
        std::min(std::size_t(bytes[0]) | std::size_t(bytes[1]) << 8, bytes.size() - 2);
    const auto payload = bytes.subspan(2, length);
    bytes = bytes.subspan(2 + length);
    const auto entry =
        decode<InputEntry>({EntryType::input, 0, 12, 0, Buffer(payload.begin(), payload.end())});
    if (entry && !host.impossible(entry->input, node)) (void)node.feed(entry->time, entry->input);
  }
}
}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const auto bytes = std::as_bytes(std::span(data, size)).subspan(1);
  const unsigned what = data[0] % 7u;
  Frame frame{EntryType(what), 0, 12, 0, Buffer(bytes.begin(), bytes.end())};
  if (what == 0) read_file(bytes);
  if (what == 1) round_trip<Header>(frame);
  if (what == 2) round_trip<InitialState>(frame);
  if (what == 3) round_trip<InputEntry>(frame);
  if (what == 4) round_trip<AnswerEntry>(frame);
  if (what == 5) round_trip<EndEntry>(frame);
  if (what == 6) feed(bytes);
  return 0;
}

}  // namespace longhaul::record
