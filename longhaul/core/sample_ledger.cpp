#include "longhaul/core/sample_ledger.h"

#include <algorithm>
#include <cmath>

namespace longhaul {
void SampleCounts::add(const SampleCounts& other) {
  computed += other.computed;
  lost += other.lost;
  if (other.used) used = used.value_or(0) + *other.used;
}

void SampleLedger::use(Account& account, const Given& given) {
  account.used += given.samples;
  // A peer may say that its update is of more samples than it has computed.
  if (given.lost) account.lost -= std::min(account.lost, given.samples);
}

bool SampleLedger::take(Rank by, const Record& record) {
  if (!(record.value >= 0)) return false;
  const auto value = std::uint64_t(std::llround(record.value));
  if (record.name == "samples_computed") {
    Account& account = nodes_[by];
    account.gone = false;
    account.computed += value;
    return true;
  }
  if (record.name == "samples_given") {
    exact_ = true;
    auto& given = nodes_[by].given;
    given[record.round] = {value, false};
    while (given.size() > kOpenRounds) given.erase(given.begin());
    return true;
  }
  if (record.name == "samples_used") {
    Account& account = nodes_[Rank(value)];
    const auto found = account.given.find(record.round);
    if (found == account.given.end()) return true;  // heard before, or of another process
    use(account, found->second);
    account.given.erase(found);
    return true;
  }
  return take_push(record);
}

bool SampleLedger::take_push(const Record& record) {
  if (record.name == "rolled_back") {
    roll_back(record.round);
    return true;
  }
  if (!record.name.starts_with("push_")) return false;
  const auto rank = Rank(std::llround(record.value));
  Account& account = nodes_[rank];
  if (record.name == "push_came") {
    exact_ = true;
    account.at_server.push_back({record.round, account.gone});
  } else if (record.name == "push_used" && !account.at_server.empty()) {
    const Given given = account.at_server.front();
    account.at_server.pop_front();
    use(account, given);
    committed_[record.round].push_back({rank, given.samples});
    while (committed_.size() > kVersions) committed_.erase(committed_.begin());
  } else if (record.name == "push_discarded" && !account.at_server.empty()) {
    account.at_server.pop_back();
  }
  return true;
}

void SampleLedger::roll_back(std::uint64_t version) {
  for (auto it = committed_.upper_bound(version); it != committed_.end(); it = committed_.erase(it))
    for (const Commit& commit : it->second) {
      Account& account = nodes_[commit.rank];
      account.used -= commit.samples;
      account.lost += commit.samples;
    }
}

void SampleLedger::node_lost(Rank rank) {
  Account& account = nodes_[rank];
  account.gone = true;
  account.lost = account.computed - std::min(account.computed, account.used);
  for (auto& [round, given] : account.given) given.lost = true;
  for (Given& given : account.at_server) given.lost = true;
}

SampleCounts SampleLedger::counts() const {
  SampleCounts sum;
  if (exact_) sum.used = 0;
  for (const auto& [rank, account] : nodes_) {
    sum.computed += account.computed;
    if (!exact_) continue;
    *sum.used += account.used;
    sum.lost += account.lost;
  }
  return sum;
}

}  // namespace longhaul
