#pragma once
// The attempt of ring (Patarasu and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of
// workstations", 2009): members stand in a circle. The pieces of owner k start at the member after
// k and go round once; every member mixes its own part into the mean so far,
//     m <- m + (a / A) (z - m)    A: sum of the weights so far, with a
// until the owner has the mean, which then goes round once more, unchanged. n - 1 and n - 1 hops.
#include <map>

#include "longhaul/overlay/attempt.h"

namespace longhaul::overlay {

class RingAttempt final : public Attempt {
 public:
  // streamed: every piece is passed on when it comes; else when all pieces of its owner are here.
  // `circle`: all members in the order in which they stand; none: by rank.
  RingAttempt(const ExchangeSpec& spec, bool streamed, std::vector<Rank> circle = {});

  void contribute(std::uint64_t length, double weight, AttemptContext&) override;
  Status take_announcement(Rank from, const Announcement&, AttemptContext&) override;
  Result<bool> admit(Rank from, const TransferKey&, std::size_t piece) const override;
  Status take(Arrival&&, std::size_t piece, AttemptContext&) override;
  Payload encoded(const TransferKey&, std::size_t piece, AttemptContext&) override;
  // All who own something are members: nothing is reduced for others alone.
  Progress progress() const override { return {false, outbox_.empty()}; }
  std::string waiting_for(const std::vector<bool>& mean_pieces) const override;
  void state(Archive&) override;

 private:
  struct Early {  // a part that came before this node's contribution
    std::vector<float> values;
    double weight = 0;
    void state(auto& ar) { ar(values, weight); }
  };

  std::uint32_t size() const { return std::uint32_t(circle_.size()); }
  Rank member(std::uint32_t index) const { return circle_[index % size()]; }
  std::uint32_t stand_of(Rank rank) const { return stands_[*spec_.team->index_of(rank)]; }
  Rank next() const { return member(self_ + 1); }
  Rank previous() const { return member(self_ + size() - 1); }
  // Links between the member where this owner's pieces start and `index`.
  std::uint32_t way(Rank owner, std::uint32_t index) const;
  TransferKey part_key(Rank owner, std::uint32_t index) const;

  void start(AttemptContext&);
  void note_share(Rank from, double weight, AttemptContext&);
  void mix(std::size_t piece, std::vector<float> values, double weight, AttemptContext&);
  void finish(std::size_t piece, std::span<const float> mean, double weight, AttemptContext&);
  void pass_on(const TransferKey&, std::size_t piece, Payload, double weight, std::uint32_t hop,
               AttemptContext&);

  const bool streamed_;
  const std::vector<Rank> circle_;
  std::vector<std::uint32_t> stands_;  // of each member: its index in the circle
  const std::uint32_t self_;           // this node's
  std::vector<double> weights_;        // by member; only at the root, for the roster
  std::uint32_t unknown_ = 0;          // members the root has not heard of
  std::uint32_t previous_shares_ = 0;
  std::vector<bool> parts_;  // pieces that came as part
  std::map<std::uint32_t, Early> early_;
  std::map<std::pair<std::uint8_t, std::uint32_t>, Payload> outbox_;  // (phase, piece)
  // sequential: pieces of (phase, owner) that are here and not passed on
  std::map<std::pair<std::uint8_t, Rank>, std::uint64_t> held_;
};

}  // namespace longhaul::overlay
