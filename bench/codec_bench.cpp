// Speed of the codecs on one core, in bytes of fp32 values per second (bytes_per_second): a vector
// of 64 MiB, which no cache holds, in chunks of 64 Ki values, as transfers cut it. "feedback" is
// the codec inside error_feedback, settled after each vector. bench/codec_speed.py makes a table of
// it.
#include <cstring>
#include <vector>

#include <benchmark/benchmark.h>

#include "longhaul/base/rng.h"
#include "longhaul/codec/registry.h"

namespace longhaul::codec {
namespace {

constexpr std::uint64_t kChunk = 65536;
constexpr std::uint64_t kLength = 256 * kChunk;

const std::vector<float>& normal_values() {
  static const std::vector<float> values = [] {
    Random random(7, {Purpose::test});
    std::vector<float> chunk(kChunk), all;
    for (float& value : chunk) value = float(random.normal());
    for (std::uint64_t at = 0; at < kLength; at += kChunk)
      all.insert(all.end(), chunk.begin(), chunk.end());
    return all;
  }();
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
  const std::vector<float>& values = normal_values();
  std::vector<float> out(kLength);
  for (auto _ : state) {
    for (std::uint64_t at = 0; at < kLength; at += kChunk) {
      std::memcpy(&out[at], &values[at], 4 * kChunk);
      benchmark::DoNotOptimize(out.data());
      benchmark::ClobberMemory();
    }
  }
  state.SetBytesProcessed(std::int64_t(state.iterations()) * std::int64_t(4 * kLength));
}

void encode(benchmark::State& state, const CodecEntry& entry, bool feedback) {
  const std::span<const float> values = normal_values();
  const auto codec = codec_of(entry, feedback);
  CodecKey key;
  std::size_t last = 0;
  for (auto _ : state) {
    for (std::uint64_t at = 0; at < kLength; at += kChunk) {
      const Buffer bytes = codec->encode(key, {at, kChunk}, values.subspan(at, kChunk));
      benchmark::DoNotOptimize(bytes.data());
      last = bytes.size();
    }
    codec->settle(key, Codec::Fate::delivered);
    ++key.round;
  }
  state.SetBytesProcessed(std::int64_t(state.iterations()) * std::int64_t(4 * kLength));
  state.counters["bytes_a_value"] = double(last) / double(kChunk);
}

void decode(benchmark::State& state, const CodecEntry& entry) {
  const auto codec = codec_of(entry, false);
  std::vector<Buffer> chunks;
  for (std::uint64_t at = 0; at < kLength; at += kChunk)
    chunks.push_back(
        codec->encode({}, {at, kChunk}, std::span(normal_values()).subspan(at, kChunk)));
  std::vector<float> out(kLength);
  for (auto _ : state) {
    for (std::uint64_t at = 0; at < kLength; at += kChunk)
      LH_CHECK(
          codec->decode({}, {at, kChunk}, chunks[at / kChunk], std::span(out).subspan(at, kChunk)));
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
