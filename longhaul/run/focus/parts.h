#pragma once
// The parts of a job with [focus], for the simulator and for sockets: streams of objects, the
// accurate model and the cheap ones, and the indexing model with its parameters.
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

// A stream of objects made of the images of a data set, in tracks like those of focus/tracks.h. A
// track is a run of transformed copies of one image, drawn by seed. The image moves, turns and
// changes its brightness like an object before a camera. Every copy has its own noise.
class ImageTracks {
 public:
  // The stream has no end. `source`: its rank. CHECKs that the data set holds images.
  ImageTracks(std::shared_ptr<const learn::DataSet>, std::uint64_t seed, std::uint32_t source);

  // Returns an object. `rate`: objects in a second; seq 1 is seen at 0. Values as a model sees
  // them.
  Item item(std::uint64_t seq, double rate) const;
  // Returns the same as bytes, row-major.
  std::vector<std::uint8_t> pixels(std::uint64_t seq) const;
  // Returns the row of the copied image.
  std::uint32_t row(std::uint64_t seq) const;

 private:
  std::shared_ptr<const learn::DataSet> images_;
  std::uint64_t seed_;
  std::uint32_t source_;
};

// Objects of a stream, and the outputs of the models for them.
struct LabelledSample {
  std::vector<std::uint32_t> labels;     // from the accurate model
  std::vector<std::uint64_t> tracks;     // track of each object
  std::vector<focus::CheapModel> cheap;  // by number
  double accurate_s = 0;                 // CPU time per object; CheapModel::seconds: the job's
  std::vector<double> cheap_s;           // CPU time for an object, by number
};

class FocusParts {
 public:
  // Reads the data of the stream. Returns an Error if they cannot be read, or if they lack the
  // class of a query.
  static Result<FocusParts> load(const Job&);

  std::uint32_t classes() const;
  std::uint32_t cheap_models() const { return std::uint32_t(cheap_.size()); }
  const focus::CheapConfig& cheap(std::uint32_t number) const { return cheap_.at(number); }
  std::uint32_t specialised(std::uint32_t number) const;
  const std::shared_ptr<const learn::DataSet>& images() const { return images_; }
  ImageTracks image_tracks(Rank) const;
  // Returns the stream of a rank, which any thread can call.
  std::function<Item(std::uint64_t seq)> stream(Rank) const;
  // Makes a learner with all models for a node of that rank. Returns an Error if a file holds no
  // model.
  Result<std::unique_ptr<Learner>> make_learner(Rank) const;
  // Returns the times of each object: [focus] gt_ms and the cheap models' ms.
  std::unique_ptr<sim::ComputeTime> times() const;
  // Returns a function that puts models given to the node into its learner and notes their times.
  // The learner must live as long.
  focus::NodeConfig::PutModel put_model(Rank, Learner&) const;
  // Tries a given model in a separate process: `program`, this one, with `try-model`.
  Status try_given(const focus::GivenModel&, const std::string& program, std::stop_token) const;
  bool has_real_models() const { return images_ != nullptr; }

  // Runs `count` objects of a rank's stream (first, first + every, ...) through all models, or
  // through the accurate one only.
  Result<LabelledSample> sample(Learner&, Rank, std::uint64_t first, std::uint64_t count,
                                std::uint64_t every = 1, bool cheap = true) const;
  // Returns every cheap model with every K and T that is tried.
  std::vector<focus::Point> points(const LabelledSample&) const;
  focus::Targets targets() const;
  focus::Grid grid() const;
  focus::IndexConfig base() const;  // the settings that points() leaves unchanged

  // Returns the configuration of the node of that rank. If the job leaves T out, cheap model, K and
  // T are chosen on the first [focus] sample objects of its own stream. Returns an Error if no
  // choice reaches the targets, or if there is no cheap model.
  Result<focus::NodeConfig> node_config(Rank, Learner&) const;

 private:
  struct GivenTimes {  // ms per object, by rank and number
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

// Reads the model of a [[focus.model]] from its file. Returns an Error if it cannot be read or is
// too large.
Result<focus::GivenModel> given_model(const Job&, const focus::ModelConfig&);

// The stream of one site.
class TrackSource {
 public:
  TrackSource(const Job&, std::function<Item(std::uint64_t)> stream);
  // Continues after `seq`; after a restart, the acknowledged one.
  void begin_after(std::uint64_t seq) { next_ = seq + 1; }
  // Returns the objects seen at or before `now`, at most `most`.
  std::vector<Item> due(Time now, std::size_t most = 10000);
  // Returns when the next object is seen; nothing: the stream has ended.
  std::optional<Time> next_at() const;

 private:
  std::function<Item(std::uint64_t)> stream_;
  double rate_;
  std::optional<std::uint64_t> length_;
  std::uint64_t next_ = 1;
};

}  // namespace longhaul::run
