// Uses the installed headers and one compiled function of the installed libraries.
#include <cstdio>

#include <longhaul/base/rng.h>

int main() {
  // Random123's first known answer for Philox4x32-10: counter and key all zero.
  const longhaul::PhiloxBlock block = longhaul::philox4x32({0, 0, 0, 0}, {0, 0});
  std::printf("%08x\n", block[0]);
  return block[0] == 0x6627e8d5 ? 0 : 1;
}
