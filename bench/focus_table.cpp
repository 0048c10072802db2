// The stream `tracks` against the table of docs/results/focus.md: clusters, recall, precision and
// checks of eight streams of 12,000 objects, vote = "first". Prints one JSON object: of each T and
// K the mean, and the range of recall and clusters.
//
//   build/release/bench/focus_table [STREAMS]      8 by default
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <vector>

#include "longhaul/focus/parameters.h"
#include "longhaul/focus/tracks.h"

namespace {

using namespace longhaul;
using focus::Estimate;
using focus::Seen;
using focus::Tracks;

constexpr std::uint64_t kObjects = 12000, kLeast = 30;

struct Row {
  double T;
  std::uint32_t K;
  Estimate sum = {};
  double least = std::numeric_limits<double>::infinity(), most = 0;  // recall
  std::uint64_t fewest = ~std::uint64_t{0}, many = 0;                // clusters
};

void add_stream(std::uint64_t seed, std::vector<Row>& rows) {
  const Tracks tracks(seed, 0);
  std::vector<Seen> seen;
  std::vector<std::uint32_t> labels;
  for (std::uint64_t seq = 1; seq <= kObjects; ++seq) {
    const Item item = tracks.item(seq, 10);
    seen.push_back(
        {seq, item.at.count(), item.values, tracks.scores(seq, item.values, Tracks::kClasses)});
    labels.push_back(tracks.label(seq));
  }
  for (Row& row : rows) {
    focus::IndexConfig config;
    config.top = row.K;
    config.threshold = row.T;
    config.vote_mean = false;
    const Estimate one = focus::estimate(config, seen, labels, kLeast);
    row.sum.recall += one.recall;
    row.sum.precision += one.precision;
    row.sum.precision_of_answers += one.precision_of_answers;
    row.sum.gt_calls += one.gt_calls;
    row.least = std::min(row.least, one.recall);
    row.most = std::max(row.most, one.recall);
    row.fewest = std::min(row.fewest, one.clusters);
    row.many = std::max(row.many, one.clusters);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const auto streams = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 8ull;
  if (streams == 0) return std::fprintf(stderr, "focus_table: expected a number of streams\n"), 2;
  std::vector<Row> rows = {{0, 1},  {0, 4}, {0, 8},   {.5, 1},  {.5, 4},
                           {.5, 8}, {2, 4}, {0, 100}, {.5, 100}};
  for (std::uint64_t seed = 1; seed <= streams; ++seed) add_stream(seed, rows);
  std::printf("{\"streams\": %llu, \"rows\": [", streams);
  for (const Row& row : rows) {
    const double n = double(streams);
    std::printf(
        "%s\n{\"T\": %.1f, \"K\": %u, \"clusters\": [%llu, %llu], \"recall\": %.3f, "
        "\"recall_range\": [%.3f, %.3f], \"precision\": %.3f, \"precision_of_answers\": %.3f, "
        "\"checks\": %.1f}",
        &row == &rows.front() ? "" : ",", row.T, row.K, static_cast<unsigned long long>(row.fewest),
        static_cast<unsigned long long>(row.many), row.sum.recall / n, row.least, row.most,
        row.sum.precision / n, row.sum.precision_of_answers / n, row.sum.gt_calls / n);
  }
  std::printf("]}\n");
  return 0;
}
