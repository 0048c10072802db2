#pragma once
// Finish means: go on serving relays, fetches and acknowledgements until all members have finished.
// Each node tells the lowest live rank; that one tells all. 2n messages; a new view asks again.
#include <map>

#include "longhaul/core/machine.h"

namespace longhaul {

class FinishBarrier final : public Machine {
 public:
  struct Done {
    static constexpr std::uint16_t kKind = 1;
    static constexpr std::string_view kName = "done";
    Epoch epoch = 0;
    LONGHAUL_FIELDS(epoch)
  };
  struct AllDone {
    static constexpr std::uint16_t kKind = 2;
    static constexpr std::string_view kName = "all_done";
    Epoch epoch = 0;
    LONGHAUL_FIELDS(epoch)
  };
  using Messages = MessageList<Done, AllDone>;

  void arrive(Turn&);  // this node has finished; idempotent
  bool arrived() const { return arrived_; }
  bool complete() const { return complete_; }  // everybody has
  std::string waiting_for(const View&) const;

  Status on_message(Rank from, const Message&, Turn&) override;
  void on_view(const View& before, Turn&) override;
  void state(Archive& ar) override { ar(arrived_, complete_, done_); }

 private:
  void tell(Turn&);
  void note(Rank rank, Epoch, Turn&);

  bool arrived_ = false;
  bool complete_ = false;
  std::map<Rank, Epoch> done_;  // at the lowest rank: who has told, the epoch of that
};

}  // namespace longhaul
