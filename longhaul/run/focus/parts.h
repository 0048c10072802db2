#pragma once
// What a job with [focus] consists of, for the simulator and for sockets alike: streams of objects,
// the accurate model and the cheap ones, and which of those indexes with which parameters.
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <stop_token>

#include "longhaul/core/item.h"
#include "longhaul/core/learner.h"
#include "longhaul/focus/focus_node.h"
#include "longhaul/focus/parameters.h"
#include "longhaul/learn/data/dataset.h"
#include "longhaul/learn/inference.h"
#include "longhaul/run/job/job.h"
#include "longhaul/run/model_trial.h"
#include "longhaul/sim/compute_time.h"

namespace longhaul::run {

// A stream of objects made of the images of a data set: tracks as those of focus/tracks.h, each a
// run of transformed copies of one image, drawn by seed: it moves, turns and changes its brightness
// as an object before a camera does, and every copy has noise of its own.
class ImageTracks {
 public:
  // Any number of objects; `source`: the rank whose stream it is. CHECKs that it holds images.
  ImageTracks(std::shared_ptr<const learn::DataSet>, std::uint64_t seed, std::uint32_t source);

  // `rate`: objects in a second; the object of seq 1 is seen at 0. Values as a model sees them.
  Item item(std::uint64_t seq, double rate) const;
  // The same as bytes, row-major.
  std::vector<std::uint8_t> pixels(std::uint64_t seq) const;
  // The image of which it is a copy.
  std::uint32_t row(std::uint64_t seq) const;

 private:
  std::shared_ptr<const learn::DataSet> images_;
  std::uint64_t seed_;
  std::uint32_t source_;
};

// Objects of a stream, and what the models say of them.
struct LabelledSample {
  std::vector<std::uint32_t> labels;     // of the accurate model
  std::vector<std::uint64_t> tracks;     // on which each is
  std::vector<focus::CheapModel> cheap;  // by number
  double accurate_s = 0;                 // CPU time for an object; CheapModel::seconds: of the job
  std::vector<double> cheap_s;           // CPU time for an object, by number
};

class FocusParts {
 public:
  // Reads the data of the stream. Error: they cannot be had, or a query's class is none of theirs.
  static Result<FocusParts> load(const Job&);

  std::uint32_t classes() const;
  std::uint32_t cheap_models() const { return std::uint32_t(cheap_.size()); }
  const focus::CheapConfig& cheap(std::uint32_t number) const { return cheap_.at(number); }
  std::uint32_t specialised(std::uint32_t number) const;
  const std::shared_ptr<const learn::DataSet>& images() const { return images_; }
  ImageTracks image_tracks(Rank) const;
  // Of the stream of a rank; any thread.
  std::function<Item(std::uint64_t seq)> stream(Rank) const;
  // All models, for a node of that rank. Error: a file is none.
  Result<std::unique_ptr<Learner>> make_learner(Rank) const;
  // [focus] gt_ms and the cheap models' ms for each object.
  std::unique_ptr<sim::ComputeTime> times() const;
  // Puts models that the node is given into its learner, which lives as long, and notes their
  // times.
  focus::NodeConfig::PutModel put_model(Rank, Learner&) const;
  // Tries a given model in a process of its own: `program`, this one, with `try-model`.
  Status try_given(const focus::GivenModel&, const std::string& program, std::stop_token) const;
  bool has_real_models() const { return images_ != nullptr; }

  // Objects first, first + every, ... of a rank's stream, `count` of them, through all models, or
  // the accurate one alone.
  Result<LabelledSample> sample(Learner&, Rank, std::uint64_t first, std::uint64_t count,
                                std::uint64_t every = 1, bool cheap = true) const;
  // Every cheap model with every K and T that is tried.
  std::vector<focus::Point> points(const LabelledSample&) const;
  focus::Targets targets() const;
  focus::Grid grid() const;
  focus::IndexConfig base() const;  // what they leave as it is

  // The configuration of the node of that rank. Where the job leaves T out, cheap model, K and T
  // are chosen on the first [focus] sample objects of its own stream. Error: none reaches the
  // targets, or there is no cheap model.
  Result<focus::NodeConfig> node_config(Rank, Learner&) const;

 private:
  struct GivenTimes {  // ms for an object, by rank and number
    std::mutex mutex;
    std::map<std::pair<Rank, std::uint32_t>, double> ms;
  };
  class InferTimes;
  explicit FocusParts(const Job& job) : job_(&job) {}
  learn::InferenceParts files(Rank) const;
  TrialLimits limits() const;
  Status try_files() const;
  Status choose(focus::Config&, std::uint32_t& cheap, Rank, Learner&) const;

  const Job* job_;
  std::vector<focus::CheapConfig> cheap_;
  std::shared_ptr<const learn::DataSet> images_;  // nullptr: the stream `tracks`
  std::shared_ptr<GivenTimes> given_ = std::make_shared<GivenTimes>();
};

// The model of a [[focus.model]], from its file. Error: it cannot be read, or is too large.
Result<focus::GivenModel> given_model(const Job&, const focus::ModelConfig&);

// The stream of one site.
class TrackSource {
 public:
  TrackSource(const Job&, std::function<Item(std::uint64_t)> stream);
  // Sends again from the next one: after a restart, of what was acknowledged.
  void begin_after(std::uint64_t seq) { next_ = seq + 1; }
  // Those seen at or before `now`, at most `most`.
  std::vector<Item> due(Time now, std::size_t most = 10000);
  // When the next one is seen; nothing: the stream is over.
  std::optional<Time> next_at() const;

 private:
  std::function<Item(std::uint64_t)> stream_;
  double rate_;
  std::optional<std::uint64_t> length_;
  std::uint64_t next_ = 1;
};

}  // namespace longhaul::run
