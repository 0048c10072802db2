#pragma once
// State as a checkpoint holds it.
#include "longhaul/base/archive.h"

namespace longhaul::testing {

// One with all its children, if it has any.
template <class T>
void pass(Archive& ar, T& one) {
  if constexpr (requires { one.archive(ar); }) {
    one.archive(ar);
  } else {
    one.state(ar);
  }
}

template <class T>
Buffer saved(T& one) {
  Archive out;
  pass(out, one);
  return out.take();
}

// An Error: the bytes are not what saved() makes of such a thing.
template <class T>
Status load(T& one, std::span<const std::byte> bytes) {
  Archive in(bytes);
  pass(in, one);
  return in.finish();
}

// `into` goes on from where `from` is.
template <class T>
Status copy_state(T& from, T& into) {
  return load(into, saved(from));
}

}  // namespace longhaul::testing
