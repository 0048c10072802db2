#pragma once
// FinalReturn is how a worker that has come back comes to the model that the others end with
// (final_mean.h): it takes part in their mean, with or without a model of its own. If the mean was
// formed before it came, it asks the senior worker, which answers when it has ended itself.
#include <optional>
#include <set>

#include "longhaul/sync/gossip/final_mean.h"
#include "longhaul/sync/state_transfer.h"

namespace longhaul::sync::gossip {

class FinalReturn final : public Machine {
 public:
  struct FinalAsked {
    static constexpr std::uint16_t kKind = 1;
    static constexpr std::string_view kName = "final_asked";
    Epoch epoch = 0;  // in which the sender came back
    LONGHAUL_FIELDS(epoch)
  };
  using Messages = MessageList<FinalAsked>;

  explicit FinalReturn(FinalMean& mean) : mean_(mean) { own(transfer_, {1, "state transfer"}); }

  // At a worker that has come back, instead of FinalMean::begin() and take(); in every turn: true,
  // once: params() is the final model. `gives`: its own is one of the run's. `overlay`: the turn as
  // the overlay sees it. An Error: nobody is left who has the final model, or values that are not
  // finite.
  Result<bool> follow(bool gives, Turn& turn, Turn overlay);
  // At a worker that has ended, in every turn: params() is the final model.
  void serve(Turn& turn);

  Status on_message(Rank from, const Message&, Turn&) override;
  void on_view(const View& before, Turn&) override;
  void state(Archive& ar) override { ar(begun_, missed_, asked_of_, asking_); }

 private:
  FinalMean& mean_;
  StateTransfer transfer_;
  bool begun_ = false, missed_ = false;
  std::optional<Rank> asked_of_;
  std::set<Rank> asking_;  // at the others
};

}  // namespace longhaul::sync::gossip
