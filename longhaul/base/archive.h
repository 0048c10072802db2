#pragma once
// An Archive writes a machine's state down or reads it back with the same code:
//
//   void state(Archive& ar) override { ar(round_, anchor_, pending_); }
//
// Saving and loading after any event equals going on. Members may be numbers, enums, strings,
// Bytes, Payload, std::vector, deque, map, set, optional, pair, array, duration, structs with
// fields(), and anything with `void state(Archive&)`. A checkpoint is our own file, but it may be
// torn or stale: loading never allocates more than the file holds, and failure is a Status.
#include <array>
#include <chrono>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "longhaul/base/bytes.h"
#include "longhaul/base/fields.h"
#include "longhaul/base/result.h"
#include "longhaul/base/wire.h"

namespace longhaul {

class Archive {
 public:
  Archive() = default;                                                                // saves
  explicit Archive(std::span<const std::byte> bytes) : in_(bytes), loading_(true) {}  // loads

  bool loading() const { return loading_; }
  Buffer take() { return out_.take(); }
  // After loading: an Error if the bytes ended early, were left over or did not fit.
  Status finish() const {
    if (in_.failed()) return malformed("checkpoint " + in_.error());
    if (loading_ && in_.left() > 0) return malformed("checkpoint has bytes left over");
    return Ok{};
  }
  void fail(std::string why) { in_.fail(std::move(why)); }
  bool failed() const { return in_.failed(); }

  template <class... T>
  void operator()(T&... values) {
    (one(values), ...);
  }
  // A float vector whose size is fixed by the layout: a span into memory owned elsewhere.
  void floats(std::span<float> values) {
    std::uint64_t size = values.size();
    one(size);
    if (size != values.size()) return fail("holds a model of another size");
    loading_ ? in_.raw(values.data(), values.size_bytes())
             : out_.raw(values.data(), values.size_bytes());
  }
  // A tag that must be found again: catches a checkpoint of another kind with a clear message.
  void expect(std::string tag) {
    std::string found = tag;
    one(found);
    if (found != tag) fail("holds '" + found.substr(0, 40) + "' where '" + tag + "' is expected");
  }

 private:
  template <class T>
  static constexpr bool plain = std::is_arithmetic_v<T> || std::is_enum_v<T>;

  template <class T>
  void one(T& value) {
    if constexpr (requires { value.state(*this); }) {
      value.state(*this);
    } else if constexpr (std::is_same_v<T, bool>) {
      std::uint8_t byte = value;
      one(byte);
      value = byte != 0;
    } else if constexpr (plain<T>) {
      loading_ ? in_.raw(&value, sizeof value) : out_.raw(&value, sizeof value);
    } else if constexpr (Fielded<T>) {
      T::fields(value, [this](const Field&, auto& member) { this->one(member); });
    } else {
      container(value);
    }
  }
  template <class Rep, class Period>
  void container(std::chrono::duration<Rep, Period>& value) {
    Rep count = value.count();
    one(count);
    value = std::chrono::duration<Rep, Period>(count);
  }
  template <class A, class B>
  void container(std::pair<A, B>& value) {
    one(value.first);
    one(value.second);
  }
  template <class... T>
  void container(std::tuple<T...>& value) {
    std::apply([this](T&... members) { (one(members), ...); }, value);
  }
  template <class T, std::size_t N>
  void container(std::array<T, N>& value) {
    for (T& element : value) one(element);
  }
  template <class T>
  void container(std::optional<T>& value) {
    bool full = value.has_value();
    one(full);
    if (loading_) full ? (void)value.emplace(T()) : value.reset();
    if (full && !failed()) one(*value);
  }
  void container(Bytes& value) {
    bool full = value != nullptr;
    one(full);
    if (!full) return value.reset();
    Buffer buffer;
    if (!loading_) buffer = *value;
    container(buffer);
    if (loading_) value = share(std::move(buffer));
  }
  void container(Payload& value) {
    bool phantom = value.is_phantom();
    std::uint64_t size = value.size();
    one(phantom);
    one(size);
    if (phantom) return void(value = Payload::phantom(size));
    if (!loading_) return out_.raw(value.view().data(), size);
    if (size > in_.left()) return fail("ends early");
    Buffer buffer(size);
    in_.raw(buffer.data(), size);
    value = Payload(share(std::move(buffer)));
  }
  template <class Sequence>
  requires requires(Sequence& s) { s.resize(1); }
  void container(Sequence& values) {  // string, vector, deque
    std::uint64_t size = values.size();
    one(size);
    using T = typename Sequence::value_type;
    if constexpr (plain<T> && !std::is_same_v<T, bool> && requires { values.data(); }) {
      if (loading_ && size > in_.left() / sizeof(T)) return fail("ends early");
      if (loading_) values.resize(size);
      loading_ ? in_.raw(values.data(), size * sizeof(T))
               : out_.raw(values.data(), size * sizeof(T));
    } else {
      if (loading_ && size > in_.left()) return fail("ends early");
      if (loading_) values.clear();
      if (loading_) values.resize(size);
      for (auto&& element : values) {
        if constexpr (std::is_same_v<T, bool>) {
          bool bit = element;
          one(bit);
          element = bit;
        } else {
          one(element);
        }
      }
    }
  }
  template <class K, class V, class C>
  void container(std::map<K, V, C>& values) {
    std::uint64_t size = values.size();
    one(size);
    if (!loading_) {
      for (auto& [key, value] : values) one(const_cast<K&>(key)), one(value);
      return;
    }
    values.clear();
    for (std::uint64_t i = 0; i < size && !failed(); ++i) {
      K key{};
      one(key);
      one(values[key]);
    }
  }
  template <class K, class C>
  void container(std::set<K, C>& values) {
    std::vector<K> list(values.begin(), values.end());
    container(list);
    if (loading_) values = std::set<K, C>(list.begin(), list.end());
  }

  ByteWriter out_;
  ByteReader in_{{}};
  bool loading_ = false;
};

}  // namespace longhaul
