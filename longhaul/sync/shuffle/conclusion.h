#pragma once
// Conclusion ends a run in which models differ from worker to worker: all live workers end with one
// model, exactly. It is their mean with equal weights, or that of the senior worker (the lowest
// live rank). Through the job's overlay, in its group of all workers; once in a run.
//
// Where the models may be equal already, that is asked first: the workers average the 64 bits of a
// hash of their models. The mean of a bit is 0 or 1 if it is equal at all of them, and since the
// mean is agreed, all come to the same answer, whoever is lost meanwhile.
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
  std::string waiting_for() const { return overlay_.waiting_for(); }
  void state(Archive& ar) { ar(model_, comparing_, round_); }

 private:
  static constexpr std::uint32_t kModels = 0, kHashes = 1;  // ranges
  Status average(Turn& turn, Turn below);

  Overlay& overlay_;
  Model model_ = Model::mean;
  bool comparing_ = false;
  Round round_ = 0;  // of the exchange: again if the senior worker was lost in it
};

}  // namespace longhaul::sync::shuffle
