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

template <class T>
bool all_elements(std::span<const std::byte> bytes, bool (*is_right)(const T&, const ContentShape&),
                  const ContentShape& shape) {
  for (std::size_t at = 0; at + sizeof(T) <= bytes.size(); at += sizeof(T)) {
    T element;
    std::memcpy(&element, bytes.data() + at, sizeof element);
    if (!is_right(element, shape)) return false;
  }
  return true;
}

}  // namespace

Status check_elements(const ContentShape& shape, std::span<const std::byte> bytes) {
  if (shape.kind == ContentKind::doubles &&
      !all_elements<double>(
          bytes, [](const double& v, const ContentShape&) { return std::isfinite(v); }, shape))
    return malformed("piece with a value that is not finite");
  if (shape.kind == ContentKind::indexed &&
      !all_elements<IndexedValue>(
          bytes,
          [](const IndexedValue& pair, const ContentShape& of) {
            return pair.index < of.range.length && std::isfinite(pair.value);
          },
          shape))
    return malformed("piece with a pair that is outside of its range or not finite");
  return Ok{};
}

std::string_view to_string(ContentKind kind) {
  constexpr std::string_view kNames[] = {"nothing", "values", "fp64 values", "pairs", "bytes"};
  return kNames[std::size_t(kind)];
}

std::uint64_t ContentShape::bytes() const {
  switch (kind) {
    case ContentKind::none:
      return 0;
    case ContentKind::values:
      return size * sizeof(float);
    case ContentKind::doubles:
      return size * sizeof(double);
    case ContentKind::indexed:
      return size * sizeof(IndexedValue);
    case ContentKind::bytes:
      return size;
  }
  return 0;
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
  VectorContent content;
  content.shape_ = {ContentKind::values, range, range.length};
  content.values_ = std::move(values);
  return content;
}

VectorContent VectorContent::doubles(std::span<const double> values) {
  LH_CHECK(!values.empty());
  VectorContent content;
  content.shape_ = {ContentKind::doubles, {}, values.size()};
  content.bytes_ = bytes_of(values);
  return content;
}

VectorContent VectorContent::indexed(std::span<const IndexedValue> pairs, Range range) {
  LH_CHECK(!pairs.empty() && pairs.size() <= range.length);
  VectorContent content;
  content.shape_ = {ContentKind::indexed, range, pairs.size()};
  content.bytes_ = bytes_of(pairs);
  return content;
}

VectorContent VectorContent::bytes(Bytes bytes) {
  LH_CHECK(bytes && !bytes->empty());
  VectorContent content;
  content.shape_ = {ContentKind::bytes, {}, bytes->size()};
  content.bytes_ = std::move(bytes);
  return content;
}

VectorContent VectorContent::phantom(ContentShape shape) {
  VectorContent content;
  content.shape_ = shape;
  if (shape.kind == ContentKind::values)
    content.values_ = std::make_shared<const std::vector<float>>();
  return content;
}

VectorContent VectorContent::raw(ContentShape shape, Bytes bytes) {
  LH_CHECK(bytes && bytes->size() == shape.bytes());
  VectorContent content;
  content.shape_ = shape;
  content.bytes_ = std::move(bytes);
  return content;
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
