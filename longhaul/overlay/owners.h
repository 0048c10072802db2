#pragma once
// The attempt of direct and hub: every piece has an owner; all send their parts of it there, and
// the owner sends its mean to all. Direct: every worker owns its share of the pieces. Hub: one
// node, the server, owns them all; it may be no member at all.
#include <map>

#include "longhaul/overlay/attempt.h"
#include "longhaul/overlay/reduction.h"

namespace longhaul::overlay {

struct OwnersOptions {
  bool streamed = true;      // false: means go out when all that a node owns is reduced
  bool exact_means = false;  // means as fp32 whatever the codec
  std::uint32_t window = 0;  // pieces per member on their way without their mean; 0: no limit
};

class Owners final : public Attempt {
 public:
  Owners(const ExchangeSpec& spec, const OwnersOptions& options);

  void contribute(std::uint64_t length, double weight, AttemptContext&) override;
  Status take_announcement(Rank from, const Announcement&, AttemptContext&) override;
  Result<bool> admit(Rank from, const TransferKey&, std::size_t piece) const override;
  Status take(Arrival&&, std::size_t piece, AttemptContext&) override;
  Payload encoded(const TransferKey&, std::size_t piece, AttemptContext&) override;
  Progress progress() const override { return {to_reduce_ == 0, outbox_.empty()}; }
  std::string waiting_for(const std::vector<bool>& mean_pieces) const override;
  void state(Archive&) override;

 private:
  struct Slot {  // of an owned piece
    bool open = false;
    bool done = false;
    Reduction reduction{};
    void state(auto& ar) { ar(open, done, reduction); }
  };
  struct Out {
    Payload bytes;
    std::uint32_t left = 0;  // sends to come
    void state(auto& ar) { ar(bytes, left); }
  };

  bool owns(std::size_t piece) const { return spec_.plan->owner(piece) == spec_.team->self; }
  bool all_known() const { return unknown_ == 0; }
  std::vector<Rank> other_owners() const;
  std::size_t slot_of(std::size_t piece) const;
  TransferKey mean_key(Rank owner) const;
  void set_weight(std::uint32_t member, double weight);
  void send_parts(AttemptContext&);
  void go_on(AttemptContext&);
  void advance(std::size_t slot, AttemptContext&);
  void finish(std::size_t slot, AttemptContext&);
  void send_means(std::vector<Range>, AttemptContext&);

  const OwnersOptions options_;
  const std::span<const std::uint32_t> mine_;  // pieces
  std::vector<double> weights_;                // by member; only at owners
  std::uint32_t unknown_ = 0;                  // members not heard of
  std::uint32_t givers_ = 0;                   // members heard of that contribute
  double total_ = 0;                           // of all weights, in rank order, once all are known
  std::vector<Slot> slots_;                    // by place in mine_
  std::size_t to_reduce_ = 0;
  std::uint64_t begun_parts_ = 0;        // with a window: pieces posted so far
  std::map<std::uint32_t, Out> outbox_;  // means, by piece
};

}  // namespace longhaul::overlay
