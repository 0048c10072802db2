#pragma once
// All parts to all, and no mean on its way: every node adds what all have encoded. For codecs whose
// vectors may not be added as they are encoded. docs/overlay/gather.md
#include <map>

#include "longhaul/overlay/attempt.h"
#include "longhaul/overlay/reduction.h"

namespace longhaul::overlay {

struct GatherConfig {
  template <class Self, class Visit>
  static void fields(Self&, Visit&&) {}
};

class GatherAttempt final : public Attempt {
 public:
  explicit GatherAttempt(const ExchangeSpec&);

  void contribute(std::uint64_t length, double weight, AttemptContext&) override;
  Status take_announcement(Rank from, const Announcement&, AttemptContext&) override;
  Result<bool> admit(Rank from, const TransferKey&, std::size_t piece) const override;
  Status take(Arrival&&, std::size_t piece, AttemptContext&) override;
  Payload encoded(const TransferKey&, std::size_t piece, AttemptContext&) override;
  Progress progress() const override { return {to_reduce_ == 0, outbox_.empty()}; }
  std::string waiting_for(const std::vector<bool>& mean_pieces) const override;
  void state(Archive&) override;

 private:
  struct Piece {
    bool done = false;
    Reduction reduction{};
    void state(auto& ar) { ar(done, reduction); }
  };
  // This node's own bytes of a piece, once they are written. They outlive the piece's mean: who is
  // slow still gets them.
  struct Own {
    std::optional<Payload> bytes;
    std::uint32_t left = 0;  // sends to come
    void state(auto& ar) { ar(bytes, left); }
  };

  bool all_known() const { return unknown_ == 0; }
  void set_weight(std::uint32_t member, double weight);
  void go_on(AttemptContext&);
  void advance(std::size_t piece, AttemptContext&);
  const Payload& write(Own&, std::size_t piece, AttemptContext&);

  std::vector<double> weights_;  // by member
  std::uint32_t unknown_ = 0;    // members not heard of
  std::uint32_t givers_ = 0;     // members heard of that contribute
  double total_ = 0;             // of all weights, in rank order, once all are known
  std::vector<Piece> pieces_;
  std::size_t to_reduce_ = 0;
  std::map<std::uint32_t, Own> outbox_;  // by piece
};

class Gather final : public Topology {
 public:
  explicit Gather(const GatherConfig&) {}
  Partition cut(std::uint64_t length, std::uint32_t, std::uint64_t chunk) const override {
    return {length, 1, chunk};
  }
  std::optional<RoutePlan> routes(const Partition&, const GroupMembers&) const override;
  std::unique_ptr<Attempt> open(const ExchangeSpec& spec) const override {
    return std::make_unique<GatherAttempt>(spec);
  }
};

}  // namespace longhaul::overlay
