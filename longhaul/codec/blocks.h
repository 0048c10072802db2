#pragma once
// A codec that cuts a range into blocks of fixed length (the last may be shorter) and writes each
// block by itself: scales, then packed values.
#include <algorithm>
#include <cfloat>

#include "longhaul/codec/bytes_check.h"

namespace longhaul::codec {

class BlockCodec : public Codec {
 public:
  BlockCodec(std::string_view name, std::size_t block) : name_(name), block_(block) {}

  std::size_t encoded_size(std::size_t length) const final {
    return length / block_ * block_bytes(block_) +
           (length % block_ != 0 ? block_bytes(length % block_) : 0);
  }

  Buffer encode(const CodecKey& key, Range at, std::span<const float> values) final {
    LH_CHECK(values.size() == at.length && all_finite(values));
    Buffer bytes;
    bytes.reserve(encoded_size(values.size()));
    for (std::size_t done = 0; done < values.size(); done += block_)
      write_block(key, at.offset + done,
                  values.subspan(done, std::min(block_, values.size() - done)), bytes);
    return bytes;
  }

  Status decode(const CodecKey&, Range at, std::span<const std::byte> in,
                std::span<float> out) const final {
    LH_CHECK(out.size() == at.length);
    LH_TRY(expect_size(name_, at, in.size(), encoded_size(out.size())));
    Cursor cursor(in);
    for (std::size_t done = 0; done < out.size(); done += block_) {
      const std::string_view wrong =
          read_block(cursor, out.subspan(done, std::min(block_, out.size() - done)));
      if (!wrong.empty()) return bad_value(name_, at.offset + done, wrong);
    }
    return Ok{};
  }

 protected:
  virtual std::size_t block_bytes(std::size_t count) const = 0;  // bytes of `count` values
  // Appends block_bytes(values.size()) bytes to `out`. `first`: the place of values[0].
  virtual void write_block(const CodecKey&, std::uint64_t first, std::span<const float> values,
                           Buffer& out) = 0;
  // Reads a block; `in` holds at least its bytes. Returns the fault of the bytes, or "".
  virtual std::string_view read_block(Cursor& in, std::span<float> out) const = 0;

  static bool is_scale(float value) { return value >= 0 && value <= FLT_MAX; }
  // `bytes` more bytes behind `out`, all 0.
  static std::byte* grow(Buffer& out, std::size_t bytes) {
    out.resize(out.size() + bytes);
    return out.data() + (out.size() - bytes);
  }

 private:
  const std::string_view name_;
  const std::size_t block_;
};

}  // namespace longhaul::codec
