#pragma once
// Debts are what a worker owes each other worker of the updates of its model: payload = "update" of
// selmcast. Each update counts 1/n, with n workers; who is sent to gets all that it is owed. So
// each worker applies each update of each other worker once, whenever it was a receiver. Ours.
#include <map>
#include <span>
#include <vector>

#include "longhaul/base/archive.h"
#include "longhaul/core/types.h"

namespace longhaul::sync::selmcast {

class Debts {
 public:
  // The model from which the next local steps begin.
  void begin(std::span<const float> model) { anchor_.assign(model.begin(), model.end()); }
  // The steps are done. What they changed counts 1/n: at this worker, in `model`, and as a debt to
  // each of `others`, n - 1 of them.
  void add(std::span<float> model, const std::vector<Rank>& others) {
    LH_CHECK(anchor_.size() == model.size());
    const auto n = double(others.size() + 1);
    std::vector<float> share(model.size());
    for (std::size_t i = 0; i < model.size(); ++i) {
      share[i] = float((double(model[i]) - double(anchor_[i])) / n);
      model[i] = float(double(anchor_[i]) + double(share[i]));
    }
    for (const Rank rank : others) {
      std::vector<float>& debt = debts_[rank];
      debt.resize(model.size());
      for (std::size_t i = 0; i < debt.size(); ++i) debt[i] += share[i];
    }
  }

  // What is owed; `sent` of it is no debt any more (a codec may have left out a part).
  const std::vector<float>& owed(Rank to) const { return debts_.at(to); }
  void pay(Rank to, std::span<const float> sent) {
    std::vector<float>& debt = debts_.at(to);
    LH_CHECK(sent.size() == debt.size());
    for (std::size_t i = 0; i < debt.size(); ++i) debt[i] -= sent[i];
  }

  bool owes(Rank to) const { return debts_.contains(to); }
  void forget(Rank lost) { debts_.erase(lost); }
  // The run is over, and all models are averaged: what is still owed goes into this one, so that
  // the mean is as if each debt had been paid.
  // A mean of n models follows, which divides by n: as much as each debt would have brought to it.
  void settle(std::span<float> model) {
    for (std::size_t i = 0; i < model.size(); ++i) {
      double owed = 0;
      for (const auto& [rank, debt] : debts_) owed += double(debt[i]);
      model[i] = float(double(model[i]) + owed);
    }
    debts_.clear();
  }

  void state(Archive& ar) { ar(anchor_, debts_); }

 private:
  std::vector<float> anchor_;
  std::map<Rank, std::vector<float>> debts_;
};

}  // namespace longhaul::sync::selmcast
