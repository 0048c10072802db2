#pragma once
// Structs with fields() as bytes. Little endian, fixed width, no padding; strings and lists are a
// u32 count and their elements. For any bytes the decoder returns a value or an Error. It checks
// counts against Field::max and the remaining bytes before it allocates, and numbers against [min,
// max]. Extra bytes at the end are an error.
#include <bit>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "longhaul/base/bytes.h"
#include "longhaul/base/fields.h"
#include "longhaul/base/result.h"

namespace longhaul {

static_assert(std::endian::native == std::endian::little, "wire.h copies numbers as they stand");

// Lists of these stand in memory as they do in a message, and are copied as one block.
template <class T>
concept PlainNumber = std::is_arithmetic_v<T> && !std::is_same_v<T, bool>;

class ByteWriter {
 public:
  void raw(const void* from, std::size_t size) {
    const auto* bytes = static_cast<const std::byte*>(from);
    out_.insert(out_.end(), bytes, bytes + size);
  }
  template <class T>
  void put(const T& value) {
    if constexpr (std::is_same_v<T, bool>) {
      put(std::uint8_t{value});
    } else if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T>) {
      raw(&value, sizeof value);
    } else if constexpr (Fielded<T>) {
      T::fields(value, [this](const Field&, const auto& member) { this->put(member); });
    } else {  // std::string, std::vector
      LH_CHECK(value.size() <= 0xFFFFFFFFu);
      put(std::uint32_t(value.size()));
      if constexpr (PlainNumber<typename T::value_type>) {
        raw(value.data(), value.size() * sizeof(typename T::value_type));
      } else {
        for (const auto& element : value) put(element);
      }
    }
  }
  Buffer take() { return std::move(out_); }

 private:
  Buffer out_;
};

class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> in) : in_(in) {}

  std::size_t left() const { return in_.size() - at_; }
  bool failed() const { return !error_.empty(); }
  const std::string& error() const { return error_; }
  void fail(std::string why) {
    if (error_.empty()) error_ = std::move(why);
  }
  void raw(void* to, std::size_t size) {
    if (failed()) return;
    if (size > left()) return fail("ends early");
    if (size > 0) std::memcpy(to, in_.data() + at_, size);
    at_ += size;
  }
  template <class T>
  void get(const Field& field, T& value) {
    if (failed()) return;
    if constexpr (std::is_same_v<T, bool>) {
      std::uint8_t byte = 0;
      raw(&byte, 1);
      if (byte > 1) fail(std::string(field.name) + " is neither 0 nor 1");
      value = byte == 1;
    } else if constexpr (std::is_enum_v<T>) {
      std::underlying_type_t<T> number{};
      get(field, number);
      value = T(number);
    } else if constexpr (std::is_arithmetic_v<T>) {
      raw(&value, sizeof value);
      if (!failed() && !in_range(field, value)) fail(std::string(field.name) + " is out of range");
    } else if constexpr (Fielded<T>) {
      T::fields(value, [this](const Field& f, auto& member) { this->get(f, member); });
    } else {
      std::uint32_t count = 0;
      raw(&count, sizeof count);
      const double most = bounded(field) ? field.max : kDefaultMaxElements;
      if (failed()) return;
      if (double(count) > most) return fail(std::string(field.name) + " is too long");
      if (count > left()) return fail(std::string(field.name) + " is longer than the message");
      value.clear();
      if constexpr (PlainNumber<typename T::value_type>) {
        const std::size_t size = count * sizeof(typename T::value_type);
        if (size > left()) return fail("ends early");
        value.resize(count);
        return raw(value.data(), size);
      }
      for (std::uint32_t i = 0; i < count && !failed(); ++i) {
        typename T::value_type element{};
        get(Field{.name = field.name}, element);
        value.push_back(std::move(element));
      }
    }
  }

 private:
  static bool bounded(const Field& f) {
    return f.min != -std::numeric_limits<double>::infinity() ||
           f.max != std::numeric_limits<double>::infinity();
  }
  // A real number without bounds may be any.
  template <class T>
  static bool in_range(const Field& f, T value) {
    if (std::is_floating_point_v<T> && !bounded(f)) return true;
    return double(value) >= f.min && double(value) <= f.max;  // NaN: no
  }
  template <Fielded T>
  friend std::string_view number_out_of_range(const T&);

  std::span<const std::byte> in_;
  std::size_t at_ = 0;
  std::string error_;
};

// The first real number of a struct that from_wire() would refuse: one that has grown too large on
// its sender's side. "": none.
template <Fielded T>
std::string_view number_out_of_range(const T& value) {
  std::string_view found;
  T::fields(value, [&]<class Member>(const Field& field, const Member& member) {
    if (!found.empty()) return;
    if constexpr (std::is_floating_point_v<Member>) {
      if (!ByteReader::in_range(field, member)) found = field.name;
    } else if constexpr (Fielded<Member>) {
      found = number_out_of_range(member);
    }
  });
  return found;
}

template <Fielded T>
Buffer to_wire(const T& value) {
  ByteWriter writer;
  writer.put(value);
  return writer.take();
}

template <Fielded T>
Result<T> from_wire(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  T value{};
  reader.get(Field{.name = "message"}, value);
  if (!reader.failed() && reader.left() > 0) reader.fail("has bytes left over");
  if (reader.failed()) return malformed(reader.error());
  return value;
}

}  // namespace longhaul
