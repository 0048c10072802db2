#pragma once
// The agreed mean: under every synchronous strategy (docs/overlay/README.md).
//
// agreed_mean(G, round, z, a) = sum a_i z_i / sum a_i over exactly the members of G, or nobody gets
// one. G are the live workers of an epoch. While nothing is lost a Topology brings the parts
// together. On a new view the attempt is frozen, and all survivors report what they have: if any
// has the mean of the round, the others fetch it from the lowest such rank, and the share of
// whoever was lost counts. If none has it, all repeat with the same values in the new epoch.
//
// Why it is safe: who took a mean and lives says so; who said that it has none is frozen. A member
// contributes to round r+1 only after it has the mean of r, so a piece of the mean of r+1 proves
// that nobody will fetch r any more: until then it is kept.
//
// Rounds of one (group, range) count 0, 1, 2 ... without a gap, and all its vectors are of one
// length. A peer may be one round ahead. Memory: docs/overlay/README.md.
//
// A node that comes back (newcomer.cpp) takes part from the round that the others' reports say, and
// reports nothing itself before it has had a mean.
#include <functional>

#include "longhaul/core/registry.h"
#include "longhaul/overlay/sequence.h"

namespace longhaul::overlay {

class AgreedMean final : public Overlay, private VectorPort {
 public:
  using Messages = overlay::Messages;

  AgreedMean(const Place&, OverlayParts, std::unique_ptr<Topology>);
  ~AgreedMean() override;

  Status begin(const VectorId&, const Contribution&, Turn&) override;
  std::optional<Round> next_round(std::uint32_t group, std::uint32_t range) const override;
  std::optional<Outcome> poll(const VectorId&) override;
  std::string waiting_for() const override;
  std::optional<Traffic> planned(std::uint64_t length) const override;
  void training_loss(double loss) override { transfer_->training_loss(loss); }
  Time giving() const override { return given_.took; }

  Status on_message(Rank from, const Message&, Turn&) override;
  void on_view(const View& before, Turn&) override;
  void on_timer(TimerId, Turn&) override;
  void on_progress(Turn&) override;
  void state(Archive&) override;

 private:
  using Id = std::pair<std::uint32_t, std::uint32_t>;  // (group, range)
  class Scene;                                         // a Desk
  class Table;                                         // a Council
  enum class When { now, late };
  struct Arrived {
    TransferKey key;
    Range range;
    Payload bytes;
  };

  // VectorPort
  Payload encoded(const TransferKey&, Range) override;
  Status admit(Rank from, const TransferKey&, Range) override;
  Result<std::vector<float>> decode(const TransferKey&, Range, const Payload&) override;

  // agreed.cpp
  Status take(Rank from, const Share&, Turn&);
  Status take(Rank from, const Roster&, Turn&);
  Status take(Rank from, const Report&, Turn&);
  Status take(Rank from, const Fetch&, Turn&);
  Status take(Rank from, const Note&, Turn&);
  Status take(Rank from, const Notice&, Turn&);
  Grid grid_of(std::uint64_t length) const;
  Result<Sequence*> sequence(Id, std::uint64_t length, bool exact);
  Sequence* find(Id);
  const Sequence* find(Id) const;
  // Is a message of this attempt to be heeded? An Error: only a broken peer can say it.
  Result<When> when(Epoch, const CodecKey&) const;
  void late(const CodecKey&, Turn&);
  void arrived(Arrival&&, Turn&);
  Attempt& attempt(Sequence&, Round);
  void give(Sequence&, Turn&);
  void settle(Sequence&, Turn&);
  void wind(Turn&);  // the timer
  void drop(Sequence&, Round);
  void open_mean(Sequence&, Round);
  void put_piece(Sequence&, Round, std::size_t piece, std::span<const float>);
  void put_roster(Sequence&, Round, std::vector<Rank> counted, double weight, Epoch formed);
  bool has_piece(const Sequence&, Round, std::size_t piece) const;
  std::uint64_t longest_vector() const;
  void state(Archive&, Sequence&);

  // replanning.cpp: topologies that plan anew while rounds go on
  const Plan* plan_of(Sequence&, Round);
  void forget_plans(Sequence&);
  void measure(Turn&);
  void tell_ended(Sequence&, Round, Turn&);

  // recovery.cpp: what a new view means
  void form_team(const View&);
  std::unique_ptr<Plan> make_plan(const Grid&, Round since) const;
  void resolve(Turn&);
  TransferKey repair_key(const Sequence&) const;

  // newcomer.cpp: a node that has come back
  bool newcomer() const { return newcomer_; }
  Status follow(const Share&);
  void forget_borrowed();
  void be_told();
  Round told(Id id) const;

  const Place place_;
  std::unique_ptr<Transfer> transfer_;
  std::unique_ptr<Topology> topology_;
  Coder coder_;
  Team team_;
  std::map<Id, Sequence> sequences_;
  // After a new view, until all survivors' reports are in.
  std::set<Rank> unheard_;
  std::map<Rank, std::map<Id, Round>> reports_;
  bool newcomer_;                         // has come back
  std::map<Id, Round> told_;              // a newcomer: the rounds that others have had
  std::set<std::pair<Rank, Id>> served_;  // fetches of this epoch
  std::vector<Arrived> arrived_bytes_;    // of means; empty between turns
  std::optional<Time> alarm_;             // the timer that is set
  struct Given {                          // parts of range 0 that have left for all their receivers
    Round round = 0;
    Time took{0};
    void state(Archive& ar) { ar(round, took); }
  };
  Given given_;
};

}  // namespace longhaul::overlay
