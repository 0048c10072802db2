// An index of growing data at one site, without models or network: objects of the stream `tracks`
// into focus/index and its log, as a node of `longhaul serve` writes them; then queries, warm, and
// cold: after the store was opened again. Prints one JSON object. Times are of the CPU, so that
// other work on the machine does not count; wall_s is of all, with waits for the disk.
//
//   build/release/bench/focus_store [OBJECTS] [FOLDER]      10,000,000 of them by default
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <string>

#include "longhaul/focus/focus_node.h"
#include "longhaul/focus/log.h"
#include "longhaul/focus/tracks.h"
#include "longhaul/store/log_file.h"

namespace {

using namespace longhaul;
using focus::Index;
using focus::Tracks;

constexpr std::size_t kBatch = 32;    // objects of a record, as at ingest
constexpr std::size_t kRecords = 64;  // of a transaction: what waits while one is written
constexpr double kRate = 10000;

double now_s() { return double(std::clock()) / CLOCKS_PER_SEC; }
double wall_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}
template <class Body>
double timed(Body&& body) {
  const double begun = now_s();
  body();
  return now_s() - begun;
}
template <class T>
T must(Result<T> result) {
  if (result) return *std::move(result);
  std::fprintf(stderr, "focus_store: %s\n", result.error().what.c_str());
  std::exit(2);
}
void must(const Status& status) {
  if (status) return;
  std::fprintf(stderr, "focus_store: %s\n", status.error().what.c_str());
  std::exit(2);
}

focus::NodeConfig node_config() {
  focus::Config config;
  config.T = 0.5;
  config.vote = "first";
  return focus::node_config(config, Tracks::kClasses, 0);
}

struct Figures {
  double generate_s = 0, index_s = 0, log_s = 0;
  std::uint64_t clusters = 0;
};

double file_bytes(const std::string& folder) {
  double bytes = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    bytes += double(entry.file_size());
  return bytes;
}

Figures ingest(store::LogFile& log, Index& index, std::uint64_t objects) {
  Figures figures;
  const Tracks tracks(1, 0);
  std::vector<store::LogFile::Record> waiting;
  std::uint64_t number = 0;
  for (std::uint64_t seq = 1; seq <= objects;) {
    focus::LogRecord record;
    std::vector<Item> items;
    figures.generate_s += timed([&] {
      for (; items.size() < kBatch && seq <= objects; ++seq) {
        items.push_back(tracks.item(seq, kRate));
        const std::vector<float>& values = items.back().values;
        record.items.push_back({.seen = {seq, items.back().at.count(), focus::rounded(values),
                                         tracks.scores(seq, values, Tracks::kClasses)},
                                .feature = focus::halves_of(values),
                                .values = {}});
      }
    });
    figures.index_s += timed([&] {
      for (std::size_t i = 0; i < items.size(); ++i) {
        focus::LoggedItem& logged = record.items[i];
        const auto added = index.add(logged.seen, 0, items[i].values);
        logged.cluster = added->cluster;
        if (added->begun)
          logged.values = items[i].values;
        else
          logged.seen.scores.clear();
      }
    });
    figures.log_s += timed([&] {
      waiting.push_back({++number, share(to_wire(record))});
      if (waiting.size() < kRecords && seq <= objects) return;
      must(log.append(waiting));
      waiting.clear();
    });
  }
  figures.clusters = index.clusters();
  return figures;
}

// Seconds of finding the candidates of the 20 most frequent classes, in the last tenth of the time.
double query_s(const Index& index, std::uint64_t objects, std::size_t& candidates) {
  const auto end = std::int64_t(double(objects) / kRate * 1e9);
  return timed([&] {
    for (std::uint32_t cls = 0; cls < 20; ++cls)
      candidates += index.candidates(cls, {end - end / 10, end}).size();
  });
}

}  // namespace

int main(int argc, char** argv) {
  const std::uint64_t objects = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 10'000'000;
  const std::string folder = argc > 2 ? argv[2] : "runs/bench-focus-store";
  const double begun = wall_s();
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  const std::string path = folder + "/index.sqlite";
  const focus::NodeConfig config = node_config();
  Figures figures;
  double log_bytes = 0, warm_s = 0, replay_s = 0, checkpoint_s = 0, checkpoint_bytes = 0;
  std::size_t warm = 0, cold = 0;
  {
    const auto log = must(store::LogFile::open(path));
    Index index(config.index);
    figures = ingest(*log, index, objects);
    log_bytes = file_bytes(folder);
    warm_s = query_s(index, objects, warm);
  }
  {  // without a checkpoint: every record is replayed
    const auto log = must(store::LogFile::open(path));
    focus::FocusNode node(config);
    replay_s = timed([&] {
      must(log->each([&](std::uint64_t number, const Bytes& record) {
        return node.restore_record(number, *record, 0);
      }));
    });
    checkpoint_s = timed([&] {
      const Bytes state = share(node.checkpoint());
      checkpoint_bytes = double(state->size());
      must(log->write_checkpoint({node.appended(), state}));
    });
  }
  focus::FocusNode node(config);
  const double cold_s = timed([&] {
    const auto log = must(store::LogFile::open(path));
    must(node.restore_checkpoint(*must(log->checkpoint()).state));
  });
  const double first_s = query_s(node.index(), objects, cold);
  std::printf(
      "{\"objects\": %llu, \"clusters\": %llu, \"generate_s\": %.3f, \"index_s\": %.3f, "
      "\"log_s\": %.3f, \"objects_a_second\": %.0f, \"log_bytes_an_object\": %.1f, "
      "\"replay_s\": %.3f, \"checkpoint_s\": %.3f, \"checkpoint_bytes_an_object\": %.1f, "
      "\"open_s\": %.3f, \"cold_query_s\": %.5f, \"warm_query_s\": %.5f, \"candidates\": %.1f, "
      "\"same_candidates\": %s, \"wall_s\": %.1f}\n",
      static_cast<unsigned long long>(objects), static_cast<unsigned long long>(figures.clusters),
      figures.generate_s, figures.index_s, figures.log_s,
      double(objects) / (figures.index_s + figures.log_s), log_bytes / double(objects), replay_s,
      checkpoint_s, checkpoint_bytes / double(objects), cold_s, first_s / 20, warm_s / 20,
      double(warm) / 20, warm == cold ? "true" : "false", wall_s() - begun);
  return 0;
}
