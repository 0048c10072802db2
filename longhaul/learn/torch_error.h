#pragma once
// Internal to learn/ (includes torch): torch reports by exception, we by Result.
#include <c10/util/Exception.h>

#include <string>

#include "longhaul/base/result.h"

namespace longhaul::learn {

// Returns the message of an exception as one line. The interpreter of TorchScript puts a trace
// before its message, the rest of torch behind it.
inline std::string one_line(std::string text) {
  const std::string mark = "RuntimeError: ";
  if (const auto at = text.rfind(mark); at != std::string::npos) text.erase(0, at + mark.size());
  return text.substr(0, text.find('\n'));
}

// Returns the result of `body`, or an Error "CONTEXT: torch's message".
template <class T, class Body>
Result<T> guarded(const std::string& context, Body&& body) {
  try {
    return body();
  } catch (const c10::Error& e) {
    return Error{Error::Kind::invalid_argument,
                 context + ": " + one_line(e.what_without_backtrace())};
  } catch (const std::exception& e) {
    return Error{Error::Kind::invalid_argument, context + ": " + one_line(e.what())};
  }
}

}  // namespace longhaul::learn
