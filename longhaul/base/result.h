#pragma once
// Result<T> is a T or an Error (std::expected is C++23). Status is a Result without a value.
#include <optional>
#include <string>
#include <utility>

#include "longhaul/base/check.h"

namespace longhaul {

struct Error {
  enum class Kind {
    invalid_argument,  // the user asked for something impossible: job file, option, combination
    malformed,         // bytes or text that are not what they claim to be
    unavailable,       // a file, device or peer that is not there
    timed_out,
    io,
    not_finite,  // a computation left what a float can hold
    state_lost,  // nobody alive has the state of the run: only a checkpoint can
  };
  Kind kind = Kind::invalid_argument;
  std::string what;  // one sentence for the user: names file, key or peer, and the remedy
};

inline Error invalid(std::string what) { return {Error::Kind::invalid_argument, std::move(what)}; }
inline Error malformed(std::string what) { return {Error::Kind::malformed, std::move(what)}; }
inline Error not_finite(std::string what) { return {Error::Kind::not_finite, std::move(what)}; }
inline Error state_lost(std::string what) { return {Error::Kind::state_lost, std::move(what)}; }
inline Error unavailable(std::string what) { return {Error::Kind::unavailable, std::move(what)}; }

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}
  Result(Error error) : error_(std::move(error)) {}

  explicit operator bool() const { return value_.has_value(); }
  T& operator*() & {
    LH_CHECK(value_);
    return *value_;
  }
  const T& operator*() const& {
    LH_CHECK(value_);
    return *value_;
  }
  T&& operator*() && {
    LH_CHECK(value_);
    return *std::move(value_);
  }
  T* operator->() { return &**this; }
  const T* operator->() const { return &**this; }
  const Error& error() const {
    LH_CHECK(!value_);
    return error_;
  }

 private:
  std::optional<T> value_;  // a std::variant of both takes the compiler longer
  Error error_;             // where there is no value
};

struct Ok {};
using Status = Result<Ok>;

}  // namespace longhaul

// Leaves the enclosing function with the error of `status`, if it is one.
#define LH_TRY(status)                                                   \
  do {                                                                   \
    if (auto lh_status = (status); !lh_status) return lh_status.error(); \
  } while (false)
// LH_LET(x, f()): x is the value of f(), a Result; leaves the enclosing function with its error if
// it has none. Three statements: not for an `if` without braces.
#define LH_LET(name, ...)                   \
  auto lh_##name = (__VA_ARGS__);           \
  if (!lh_##name) return lh_##name.error(); \
  auto name = *std::move(lh_##name)
