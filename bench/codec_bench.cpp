// Speed of the codecs on one core, in bytes of fp32 values per second (bytes_per_second), for one
// chunk of 64 Ki values. "feedback" is the codec inside error_feedback, settled every time.
// bench/codec_speed.py makes a table of it.
#include <cstring>
#include <vector>

#include <benchmark/benchmark.h>

#include "longhaul/base/rng.h"
#include "longhaul/codec/registry.h"

namespace longhaul::codec {
namespace {

constexpr std::uint64_t kLength = 65536;

std::vector<float> normal_values() {
  Random random(7, {Purpose::test});
  std::vector<float> values(kLength);
  for (float& value : values) value = float(random.normal());
  return values;
}

std::unique_ptr<Codec> codec_of(const CodecEntry& entry, bool feedback) {
  Settings settings{.table = "codec", .file = "bench", .line = 0, .entries = {}};
  settings.set({"kind", {std::string(entry.name)}, "bench", 0});
  settings.set({"error_feedback", {feedback}, "bench", 0});
  return *make_codec(settings, Place{}, true);
}

// What the others are measured against.
void copy(benchmark::State& state) {
  const std::vector<float> values = normal_values();
  std::vector<float> out(kLength);
  for (auto _ : state) {
    std::memcpy(out.data(), values.data(), 4 * kLength);
    benchmark::DoNotOptimize(out.data());
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(std::int64_t(state.iterations()) * std::int64_t(4 * kLength));
}

void encode(benchmark::State& state, const CodecEntry& entry, bool feedback) {
  const std::vector<float> values = normal_values();
  const auto codec = codec_of(entry, feedback);
  CodecKey key;
  for (auto _ : state) {
    benchmark::DoNotOptimize(codec->encode(key, {0, kLength}, values).data());
    codec->settle(key, Codec::Fate::delivered);
    ++key.round;
  }
  state.SetBytesProcessed(std::int64_t(state.iterations()) * std::int64_t(4 * kLength));
  const Buffer last = codec->encode(key, {0, kLength}, values);
  state.counters["bytes_a_value"] = double(last.size()) / double(kLength);
}

void decode(benchmark::State& state, const CodecEntry& entry) {
  const auto codec = codec_of(entry, false);
  const Buffer bytes = codec->encode({}, {0, kLength}, normal_values());
  std::vector<float> out(kLength);
  for (auto _ : state) {
    LH_CHECK(codec->decode({}, {0, kLength}, bytes, out));
    benchmark::DoNotOptimize(out.data());
  }
  state.SetBytesProcessed(std::int64_t(state.iterations()) * std::int64_t(4 * kLength));
}

}  // namespace
}  // namespace longhaul::codec

int main(int argc, char** argv) {
  using namespace longhaul::codec;
  benchmark::RegisterBenchmark("memcpy", copy);
  for (const auto& entry : registry()) {
    const std::string name(entry.name);
    benchmark::RegisterBenchmark(("encode/" + name).c_str(), encode, entry, false);
    benchmark::RegisterBenchmark(("decode/" + name).c_str(), decode, entry);
    if (!refuses_feedback(entry))
      benchmark::RegisterBenchmark(("encode/feedback/" + name).c_str(), encode, entry, true);
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
