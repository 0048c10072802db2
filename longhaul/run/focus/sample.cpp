#include "longhaul/run/focus/sample.h"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "longhaul/run/atomic_file.h"
#include "longhaul/run/focus/parts.h"
#include "longhaul/run/interrupt.h"
#include "longhaul/run/nodes.h"

namespace longhaul::run {
namespace {

using Json = nlohmann::ordered_json;

void put_number(std::string& bytes, std::uint64_t value) {
  for (int shift = 24; shift >= 0; shift -= 8) bytes += char(value >> shift & 0xFF);
}

// As learn/data/images.h reads it.
std::string idx_header(std::initializer_list<std::uint64_t> extents) {
  std::string bytes = {0, 0, 8, char(extents.size())};
  for (const std::uint64_t extent : extents) put_number(bytes, extent);
  return bytes;
}

Status write_set(const std::string& folder, const std::string& name, const ImageTracks& tracks,
                 const learn::DataShape& shape, std::uint64_t first, std::uint64_t every,
                 std::span<const std::uint32_t> labels) {
  std::string images = idx_header({labels.size(), std::uint64_t(shape.sample[0]),
                                   std::uint64_t(shape.sample[1]), std::uint64_t(shape.sample[2])});
  std::string classes = idx_header({labels.size()});
  for (std::size_t i = 0; i < labels.size(); ++i) {
    for (const std::uint8_t pixel : tracks.pixels(first + i * every)) images += char(pixel);
    classes += char(labels[i]);
  }
  const std::string path = folder + "/" + name;
  LH_TRY(write_atomically(path + "-images-idx3-ubyte", images));
  return write_atomically(path + "-labels-idx1-ubyte", classes);
}

// A tenth of the objects, the last, is the test set.
Status write_labels(const std::string& folder, const FocusParts& parts, Rank rank,
                    const SampleOptions& options, std::span<const std::uint32_t> labels) {
  const learn::DataShape& shape = parts.images()->shape;
  if (shape.outputs > 256)
    return invalid("--labels: expected at most 256 classes, the data have " +
                   std::to_string(shape.outputs));
  std::error_code code;
  std::filesystem::create_directories(folder, code);
  if (code) return unavailable(folder + ": cannot be made: " + code.message());
  const std::size_t train = labels.size() - labels.size() / 10;
  const ImageTracks tracks = parts.image_tracks(rank);
  LH_TRY(write_set(folder, "train", tracks, shape, 1, options.every, labels.first(train)));
  return write_set(folder, "t10k", tracks, shape, 1 + train * options.every, options.every,
                   labels.subspan(train));
}

// The keys of a [data] that reads the files as the stream's models see them.
Json data_table(const learn::DataSet& images) {
  Json mean = Json::array(), std = Json::array();
  for (std::size_t c = 0; c < images.pixel_values.size() / 256; ++c) {
    const double black = images.pixel_values[c * 256], white = images.pixel_values[c * 256 + 255];
    mean.push_back(-black / (white - black));
    std.push_back(1 / (white - black));
  }
  return {{"kind", "idx"},
          {"partition", "local"},
          {"classes", images.shape.outputs},
          {"mean", mean},
          {"std", std}};
}

Json point_json(const focus::Point& point) {
  return {{"cheap", point.model},
          {"K", point.K},
          {"T", point.T},
          {"ingest_ms", point.ingest_s * 1000},
          {"clusters", point.estimate.clusters},
          {"recall", point.estimate.recall},
          {"precision", point.estimate.precision},
          {"precision_of_answers", point.estimate.precision_of_answers},
          {"recall_error", point.estimate.recall_error},
          {"precision_error", point.estimate.precision_error},
          {"checks", point.estimate.gt_calls}};
}

// Share of the objects whose class is the best, and among the four best, of the cheap model.
Json agreement(const LabelledSample& sample, std::size_t model) {
  double first = 0, four = 0;
  const auto& seen = sample.cheap[model].seen;
  for (std::size_t i = 0; i < seen.size(); ++i) {
    const std::vector<double> scores(seen[i].scores.begin(), seen[i].scores.end());
    const std::uint32_t cls = std::min(sample.labels[i], sample.cheap[model].specialised);
    const auto best = focus::top_classes(scores, 4);
    first += best[0] == cls;
    four += std::ranges::count(best, cls) > 0;
  }
  const double all = std::max<double>(double(seen.size()), 1);
  return {{"ms", sample.cheap_s[model] * 1000}, {"top_1", first / all}, {"top_4", four / all}};
}

// Not dominated and within the targets, cheapest first.
Json border_json(std::vector<focus::Point> points, const focus::Targets& targets) {
  std::erase_if(points, [&](const focus::Point& p) { return !reaches(p.estimate, targets); });
  std::vector<focus::Point> border;
  for (const focus::Point& p : points)
    if (std::ranges::none_of(points, [&](const focus::Point& o) { return dominates(o, p); }))
      border.push_back(p);
  std::ranges::sort(border, [](const focus::Point& a, const focus::Point& b) {
    return std::tuple(a.ingest_s, a.estimate.gt_calls, a.K, a.T) <
           std::tuple(b.ingest_s, b.estimate.gt_calls, b.K, b.T);
  });
  Json json = Json::array();
  for (const focus::Point& p : border) json.push_back(point_json(p));
  return json;
}

class StreamSampler {
 public:
  StreamSampler(const Job& job, const FocusParts& parts, const SampleOptions& options)
      : job_(job), parts_(parts), options_(options) {}
  Result<Json> site(Rank rank, const std::string& name) const {
    LH_LET(learner, parts_.make_learner(rank));
    const std::uint64_t objects = options_.objects > 0 ? options_.objects : job_.focus->sample;
    LH_LET(sample, parts_.sample(*learner, rank, 1, objects, options_.every));
    Json json = {{"site", name}, {"objects", objects}, {"gt_ms", sample.accurate_s * 1000}};
    json["by_class"] = std::vector<std::uint64_t>(parts_.classes());
    for (const std::uint32_t cls : sample.labels) {
      if (cls >= parts_.classes()) return invalid("the accurate model answers an unknown class");
      json["by_class"][cls] = json["by_class"][cls].get<std::uint64_t>() + 1;
    }
    json["cheap"] = Json::array();
    for (std::size_t i = 0; i < sample.cheap.size(); ++i)
      json["cheap"].push_back(agreement(sample, i));
    if (!options_.labels.empty())
      LH_TRY(write_labels(options_.labels + "/" + name, parts_, rank, options_, sample.labels));
    if (!sample.cheap.empty() && options_.every == 1)
      LH_TRY(add_choices(json, sample, rank, *learner, objects + 1));
    return json;
  }

