#pragma once
// Encoding of the significant updates of one range of the layout, as the smallest of three forms.
// The encoding of the indexes is ours (4 bytes, a bitmap). The job's codec writes the values.
#include "longhaul/core/coder.h"
#include "longhaul/core/vector_content.h"

namespace longhaul::sync::gaia {

// Changes by one clock of one sender in one range of the layout.
struct RangeUpdate {
  std::uint32_t range = 0;             // number of a layer of the layout
  std::uint64_t count = 0;             // number of values
  std::vector<std::uint32_t> indexes;  // offsets in the range, ascending; empty: all values
  std::vector<float> values;           // empty in a phantom job

  void state(Archive& ar) { ar(range, count, indexes, values); }
  friend bool operator==(const RangeUpdate&, const RangeUpdate&) = default;
};

// Returns the update with all values of its range, 0 where it has none.
RangeUpdate densely(const RangeUpdate&, std::uint64_t length);

// The smallest form is used; if equal, the first.
enum class Form : std::uint8_t {
  sparse,  // `count` indexes of 4 bytes, little endian, then the values
  bitmap,  // ceil(length / 8) bytes, the first index in the lowest bit, then the values
  dense    // all values of the range
};

// Returns the bytes of `count` values of a range of `length`. `coder` has the size of the values.
std::uint64_t bytes_of(Form, std::uint64_t count, std::uint64_t length, const Coder& coder,
                       Coding coding);
Form smallest_form(std::uint64_t count, std::uint64_t length, const Coder&, Coding);

// Origin of the values. A codec can round each vector in its own way.
struct UpdateKey {
  Round clock = 0;
  Rank origin = 0;
};

// Encodes in this form. Values must be finite. The form must be dense if the update has all values
// of its range.
VectorContent encode(const RangeUpdate&, Form, std::uint64_t length, const UpdateKey&, Coding,
                     Coder&);

// Returns the smallest form of indexes alone. Dense has no body and means the whole range. In a
// phantom job the body has only a size.
Form index_form(std::uint64_t count, std::uint64_t length);
VectorContent encode_indexes(const std::vector<std::uint32_t>&, Form, std::uint64_t count,
                             std::uint64_t length);
Status check_index_shape(Form, std::uint64_t count, std::uint64_t length, const ContentShape&);
// Returns Malformed as decode() does. The result is empty for the whole range, or in a phantom job.
Result<std::vector<std::uint32_t>> decode_indexes(Form, std::uint64_t count, std::uint64_t length,
                                                  const VectorContent&);

// Checks the shape before the values, which bounds the memory. Returns Malformed if it is
// impossible.
Status check_shape(Form, std::uint64_t count, std::uint64_t length, const ContentShape&,
                   const Coder&, Coding);
// Decodes bytes from a peer, in a checked shape. Returns Malformed for an index outside the range,
// out of order or repeated, a bitmap with another number of bits, or bad values.
Result<RangeUpdate> decode(std::uint32_t range, Form, std::uint64_t count, std::uint64_t length,
                           const VectorContent&, const UpdateKey&, Coding, const Coder&);

}  // namespace longhaul::sync::gaia
