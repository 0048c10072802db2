#pragma once
// The server of FedGSync: groups, quotas, commits, and which updates are urgent.
#include "longhaul/sync/fedgsync_config.h"
#include "longhaul/sync/grouping/commit.h"
#include "longhaul/sync/grouping/urgency.h"
#include "longhaul/sync/round_times.h"
#include "longhaul/sync/server/parameter_server.h"

namespace longhaul::sync {

class FedGSyncServer final : public server::ParameterServer {
 public:
  FedGSyncServer(const FedGSyncConfig& config, const server::Setup& setup)
      : ParameterServer(setup), config_(config) {}
  void on_timer(TimerId, Turn&) override;
  void state(Archive&) override;

  const std::vector<grouping::Group>& groups() const { return groups_; }

 private:
  static constexpr TimerId kDeadline{1}, kLate{2};

  Status check_extension(Rank, const server::ServerHeader&) const override;
  void on_pull(Rank, const server::ServerHeader&) override;
  Taken commit(Rank from, const server::ServerHeader&, std::span<const float> values,
               Turn&) override;
  bool may_read(Rank rank) const override { return !pending_.contains({rank, store().version()}); }
  void on_model_sent(Rank, Turn&) override;
  server::Extension model_extension(Rank) override;
  void drop(Rank) override;
  void on_loss(Turn& turn) override { advance(turn); }
  void on_takeover(Turn& turn) override { set_deadline(began_ = turn.now(), turn); }

  void group(Turn&);
  void advance(Turn&);
  bool are_quotas_met(const Turn&) const;
  void end_round(Turn&);
  void judge(Turn&);
  bool is_in_a_group(Rank) const;
  bool leaves_one_out() const;
  void record_used(Turn&);
  void set_deadline(Time since, Turn&);
  std::vector<grouping::Need> needs(const Turn&) const;
  void classify(Turn&);

  const FedGSyncConfig config_;
  std::vector<grouping::Group> groups_;
  grouping::Pending pending_;                    // updates of the open round
  std::map<Rank, std::vector<float>> sketches_;  // the newest of each live worker
  std::map<Rank, std::uint64_t> samples_;        // that each holds
  std::map<Rank, std::uint64_t> next_;           // updates from older versions it has given before
  std::set<Rank> refused_;                       // to be told
  std::uint32_t lost_ = 0;                       // since groups were made
  Time began_{0};                                // the open round
  Time deadline_{0};                             // of it, once three rounds are known
  RoundTimes times_;
  grouping::Urgencies urgencies_;
  std::map<Rank, std::uint8_t> classes_, told_;
};

}  // namespace longhaul::sync
