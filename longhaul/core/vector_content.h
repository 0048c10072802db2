#pragma once
// VectorContent is what one message of a VectorChannel carries beside its header: values of the
// layout, a list of fp64 values, a list of (index, value) pairs, opaque bytes, or nothing. A
// phantom job has the sizes and no numbers. Contents are immutable and shared: copies are cheap.
#include <span>
#include <string_view>
#include <vector>

#include "longhaul/base/archive.h"
#include "longhaul/core/layout.h"
#include "longhaul/core/work.h"

namespace longhaul {

struct IndexedValue {
  std::uint32_t index = 0;  // from the begin of the shape's range
  float value = 0;
  friend bool operator==(const IndexedValue&, const IndexedValue&) = default;
};
static_assert(sizeof(IndexedValue) == 8);  // copied to and from the wire as it stands

enum class ContentKind : std::uint8_t {
  none,
  values,   // of a range of the layout: coded by the channel's codec; buffers as fp32
  doubles,  // fp64, exact
  indexed,  // (index, fp32) pairs into a range of the layout, exact
  bytes     // whatever the strategy writes: factors, state
};
std::string_view to_string(ContentKind);

// What a receiver hears before any number: enough to bound the memory and to decide.
struct ContentShape {
  ContentKind kind = ContentKind::none;
  Range range;             // values, indexed: of the layout
  std::uint64_t size = 0;  // values, pairs or bytes

  friend bool operator==(const ContentShape&, const ContentShape&) = default;
  std::uint64_t bytes() const;  // in memory
  std::uint64_t words() const;  // of four bytes, as exact contents travel
  // Malformed: a peer describes what cannot be.
  Status check(const Layout&) const;
  LONGHAUL_FIELDS((kind, .max = 4), range, (size, .doc = "values, pairs or bytes", .max = 0x1p43))
};

// Malformed: of these elements of a content, which are whole, one is not finite or stands outside.
Status check_elements(const ContentShape&, std::span<const std::byte> elements);

class VectorContent {
 public:
  VectorContent() = default;  // none
  // `values`: of `range`, in layout order; empty in a phantom job.
  static VectorContent values(Snapshot values, Range range);
  static VectorContent doubles(std::span<const double>);
  static VectorContent indexed(std::span<const IndexedValue>, Range range);
  static VectorContent bytes(Bytes);
  // Of a phantom job: a size without numbers.
  static VectorContent phantom(ContentShape);
  // What came: `bytes` are the doubles, pairs or bytes of `shape`, shape.bytes() of them.
  static VectorContent raw(ContentShape, Bytes);

  const ContentShape& shape() const { return shape_; }
  ContentKind kind() const { return shape_.kind; }
  // The one of `kind`; the others are empty. A phantom's are all empty.
  const Snapshot& values() const { return values_; }
  std::vector<double> doubles() const;
  std::vector<IndexedValue> indexed() const;
  const Bytes& bytes() const { return bytes_; }
  // All numbers are; a phantom has none, and opaque bytes are their owner's to check.
  bool is_finite() const;
  void state(Archive&);

 private:
  VectorContent(ContentShape shape, Snapshot values, Bytes bytes)
      : shape_(shape), values_(std::move(values)), bytes_(std::move(bytes)) {}

  ContentShape shape_;
  Snapshot values_;
  Bytes bytes_;  // of doubles, pairs and bytes
};

}  // namespace longhaul
