#pragma once
// Included first by clang in every source that includes libtorch's headers (longhaul/learn).
//
// Those of libtorch 1.13 move a std::vector of a class that is still incomplete. Since libstdc++ 12
// std::vector is constexpr in C++20; clang then needs the whole class at once, g++ only where the
// function is used. So these sources get a std::vector, and the algorithms that it calls, that are
// not constexpr. Layout, names and behaviour stay. Delete this file when Debian's libtorch is 2.1.
#include <tuple>
#undef _GLIBCXX20_CONSTEXPR
#define _GLIBCXX20_CONSTEXPR
#include <bits/stl_algobase.h>
#include <bits/algorithmfwd.h>
#include <bits/stl_algo.h>
#include <bits/stl_numeric.h>
#undef _GLIBCXX20_CONSTEXPR
#define _GLIBCXX20_CONSTEXPR constexpr
#include <string>
#include <memory>
#undef _GLIBCXX20_CONSTEXPR
#define _GLIBCXX20_CONSTEXPR
#include <vector>
#undef _GLIBCXX20_CONSTEXPR
#define _GLIBCXX20_CONSTEXPR constexpr
