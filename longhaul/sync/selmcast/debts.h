#pragma once
// Debts holds the model updates that a worker owes each other worker: payload = "update" of
// selmcast. With n workers, each update counts 1/n. A receiver gets everything that it is owed. So
// each worker applies each update of each other worker once, independent of the rounds in which it
// receives. Not from the paper.
#include <map>
#include <span>
#include <vector>

#include "longhaul/base/archive.h"
#include "longhaul/core/types.h"

namespace longhaul::sync::selmcast {

class Debts {
 public:
  // Sets the model from which the next local steps begin.
  void begin(std::span<const float> model) { anchor_.assign(model.begin(), model.end()); }
  // Called when the steps are done. Their change counts 1/n: at this worker, in `model`, and as a
  // debt to each of `others`, n - 1 of them.
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

  // Returns the debt. pay() reduces it by `sent`: a codec may have left out a part. take_back() of
  // the payment owes it again; settle_payments(): none is taken back any more.
  const std::vector<float>& owed(Rank to) const { return debts_.at(to); }
  void pay(Rank to, std::span<const float> sent) {
    std::vector<float>& debt = debts_.at(to);
    LH_CHECK(sent.size() == debt.size());
    for (std::size_t i = 0; i < debt.size(); ++i) debt[i] -= sent[i];
    paid_[to].assign(sent.begin(), sent.end());
  }
  void take_back(Rank to) {
    const auto paid = paid_.find(to);
    if (paid == paid_.end()) return;
    std::vector<float>& debt = debts_.at(to);
    for (std::size_t i = 0; i < debt.size(); ++i) debt[i] += paid->second[i];
    paid_.erase(paid);
  }
  void settle_payments() { paid_.clear(); }

  bool owes(Rank to) const { return debts_.contains(to); }
  void forget(Rank lost) {
    debts_.erase(lost);
    paid_.erase(lost);
  }
  // Called at the end of the run, before all models are averaged. Adds all remaining debts to
  // `model`, so that the mean is as if each debt had been paid. The mean of n models divides by n,
  // and so brings each debt with the weight that it would have had.
  void settle(std::span<float> model) {
    for (std::size_t i = 0; i < model.size(); ++i) {
      double owed = 0;
      for (const auto& [rank, debt] : debts_) owed += double(debt[i]);
      model[i] = float(double(model[i]) + owed);
    }
    debts_.clear();
    paid_.clear();
  }

  void state(Archive& ar) { ar(anchor_, debts_, paid_); }

 private:
  std::vector<float> anchor_;
  std::map<Rank, std::vector<float>> debts_;
  std::map<Rank, std::vector<float>> paid_;  // last payments, which their receivers may lack
};

}  // namespace longhaul::sync::selmcast
