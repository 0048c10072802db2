#pragma once
// State as a checkpoint holds it.
#include "longhaul/base/archive.h"

namespace longhaul::testing {

template <class T>
Buffer saved(T& one) {
  Archive out;
  one.state(out);
  return out.take();
}

// An Error: the bytes are not what saved() makes of such a thing.
template <class T>
Status load(T& one, std::span<const std::byte> bytes) {
  Archive in(bytes);
  one.state(in);
  return in.finish();
}

// `into` goes on from where `from` is.
template <class T>
Status copy_state(T& from, T& into) {
  return load(into, saved(from));
}

}  // namespace longhaul::testing
