#include "longhaul/core/sample_ledger.h"

#include <algorithm>
#include <cmath>

namespace longhaul {

std::uint64_t SampleLedger::Account::lost() const {
  // A peer may say that its update is of more samples than it has computed.
  const std::uint64_t with_node = computed_before - std::min(computed_before, used_before);
  return std::min(with_node + taken_back, computed - std::min(computed, used));
}

void SampleLedger::use(Account& account, const Given& given) {
  account.used += given.samples;
  if (given.lost) account.used_before += given.samples;
}

bool SampleLedger::take(Time at, Rank by, const Record& record) {
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
    use_of_round(Rank(value), record.round);
    return true;
  }
  return take_push(at, record);
}

void SampleLedger::use_of_round(Rank rank, Round round) {
  Account& account = nodes_[rank];
  if (const auto found = account.given.find(round); found != account.given.end()) {
    use(account, found->second);
    account.given.erase(found);
    return;
  }
  // Heard before, or what was given is in the ledger of another process.
  std::deque<Round>& heard = heard_[rank];
  if (std::ranges::find(heard, round) != heard.end()) return;
  heard.push_back(round);
  if (heard.size() > kOpenRounds) heard.pop_front();
}

bool SampleLedger::take_push(Time at, const Record& record) {
  if (record.name == "rolled_back") {
    rolled_back_.push_back({record.round, at});
    if (rolled_back_.size() > kRollBacks) rolled_back_.pop_front();
    roll_back(rolled_back_.back(), nodes_);
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
    committed_[record.round].push_back({rank, given.samples, at});
    while (committed_.size() > kVersions) committed_.erase(committed_.begin());
  } else if (record.name == "push_discarded" && !account.at_server.empty()) {
    account.at_server.pop_back();
  }
  return true;
}

// Of the accounts in `nodes`, which hold what is committed here.
void SampleLedger::roll_back(const RollBack& to, std::map<Rank, Account>& nodes) {
  for (auto it = committed_.upper_bound(to.version); it != committed_.end(); ++it)
    std::erase_if(it->second, [&](const Commit& commit) {
      if (commit.at > to.at) return false;  // it became the server again later
      Account& account = nodes[commit.rank];
      account.used -= commit.samples;
      account.taken_back += commit.samples;
      return true;
    });
}

void SampleLedger::node_lost(Rank rank) {
  Account& account = nodes_[rank];
  account.gone = true;
  account.computed_before = account.computed;
  account.used_before = account.used;
  account.taken_back = 0;
  for (auto& [round, given] : account.given) given.lost = true;
  for (Given& given : account.at_server) given.lost = true;
}

void SampleLedger::node_returned(Rank rank) { nodes_[rank].gone = false; }

SampleCounts SampleLedger::counts() const {
  SampleCounts sum;
  if (exact_) sum.used = 0;
  for (const auto& [rank, account] : nodes_) {
    sum.computed += account.computed;
    if (!exact_) continue;
    *sum.used += account.used;
    sum.lost += account.lost();
  }
  return sum;
}

void SampleLedger::add(const Account& other, Rank rank) {
  Account& account = nodes_[rank];
  account.computed += other.computed;
  account.used += other.used;
  account.computed_before += other.computed_before;
  account.used_before += other.used_before;
  account.taken_back += other.taken_back;
  for (const auto& [round, given] : other.given) account.given[round] = given;
}

SampleLedger SampleLedger::joined(std::vector<OfNode> ledgers) {
  SampleLedger all;
  for (OfNode& one : ledgers) {
    if (one.is_lost) one.ledger.node_lost(one.rank);
    all.exact_ |= one.ledger.exact_;
    for (const auto& [rank, account] : one.ledger.nodes_) all.add(account, rank);
  }
  for (const OfNode& one : ledgers)
    for (const auto& [rank, rounds] : one.ledger.heard_)
      for (const Round round : rounds) all.use_of_round(rank, round);
  for (const OfNode& successor : ledgers)
    for (const RollBack& to : successor.ledger.rolled_back_)
      for (OfNode& one : ledgers)
        if (one.rank != successor.rank) one.ledger.roll_back(to, all.nodes_);
  return all;
}

}  // namespace longhaul
