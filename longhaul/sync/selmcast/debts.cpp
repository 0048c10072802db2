#include "longhaul/sync/selmcast/debts.h"

namespace longhaul::sync::selmcast {

void Debts::add(std::span<float> model, const std::vector<Rank>& others) {
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

void Debts::pay(Rank to, std::span<const float> sent) {
  std::vector<float>& debt = debts_.at(to);
  LH_CHECK(sent.size() == debt.size());
  for (std::size_t i = 0; i < debt.size(); ++i) debt[i] -= sent[i];
}

// A mean of n models follows, which divides by n: as much as each debt would have brought to it.
void Debts::settle(std::span<float> model) {
  for (std::size_t i = 0; i < model.size(); ++i) {
    double owed = 0;
    for (const auto& [rank, debt] : debts_) owed += double(debt[i]);
    model[i] = float(double(model[i]) + owed);
  }
  debts_.clear();
}

}  // namespace longhaul::sync::selmcast
