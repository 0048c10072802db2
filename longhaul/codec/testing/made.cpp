#include "longhaul/codec/testing/made.h"

#include <algorithm>
#include <cstdio>

#include "longhaul/base/rng.h"

namespace longhaul::codec::made {

Settings table_of(std::string_view kind, std::vector<Setting> keys) {
  Settings settings{.table = "codec", .file = "job.toml", .line = 1, .entries = std::move(keys)};
  settings.set({"kind", {std::string(kind)}, "job.toml", 2});
  return settings;
}

const CodecEntry& entry_named(std::string_view kind) {
  const auto all = registry();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const auto& e) { return e.name == kind; });
  LH_CHECK(found != all.end());
  return *found;
}

std::vector<Setting> without_feedback(std::vector<Setting> keys) {
  keys.push_back({"error_feedback", {false}, "job.toml", 3});
  return keys;
}

std::unique_ptr<Codec> plain(std::string_view kind, std::vector<Setting> keys, std::uint64_t seed,
                             CodecUse use) {
  Place place;
  place.seed = seed;
  return plain(kind, std::move(keys), place, use);
}

std::unique_ptr<Codec> plain(std::string_view kind, std::vector<Setting> keys, const Place& place,
                             CodecUse use) {
  auto made = entry_named(kind).make(table_of(kind, std::move(keys)), place, use);
  if (!made) std::fprintf(stderr, "%s\n", made.error().what.c_str());
  LH_CHECK(made);
  return *std::move(made);
}

std::unique_ptr<Codec> contributing(std::string_view kind, std::vector<Setting> keys) {
  auto made = make_codec(table_of(kind, std::move(keys)), Place{}, true);
  LH_CHECK(made);
  return *std::move(made);
}

std::string refusal(std::string_view kind, std::vector<Setting> keys) {
  const auto made = make_codec(table_of(kind, std::move(keys)), Place{}, true);
  return made ? "" : made.error().what;
}

std::vector<float> sent(Codec& codec, const std::vector<float>& values, const CodecKey& key,
                        std::uint64_t offset) {
  const Range at{offset, values.size()};
  std::vector<float> out(values.size(), 12345.f);
  const Buffer bytes = codec.encode(key, at, values);
  LH_CHECK(bytes.size() <= codec.encoded_size(values.size()));
  const Status read = codec.decode(key, at, bytes, out);
  if (!read) std::fprintf(stderr, "%s\n", read.error().what.c_str());
  LH_CHECK(read);
  return out;
}

std::vector<float> normal_values(std::size_t count, std::uint64_t seed, double size) {
  Random random(seed, {Purpose::test});
  std::vector<float> values(count);
  for (float& value : values) value = float(size * random.normal());
  return values;
}

double squared(std::span<const float> values) {
  double sum = 0;
  for (const float value : values) sum += double(value) * double(value);
  return sum;
}

double squared_distance(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double d = double(a[i]) - double(b[i]);
    sum += d * d;
  }
  return sum;
}

}  // namespace longhaul::codec::made