 private:
  Status add_choices(Json&, const LabelledSample&, Rank, Learner&, std::uint64_t next) const;

  const Job& job_;
  const FocusParts& parts_;
  const SampleOptions& options_;
};

// The choice of each policy, and what it reaches on the objects that come next.
Status StreamSampler::add_choices(Json& json, const LabelledSample& sample, Rank rank,
                                  Learner& learner, std::uint64_t next) const {
  const std::vector<focus::Point> points = parts_.points(sample);
  json["border"] = border_json(points, parts_.targets());
  std::optional<LabelledSample> later;
  if (options_.held_out > 0) {
    LH_LET(found, parts_.sample(learner, rank, next, options_.held_out));
    later = std::move(found);
  }
  for (const char* policy : {"opt_ingest", "balance", "opt_query"}) {
    const auto point = focus::choose(points, parts_.targets(), policy);
    if (!point) {
      json["chosen"][policy] = {{"why", point.error().what}};
      continue;
    }
    json["chosen"][policy] = point_json(*point);
    if (!later) continue;
    focus::IndexConfig config = parts_.base();
    config.top = point->K;
    config.threshold = point->T;
    config.specialised = parts_.specialised(std::uint32_t(point->model));
    focus::Point held = *point;
    held.estimate = focus::estimate(config, later->cheap[point->model].seen, later->labels,
                                    parts_.targets().least, later->tracks);
    json["chosen"][policy]["held_out"] = point_json(held);
  }
  return Ok{};
}

}  // namespace

Result<Json> sample_streams(const Job& job, const SampleOptions& options) {
  const InterruptGuard guard;
  LH_LET(parts, FocusParts::load(job));
  if (!options.labels.empty() && !parts.has_real_models())
    return invalid("--labels: expected a job with [focus] stream = \"images\"");
  Json json = {{"name", job.job.name}};
  if (!options.labels.empty()) json["data"] = data_table(*parts.images());
  json["sites"] = Json::array();
  const StreamSampler sampler(job, parts, options);
  const Members members = job.members();
  for (Rank rank = 0; rank < members.size(); ++rank) {
    if (interrupted()) return unavailable("interrupted");
    if (options.note) options.note(fmt::format("{} ...", node_name(members[rank])));
    LH_LET(site, sampler.site(rank, node_name(members[rank])));
    json["sites"].push_back(std::move(site));
  }
  return json;
}

}  // namespace longhaul::run
