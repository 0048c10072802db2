#include "longhaul/core/vector_content.h"

#include <cmath>
#include <cstring>

#include "longhaul/core/codec.h"

namespace longhaul {
namespace {

template <class T>
Bytes bytes_of(std::span<const T> elements) {
  Buffer buffer(elements.size_bytes());
  if (!buffer.empty()) std::memcpy(buffer.data(), elements.data(), buffer.size());
  return share(std::move(buffer));
}

template <class T>
std::vector<T> elements_of(const Bytes& bytes, bool wanted) {
  std::vector<T> elements(bytes && wanted ? bytes->size() / sizeof(T) : 0);
  if (!elements.empty()) std::memcpy(elements.data(), bytes->data(), elements.size() * sizeof(T));
  return elements;
}

template <class T, class IsRight>
bool all_elements(std::span<const std::byte> bytes, IsRight&& is_right) {
  for (std::size_t at = 0; at + sizeof(T) <= bytes.size(); at += sizeof(T)) {
    T element;
    std::memcpy(&element, bytes.data() + at, sizeof element);
    if (!is_right(element)) return false;
  }
  return true;
}

}  // namespace

Status check_elements(const ContentShape& shape, std::span<const std::byte> bytes) {
  if (shape.kind == ContentKind::doubles &&
      !all_elements<double>(bytes, [](double value) { return std::isfinite(value); }))
    return malformed("piece with a value that is not finite");
  if (shape.kind == ContentKind::indexed &&
      !all_elements<IndexedValue>(bytes, [&](const IndexedValue& pair) {
        return pair.index < shape.range.length && std::isfinite(pair.value);
      }))
    return malformed("piece with a pair that is outside of its range or not finite");
  return Ok{};
}

std::string_view to_string(ContentKind kind) {
  constexpr std::string_view kNames[] = {"nothing", "values", "fp64 values", "pairs", "bytes"};
  return kNames[std::size_t(kind)];
}

std::uint64_t ContentShape::bytes() const {
  constexpr std::uint64_t kSizes[] = {0, sizeof(float), sizeof(double), sizeof(IndexedValue), 1};
  return size * kSizes[std::size_t(kind)];
}

std::uint64_t ContentShape::words() const { return (bytes() + 3) / 4; }

Status ContentShape::check(const Layout& layout) const {
  const bool has_range = kind == ContentKind::values || kind == ContentKind::indexed;
  const auto refused = [&](std::string_view why) {
    return malformed("a vector of " + std::to_string(size) + " " + std::string(to_string(kind)) +
                     " " + std::string(why));
  };
  if (kind > ContentKind::bytes) return malformed("a vector of an unknown kind");
  if ((kind == ContentKind::none) != (size == 0)) return refused("where its kind says otherwise");
  if (!has_range && range != Range{}) return refused("with a range, which it has none of");
  if (has_range && (range.length == 0 || range.length > layout.size() ||
                    range.offset > layout.size() - range.length))
    return refused("outside of the layout");
  if (kind == ContentKind::values && size != range.length) return refused("in a range of others");
  if (kind == ContentKind::indexed && size > range.length) return refused("in a shorter range");
  return Ok{};
}

VectorContent VectorContent::values(Snapshot values, Range range) {
  LH_CHECK(values && range.length > 0);
  LH_CHECK(values->empty() || values->size() == range.length);
  return {{ContentKind::values, range, range.length}, std::move(values), nullptr};
}

VectorContent VectorContent::doubles(std::span<const double> values) {
  LH_CHECK(!values.empty());
  return {{ContentKind::doubles, {}, values.size()}, nullptr, bytes_of(values)};
}

VectorContent VectorContent::indexed(std::span<const IndexedValue> pairs, Range range) {
  LH_CHECK(!pairs.empty() && pairs.size() <= range.length);
  return {{ContentKind::indexed, range, pairs.size()}, nullptr, bytes_of(pairs)};
}

VectorContent VectorContent::bytes(Bytes bytes) {
  LH_CHECK(bytes && !bytes->empty());
  const ContentShape shape{ContentKind::bytes, {}, bytes->size()};
  return {shape, nullptr, std::move(bytes)};
}

VectorContent VectorContent::phantom(ContentShape shape) {
  const bool is_values = shape.kind == ContentKind::values;
  return {shape, is_values ? std::make_shared<const std::vector<float>>() : nullptr, nullptr};
}

VectorContent VectorContent::raw(ContentShape shape, Bytes bytes) {
  LH_CHECK(bytes && bytes->size() == shape.bytes());
  return {shape, nullptr, std::move(bytes)};
}

std::vector<double> VectorContent::doubles() const {
  return elements_of<double>(bytes_, kind() == ContentKind::doubles);
}

std::vector<IndexedValue> VectorContent::indexed() const {
  return elements_of<IndexedValue>(bytes_, kind() == ContentKind::indexed);
}

bool VectorContent::is_finite() const {
  return (!values_ || all_finite(*values_)) && (!bytes_ || check_elements(shape_, *bytes_));
}

void VectorContent::state(Archive& ar) {
  ar(shape_, bytes_);
  archive_snapshot(ar, values_);
  if (!ar.loading() || ar.failed()) return;
  if (shape_.kind > ContentKind::bytes) return ar.fail("holds a vector of an unknown kind");
  const std::uint64_t numbers = values_ ? values_->size() : 0;
  const bool fits = (!bytes_ || bytes_->size() == shape_.bytes()) &&
                    (numbers == 0 || numbers == shape_.size) &&
                    (values_ != nullptr) == (kind() == ContentKind::values);
  if (!fits) ar.fail("holds a vector that is not of its size");
}

}  // namespace longhaul
