#pragma once
// A data set in memory: made by the readers of this folder, then shared unchanged by all sites of a
// process (std::shared_ptr<const DataSet>). Images stay one byte a pixel (60,000 of 28x28 are 47
// MB, as floats 188 MB) and become numbers row by row.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace longhaul::learn {

// text: the next byte, or token, at every place of a sample. multilabel: of each label whether a
// sample has it.
enum class Task : std::uint8_t { classification, regression, text, multilabel };
// Are DataSet::targets what is predicted?
constexpr bool has_targets(Task task) {
  return task == Task::regression || task == Task::multilabel;
}

struct DataShape {
  std::vector<std::int64_t> sample;  // {channels, height, width}, {features}, or {bytes} of text
  std::int64_t outputs = 1;          // classes, targets, labels, or values of a byte or a token
  Task task = Task::classification;
  // Where the numbers of a sample are rows of tables (a user, an item): how many rows each has.
  std::vector<std::int64_t> tables = {};

  std::size_t width() const;  // numbers in a sample
  bool operator==(const DataShape&) const = default;
};

// A column of a table whose cells are names: a feature for each value.
struct Categories {
  std::string column;
  std::vector<std::string> values;
  std::size_t first = 0;  // its first feature
  bool operator==(const Categories&) const = default;
};

struct DataSet {
  DataShape shape;
  std::vector<float> features;       // samples x width, row-major; empty where there are pixels
  std::vector<std::uint8_t> pixels;  // samples x width; set by set_pixels()
  // classification: 0 .. outputs-1, one a sample; text: the group that it was taken from.
  std::vector<std::int64_t> labels;
  std::vector<float> targets;      // regression, multilabel (0 and 1): samples x outputs
  std::vector<std::string> names;  // classes, as named in the file (may be empty), or groups
  // csv: the file's name of each feature, or its number from 1; "colour = red" for a category.
  std::vector<std::string> columns;
  std::vector<Categories> categories;
  std::vector<std::string> target_columns;  // names in the file; empty without a header
  std::size_t dropped = 0;                  // lines left out because a cell is missing
  // text: samples x (width + 1) bytes: the bytes to read, and one more. Tokens: samples x (width +
  // 1) integers of token_bytes each (1, 2 or 4), lowest byte first.
  std::vector<std::uint8_t> text;
  std::uint32_t token_bytes = 1;

  std::size_t size() const;
  // Returns the number of possible labels; 0 for numbers to fit.
  std::size_t label_kinds() const;
  // text: the width + 1 bytes or tokens of sample `row`. CHECKs both.
  void copy_window(std::size_t row, std::span<std::int64_t> out) const;
  // Sample `row` as the model sees it: pixels as (pixel / 255 - mean) / std of their channel. `out`
  // is width() long. CHECKs both.
  void copy_row(std::size_t row, std::span<float> out) const;

  // One mean and one std a channel, of pixels scaled to 0 .. 1; std is not 0.
  void set_pixels(std::vector<std::uint8_t> values, std::span<const double> mean,
                  std::span<const double> std);

  // Feature of each pixel value: channels x 256. Filled by set_pixels().
  std::vector<float> pixel_values;
};

// The samples `rows`, in this order; a row may be taken twice.
DataSet take_rows(const DataSet&, std::span<const std::uint32_t> rows);

// Appends the samples of `more`. CHECKs that both have one shape and one kind of storage.
void append(DataSet& to, const DataSet& more);

// Hashes samples, labels and names, in their order; the order of a table's columns does not count.
// Two sets with one digest are the same, but for a chance of 1 in 2^64 (XXH3).
std::uint64_t digest_of(const DataSet&);

}  // namespace longhaul::learn
