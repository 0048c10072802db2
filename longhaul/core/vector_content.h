#pragma once
// VectorContent is the content of a VectorChannel's message, next to its header: values of the
// layout, fp64 values, (index, value) pairs, opaque bytes, or nothing. In a phantom job it has the
// sizes but no numbers. Contents are immutable and shared: copies are cheap.
#include <span>
#include <string_view>
#include <vector>

#include "longhaul/base/archive.h"
#include "longhaul/core/layout.h"
#include "longhaul/core/work.h"

namespace longhaul {

struct IndexedValue {
  std::uint32_t index = 0;  // relative to the start of the shape's range
  float value = 0;
  friend bool operator==(const IndexedValue&, const IndexedValue&) = default;
};
static_assert(sizeof(IndexedValue) == 8);  // copied to and from the wire unchanged

enum class ContentKind : std::uint8_t {
  none,
  values,   // range of the layout: coded by the channel's codec; buffers as fp32
  doubles,  // fp64, exact
  indexed,  // (index, fp32) pairs into a range of the layout, exact
  bytes     // opaque data of the strategy: factors, state
};
std::string_view to_string(ContentKind);

// Shape of a content, which a receiver gets before any number: it bounds the memory and allows a
// decision.
struct ContentShape {
  ContentKind kind = ContentKind::none;
  Range range;             // values, indexed: range of the layout
  std::uint64_t size = 0;  // values, pairs or bytes

  friend bool operator==(const ContentShape&, const ContentShape&) = default;
  std::uint64_t bytes() const;  // in memory
  std::uint64_t words() const;  // words of four bytes that exact contents take on the wire
  // Returns Malformed if the shape is impossible.
  Status check(const Layout&) const;
  LONGHAUL_FIELDS((kind, .max = 4), range, (size, .doc = "values, pairs or bytes", .max = 0x1p43))
};

// Returns Malformed if one of these whole elements is not finite or out of range.
Status check_elements(const ContentShape&, std::span<const std::byte> elements);

class VectorContent {
 public:
  VectorContent() = default;  // none
  // `values`: values of `range`, in layout order; empty in a phantom job.
  static VectorContent values(Snapshot values, Range range);
  static VectorContent doubles(std::span<const double>);
  static VectorContent indexed(std::span<const IndexedValue>, Range range);
  static VectorContent bytes(Bytes);
  // Returns the content of a phantom job: a size without numbers.
  static VectorContent phantom(ContentShape);
  // Returns a received content: `bytes` holds the doubles, pairs or bytes of `shape`.
  static VectorContent raw(ContentShape, Bytes);

  const ContentShape& shape() const { return shape_; }
  ContentKind kind() const { return shape_.kind; }
  // Return the content of `kind`; other kinds, and all kinds in a phantom job, are empty.
  const Snapshot& values() const { return values_; }
  std::vector<double> doubles() const;
  std::vector<IndexedValue> indexed() const;
  const Bytes& bytes() const { return bytes_; }
  // Returns true if all numbers are finite. A phantom job has none; opaque bytes are checked by
  // their owner.
  bool is_finite() const;
  void state(Archive&);

 private:
  VectorContent(ContentShape shape, Snapshot values, Bytes bytes)
      : shape_(shape), values_(std::move(values)), bytes_(std::move(bytes)) {}

  ContentShape shape_;
  Snapshot values_;
  Bytes bytes_;  // doubles, pairs or bytes
};

}  // namespace longhaul
