#pragma once
// The binary version of CIFAR-10 (Krizhevsky, "Learning multiple layers of features from tiny
// images", 2009): rows of 3,073 bytes, a label 0 .. 9, then 32x32 red, green and blue bytes.
#include <span>
#include <string_view>

#include "longhaul/base/result.h"
#include "longhaul/learn/data/dataset.h"

namespace longhaul::learn {

inline constexpr std::size_t kCifarRow = 1 + 3 * 32 * 32;

// One file; `name` stands for it in messages.
Result<DataSet> read_cifar10(std::span<const std::byte> bytes, std::string_view name);

}  // namespace longhaul::learn
