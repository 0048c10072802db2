#include "longhaul/sync/gaia/encoding.h"

#include <algorithm>
#include <cstring>

namespace longhaul::sync::gaia {
namespace {

CodecKey codec_key(const UpdateKey& key, std::uint32_t range) {
  return {{.round = key.clock, .group = 0, .range = range}, key.origin};
}

std::uint64_t bytes_of_indexes(Form form, std::uint64_t count, std::uint64_t length) {
  if (form == Form::sparse) return sizeof(std::uint32_t) * count;
  return form == Form::bitmap ? (length + 7) / 8 : 0;
}

void write_indexes(Form form, const std::vector<std::uint32_t>& indexes,
                   std::span<std::byte> into) {
  if (form == Form::sparse) {
    std::memcpy(into.data(), indexes.data(), into.size());
  } else if (form == Form::bitmap) {
    for (const std::uint32_t i : indexes) into[i / 8] |= std::byte(1u << i % 8);
  }
}

Result<std::vector<std::uint32_t>> read_indexes(Form form, std::uint64_t count,
                                                std::uint64_t length,
                                                std::span<const std::byte> bytes) {
  std::vector<std::uint32_t> indexes;
  if (form == Form::sparse) {
    indexes.resize(count);
    std::memcpy(indexes.data(), bytes.data(), bytes.size());
    for (std::size_t i = 0; i < indexes.size(); ++i) {
      if (indexes[i] >= length)
        return malformed("index " + std::to_string(indexes[i]) + " of a range of " +
                         std::to_string(length));
      if (i > 0 && indexes[i] <= indexes[i - 1]) return malformed("indexes that are not ascending");
    }
  } else if (form == Form::bitmap) {
    for (std::uint64_t i = 0; i < 8 * bytes.size(); ++i) {
      if ((bytes[i / 8] & std::byte(1u << i % 8)) == std::byte(0)) continue;
      if (i >= length) return malformed("a bitmap that is longer than its range");
      indexes.push_back(std::uint32_t(i));
    }
    if (indexes.size() != count)
      return malformed("a bitmap of " + std::to_string(indexes.size()) + " values where " +
                       std::to_string(count) + " were announced");
  }
  return indexes;
}

}  // namespace

RangeUpdate densely(const RangeUpdate& update, std::uint64_t length) {
  RangeUpdate dense{.range = update.range, .count = length, .indexes = {}, .values = update.values};
  if (update.indexes.empty()) return dense;
  dense.values.assign(length, 0);
  for (std::size_t k = 0; k < update.indexes.size(); ++k)
    dense.values[update.indexes[k]] = update.values[k];
  return dense;
}

std::uint64_t bytes_of(Form form, std::uint64_t count, std::uint64_t length, const Coder& coder,
                       Coding coding) {
  return bytes_of_indexes(form, count, length) +
         coder.size(coding, {0, form == Form::dense ? length : count});
}

Form smallest_form(std::uint64_t count, std::uint64_t length, const Coder& coder, Coding coding) {
  return std::min({Form::sparse, Form::bitmap, Form::dense}, [&](Form a, Form b) {
    return bytes_of(a, count, length, coder, coding) < bytes_of(b, count, length, coder, coding);
  });
}

VectorContent encode(const RangeUpdate& update, Form form, std::uint64_t length,
                     const UpdateKey& key, Coding coding, Coder& coder) {
  const CodecKey of = codec_key(key, update.range);
  const Payload values = coder.write(of, coding, {0, update.count}, update.values);
  const std::uint64_t before = bytes_of_indexes(form, update.count, length);
  if (values.is_phantom())
    return VectorContent::phantom(
        {.kind = ContentKind::bytes, .range = {}, .size = before + values.size()});
  Buffer bytes(before + values.size());
  write_indexes(form, update.indexes, std::span(bytes).first(before));
  std::memcpy(bytes.data() + before, values.view().data(), values.size());
  coder.settle(of, coding, Codec::Fate::delivered);
  return VectorContent::bytes(share(std::move(bytes)));
}

Form index_form(std::uint64_t count, std::uint64_t length) {
  if (count == length) return Form::dense;
  return bytes_of_indexes(Form::sparse, count, length) <=
                 bytes_of_indexes(Form::bitmap, count, length)
             ? Form::sparse
             : Form::bitmap;
}

VectorContent encode_indexes(const std::vector<std::uint32_t>& indexes, Form form,
                             std::uint64_t count, std::uint64_t length) {
  const std::uint64_t size = bytes_of_indexes(form, count, length);
  if (size == 0) return {};
  if (indexes.empty())
    return VectorContent::phantom({.kind = ContentKind::bytes, .range = {}, .size = size});
  Buffer bytes(size);
  write_indexes(form, indexes, bytes);
  return VectorContent::bytes(share(std::move(bytes)));
}

Status check_index_shape(Form form, std::uint64_t count, std::uint64_t length,
                         const ContentShape& shape) {
  if (count == 0 || count > length || (form == Form::dense) != (count == length))
    return malformed("indexes of " + std::to_string(count) + " values of a range of " +
                     std::to_string(length));
  const std::uint64_t size = bytes_of_indexes(form, count, length);
  if (shape.kind != (size == 0 ? ContentKind::none : ContentKind::bytes) || shape.size != size)
    return malformed("indexes of " + std::to_string(shape.size) + " bytes where " +
                     std::to_string(size) + " are expected");
  return Ok{};
}

Result<std::vector<std::uint32_t>> decode_indexes(Form form, std::uint64_t count,
                                                  std::uint64_t length,
                                                  const VectorContent& content) {
  if (!content.bytes()) return std::vector<std::uint32_t>{};
  return read_indexes(form, count, length, *content.bytes());
}

Status check_shape(Form form, std::uint64_t count, std::uint64_t length, const ContentShape& shape,
                   const Coder& coder, Coding coding) {
  if (count == 0 || count > length || (form == Form::dense && count != length))
    return malformed("an update of " + std::to_string(count) + " values of a range of " +
                     std::to_string(length));
  const std::uint64_t most = bytes_of(form, count, length, coder, coding);
  const std::uint64_t least = bytes_of_indexes(form, count, length);
  if (shape.kind != ContentKind::bytes || shape.size <= least || shape.size > most)
    return malformed("an update of " + std::to_string(shape.size) + " bytes where " +
                     std::to_string(most) + " are expected");
  return Ok{};
}

Result<RangeUpdate> decode(std::uint32_t range, Form form, std::uint64_t count,
                           std::uint64_t length, const VectorContent& content, const UpdateKey& key,
                           Coding coding, const Coder& coder) {
  RangeUpdate update{.range = range, .count = count, .indexes = {}, .values = {}};
  if (!content.bytes()) return update;  // a phantom's
  const Bytes& bytes = content.bytes();
  const std::uint64_t before = bytes_of_indexes(form, count, length);
  LH_CHECK(before <= bytes->size());
  auto indexes = read_indexes(form, count, length, std::span(*bytes).first(before));
  if (!indexes) return indexes.error();
  auto values = coder.read(codec_key(key, range), coding, {0, count},
                           Payload(bytes, before, bytes->size() - before));
  if (!values) return values.error();
  update.indexes = *std::move(indexes);
  update.values = *std::move(values);
  return update;
}

}  // namespace longhaul::sync::gaia
