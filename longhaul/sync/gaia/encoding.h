#pragma once
// How the significant updates of one range of the layout travel: as the smallest of three forms.
// The indexes are ours (4 bytes, a bitmap); the values are written by the job's codec.
#include "longhaul/core/coder.h"
#include "longhaul/core/vector_content.h"

namespace longhaul::sync::gaia {

// What a clock of one sender changed in one range of the layout.
struct RangeUpdate {
  std::uint32_t range = 0;             // a layer of the layout, by number
  std::uint64_t count = 0;             // of values
  std::vector<std::uint32_t> indexes;  // from the begin of the range, ascending; empty: all values
  std::vector<float> values;           // a phantom's are empty

  void state(Archive& ar) { ar(range, count, indexes, values); }
  friend bool operator==(const RangeUpdate&, const RangeUpdate&) = default;
};

// The update with all values of its range, 0 where it has none.
RangeUpdate densely(const RangeUpdate&, std::uint64_t length);

// Of equally small ones the first.
enum class Form : std::uint8_t {
  sparse,  // `count` indexes of 4 bytes, little endian, then the values
  bitmap,  // ceil(length / 8) bytes, the first index in the lowest bit, then the values
  dense    // all values of the range
};

// Of a range of `length` values, `count` of which are sent. `coder` tells the bytes of values.
std::uint64_t bytes_of(Form, std::uint64_t count, std::uint64_t length, const Coder& coder,
                       Coding coding);
Form smallest_form(std::uint64_t count, std::uint64_t length, const Coder&, Coding);

// Whose values are written: a codec may round each vector in its own way.
struct UpdateKey {
  Round clock = 0;
  Rank origin = 0;
};

// In this form. Values are finite; the form is dense where the update has all values of its range.
VectorContent encode(const RangeUpdate&, Form, std::uint64_t length, const UpdateKey&, Coding,
                     Coder&);

// Indexes alone, in a form in which they are few bytes: dense, without a body, where all of the
// range are meant. Of a phantom the body has a size alone.
Form index_form(std::uint64_t count, std::uint64_t length);
VectorContent encode_indexes(const std::vector<std::uint32_t>&, Form, std::uint64_t count,
                             std::uint64_t length);
Status check_index_shape(Form, std::uint64_t count, std::uint64_t length, const ContentShape&);
// Malformed as decode() says. Empty: all, or a phantom's.
Result<std::vector<std::uint32_t>> decode_indexes(Form, std::uint64_t count, std::uint64_t length,
                                                  const VectorContent&);

// What comes before the numbers: enough to bound the memory. Malformed: it cannot be genuine.
Status check_shape(Form, std::uint64_t count, std::uint64_t length, const ContentShape&,
                   const Coder&, Coding);
// Bytes come from a peer, in the shape that was checked. Malformed: an index that is outside of the
// range, out of order or there twice, a bitmap with another number of bits, or bad values.
Result<RangeUpdate> decode(std::uint32_t range, Form, std::uint64_t count, std::uint64_t length,
                           const VectorContent&, const UpdateKey&, Coding, const Coder&);

}  // namespace longhaul::sync::gaia
