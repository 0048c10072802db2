#pragma once
// What a test expects of a Result, or of anything else that may hold nothing: it goes on with what
// is there, or ends with the reason why it is not. In longhaul itself, so that tests of all folders
// find the names.
#include <stdexcept>

#include <gtest/gtest.h>

#include "longhaul/base/result.h"

namespace longhaul {

// `result` itself, which is a value.
template <class R>
R good(R result) {
  if (result) return result;
  if constexpr (requires { result.error(); }) throw std::runtime_error(result.error().what);
  throw std::runtime_error("a value was expected, there is none");
}

// The Error that `result` is.
template <class T>
Error failure(const Result<T>& result) {
  if (result) throw std::runtime_error("an error was expected, found a value");
  return result.error();
}

// Whether `part` is in the text.
inline ::testing::AssertionResult says(std::string_view text, std::string_view part) {
  if (text.find(part) != text.npos) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "\"" << part << "\" is not in: " << text;
}
inline ::testing::AssertionResult says(const Error& error, std::string_view part) {
  return says(error.what, part);
}
// Whether it is an Error that says so.
template <class T>
::testing::AssertionResult says(const Result<T>& result, std::string_view part) {
  return result ? ::testing::AssertionFailure() << "is no error" : says(result.error().what, part);
}

}  // namespace longhaul
