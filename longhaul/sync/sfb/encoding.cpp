#include "longhaul/sync/sfb/encoding.h"

#include <bit>
#include <cstring>

namespace longhaul::sync::sfb {
namespace {

constexpr std::uint64_t kPairBytes = sizeof(IndexedValue), kSpan = 1024;

// u and v of one part are two vectors to a codec.
CodecKey key_of(const FactorsHeader& header, bool is_v) {
  return {{.round = header.clock, .group = 0, .range = 2 * header.part + (is_v ? 1 : 0)},
          header.origin};
}

std::uint64_t coded_bytes(const Coder& coder, std::uint64_t length) {
  return coder.size(Coding::up, {0, length});
}

VectorContent content_of(bool phantom, std::uint64_t size, const Payload& first,
                         const Payload& second) {
  if (phantom) return VectorContent::phantom({ContentKind::bytes, {}, size});
  Buffer bytes;
  bytes.reserve(size);
  for (const Payload* part : {&first, &second})
    bytes.insert(bytes.end(), part->view().begin(), part->view().end());
  return VectorContent::bytes(share(std::move(bytes)));
}

// Returns the values with any bit set, including -0, so that decoding restores v exactly.
std::vector<IndexedValue> pairs_of(std::span<const float> values) {
  std::vector<IndexedValue> pairs;
  for (std::size_t i = 0; i < values.size(); ++i)
    if (std::bit_cast<std::uint32_t>(values[i]) != 0)
      pairs.push_back({std::uint32_t(i), values[i]});
  return pairs;
}

Result<std::vector<float>> from_pairs(std::span<const std::byte> bytes, std::uint64_t length) {
  std::vector<float> values(length);
  std::uint64_t next = 0;
  for (std::size_t at = 0; at < bytes.size(); at += kPairBytes) {
    IndexedValue pair;
    std::memcpy(&pair, bytes.data() + at, kPairBytes);
    if (pair.index < next || pair.index >= length)
      return malformed("pairs of v whose indexes do not ascend");
    next = std::uint64_t(pair.index) + 1;
    values[pair.index] = pair.value;
  }
  if (!all_finite(values)) return malformed("a factor with a value that is not finite");
  return values;
}

}  // namespace

bool is_exact(const Coder& coder) { return coded_bytes(coder, kSpan) == kSpan * sizeof(float); }

Status check_size(const FactorsHeader& header, std::uint64_t bytes, const Parts& parts,
                  std::uint32_t most_rows, const Coder& coder) {
  const auto& layers = parts.layers();
  const auto refused = [&] {
    return malformed("part " + std::to_string(header.part) + " of " + std::to_string(bytes) +
                     " bytes, which its header does not allow");
  };
  if (header.part == layers.size() && parts.rest_length() > 0) {
    if (header.rows != 0 || header.sparse) return malformed("factors where the rest is named");
    return bytes > 0 && bytes <= coded_bytes(coder, parts.rest_length()) ? Status(Ok{}) : refused();
  }
  if (header.part >= layers.size())
    return malformed("part " + std::to_string(header.part) + ", which this model has not");
  if (header.rows < 1 || header.rows > most_rows)
    return malformed("factors of " + std::to_string(header.rows) + " rows, where a step has 1 to " +
                     std::to_string(most_rows));
  const FactorLayer& layer = layers[header.part];
  const std::uint64_t of_v = header.rows * layer.in;
  if (header.u_bytes > coded_bytes(coder, header.rows * layer.out) || header.u_bytes > bytes)
    return refused();
  const std::uint64_t left = bytes - header.u_bytes;
  if (!header.sparse) return left <= coded_bytes(coder, of_v) ? Status(Ok{}) : refused();
  if (!is_exact(coder) || 2 * header.pairs >= of_v || left != header.pairs * kPairBytes)
    return malformed("a sparse v that is none");
  return Ok{};
}

VectorContent encode(FactorsHeader& header, const FactorLayer& layer, const Factors& factors,
                     bool sparse_v, Coder& coder) {
  const std::uint64_t of_u = header.rows * layer.out, of_v = header.rows * layer.in;
  const bool phantom = factors.u.empty();
  const Payload u = coder.write(key_of(header, false), Coding::up, {0, of_u}, factors.u);
  header.u_bytes = u.size();
  if (sparse_v && !phantom && is_exact(coder) && of_v <= 0xFFFFFFFF) {
    const auto pairs = pairs_of(factors.v);
    header.sparse = 2 * pairs.size() < of_v;
    header.pairs = header.sparse ? pairs.size() : 0;
    if (header.sparse) {
      Buffer bytes(pairs.size() * kPairBytes);
      if (!bytes.empty()) std::memcpy(bytes.data(), pairs.data(), bytes.size());
      return content_of(false, u.size() + bytes.size(), u, Payload(share(std::move(bytes))));
    }
  }
  const Payload v = coder.write(key_of(header, true), Coding::up, {0, of_v}, factors.v);
  return content_of(phantom, u.size() + v.size(), u, v);
}

VectorContent encode(const FactorsHeader& header, std::span<const float> rest, std::uint64_t length,
                     Coder& coder) {
  const Payload bytes = coder.write(key_of(header, false), Coding::up, {0, length}, rest);
  return content_of(rest.empty(), bytes.size(), bytes, {});
}

Result<Factors> decode(const FactorsHeader& header, const FactorLayer& layer,
                       const VectorContent& content, const Coder& coder) {
  if (!content.bytes()) return Factors{};  // a phantom's
  const std::uint64_t of_u = header.rows * layer.out, of_v = header.rows * layer.in;
  const std::size_t first = header.u_bytes;
  const Payload all(content.bytes());
  auto u = coder.read(key_of(header, false), Coding::up, {0, of_u}, all.slice(0, first));
  if (!u) return u.error();
  const Payload rest = all.slice(first, all.size() - first);
  auto v = header.sparse ? from_pairs(rest.view(), of_v)
                         : coder.read(key_of(header, true), Coding::up, {0, of_v}, rest);
  if (!v) return v.error();
  return Factors{*std::move(u), *std::move(v)};
}

Result<std::vector<float>> decode(const FactorsHeader& header, std::uint64_t length,
                                  const VectorContent& content, const Coder& coder) {
  if (!content.bytes()) return std::vector<float>{};
  return coder.read(key_of(header, false), Coding::up, {0, length}, Payload(content.bytes()));
}

}  // namespace longhaul::sync::sfb
