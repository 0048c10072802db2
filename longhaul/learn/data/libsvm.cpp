#include "longhaul/learn/data/libsvm.h"

#include <algorithm>

#include <fmt/format.h>

#include "longhaul/learn/data/errors.h"

namespace longhaul::learn {
namespace {

struct Cell {
  std::size_t row;
  std::uint32_t index;  // from 1
  float value;
};

class LibsvmReader {
 public:
  LibsvmReader(std::string_view name, const LibsvmOptions& options)
      : name_(name), options_(options), targets_(options.target) {}

  Status line(std::string_view text, std::size_t number) {
    const std::string_view whole = text.substr(0, text.find('#'));
    std::string_view rest = whole, token;
    auto here = [&] {
      return TextPlace{name_, number, std::size_t(token.data() - whole.data()) + 1};
    };
    if (!next(rest, token)) return Ok{};  // an empty line
    if (!parse_number(token)) return bad_text(here(), "a number as the label", token);
    LH_TRY(targets_.add(token, here()));
    std::uint32_t last = 0;
    while (next(rest, token)) LH_TRY(cell(token, here(), last));
    ++rows_;
    return Ok{};
  }

  Result<DataSet> finish(std::size_t bytes) && {
    DataSet data;
    LH_TRY(std::move(targets_).finish(name_, data));
    const std::uint64_t width = options_.features ? options_.features : widest_;
    if (width == 0) return malformed("{}: expected samples with features", name_);
    if (rows_ > (kMaxDense * bytes + (1 << 20)) / sizeof(float) / width)
      return malformed(
          "{}: {} samples of {} features are too sparse for this reader, which keeps all numbers; "
          "leave out rare features",
          name_, rows_, width);
    data.shape.sample = {std::int64_t(width)};
    data.features.resize(rows_ * width);
    for (const Cell& cell : cells_) {
      const std::size_t begin = cell.row * width;
      data.features[begin + cell.index - 1] = cell.value;
    }
    return data;
  }

 private:
  static bool next(std::string_view& rest, std::string_view& token) {
    const std::size_t begin = rest.find_first_not_of(" \t");
    if (begin == std::string_view::npos) return false;
    rest.remove_prefix(begin);
    token = rest.substr(0, rest.find_first_of(" \t"));
    rest.remove_prefix(token.size());
    return true;
  }

  Status cell(std::string_view token, const TextPlace& at, std::uint32_t& last) {
    const std::size_t colon = token.find(':');
    if (colon == std::string_view::npos) return bad_text(at, "INDEX:VALUE", token);
    const auto index = parse_whole(token.substr(0, colon));
    const auto value = parse_float(token.substr(colon + 1));
    const std::uint64_t most = options_.features ? options_.features : kMaxIndices;
    if (!index || *index == 0 || *index > most)
      return bad_text(at,
                      fmt::format("an index from 1 to {}{}", most,
                                  options_.features ? " (more: set [data] features)" : ""),
                      token);
    if (*index <= last)
      return bad_text(at, fmt::format("indices that ascend (the last was {})", last), token);
    if (!value) return bad_text(at, "a number after the colon", token);
    last = std::uint32_t(*index);
    widest_ = std::max(widest_, last);
    cells_.push_back({rows_, last, *value});
    return Ok{};
  }

  std::string_view name_;
  const LibsvmOptions& options_;
  Targets targets_;
  std::vector<Cell> cells_;
  std::size_t rows_ = 0;
  std::uint32_t widest_ = 0;
};

}  // namespace

Result<DataSet> read_libsvm(std::string_view text, std::string_view name,
                            const LibsvmOptions& options) {
  LibsvmReader reader(name, options);
  Lines lines(text);
  std::string_view line;
  while (lines.next(line)) LH_TRY(reader.line(line, lines.number()));
  return std::move(reader).finish(text.size());
}

}  // namespace longhaul::learn
