#pragma once
// Conclusion ends a run in which models differ from worker to worker: all live workers end with one
// model, exactly. It is their mean with equal weights, or that of the senior worker (the lowest
// live rank). Through the job's overlay, in its group of all workers; once in a run.
//
// Where the models may be equal already, that is asked first: the workers average the 64 bits of a
// hash of their models. The mean of a bit is 0 or 1 if it is equal at all of them, and since the
// mean is agreed, all come to the same answer, whoever is lost meanwhile.
#include <map>

#include "longhaul/core/overlay.h"

namespace longhaul::sync::shuffle {

class Conclusion {
 public:
  enum class Model : std::uint8_t { mean, senior };
  explicit Conclusion(Overlay& overlay) : overlay_(overlay) {}

  // `compare`: nothing is to be done if all hold the same bits. `below`: the turn as the overlay
  // sees it. An Error: values that are not finite.
  Status begin(Model, bool compare, Turn& turn, Turn below);
  // True, once: params() is the final model.
  Result<bool> take(Turn& turn, Turn below);
  // At a worker that has come back, instead of begin(). `has_model`: params() is one of the run's.
  void join(Model, bool compare, bool has_model);
  // Instead of take(), in every turn: true, once: params() is the final model.
  Result<bool> follow(Turn& turn, Turn below);
  // It has missed what the others have decided, and has to be sent the final model.
  bool missed() const { return missed_; }
  bool has_model() const { return has_model_; }
  // The overlay knows nothing any more of what a worker that has come back has begun.
  void begin_anew() { begun_.clear(); }
  std::string waiting_for() const { return overlay_.waiting_for(); }
  void state(Archive& ar) { ar(model_, comparing_, round_, has_model_, missed_, begun_); }

 private:
  static constexpr std::uint32_t kModels = 0, kHashes = 1;  // ranges
  std::vector<float> hash_bits(Turn& turn) const;
  Status average(Turn& turn, Turn below);
  Result<std::optional<Outcome>> follow(std::uint32_t range, Turn& turn, Turn below);
  Contribution part_in(std::uint32_t range, Round, std::span<const float> bits, Turn& turn) const;

  Overlay& overlay_;
  Model model_ = Model::mean;
  bool comparing_ = false;
  Round round_ = 0;  // of the exchange: again if the senior worker was lost in it
  // At a worker that has come back.
  bool has_model_ = false, missed_ = false;
  std::map<std::uint32_t, Round> begun_;  // by range, in this view
};

}  // namespace longhaul::sync::shuffle
