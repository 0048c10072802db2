#pragma once
// The LIBSVM format (Chang and Lin, "LIBSVM: a library for support vector machines", 2011): a line
// a sample, "LABEL INDEX:VALUE INDEX:VALUE ...", indices from 1 and ascending, what is left out is
// 0;
// "#" begins a comment. Samples are kept dense: a file whose rows would take more than kMaxDense
// times its own size (and a MiB) is refused.
#include <cstdint>
#include <string_view>

#include "longhaul/learn/data/text.h"

namespace longhaul::learn {

inline constexpr std::uint64_t kMaxIndices = std::uint64_t{1} << 24;
inline constexpr std::uint64_t kMaxDense = 64;

struct LibsvmOptions {
  TargetOptions target;
  std::uint32_t features = 0;  // width of a sample; 0: the largest index found
};

// `name` stands for the file in messages.
Result<DataSet> read_libsvm(std::string_view text, std::string_view name, const LibsvmOptions&);

}  // namespace longhaul::learn
