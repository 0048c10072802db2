#pragma once
// The agreed mean: under every synchronous strategy (docs/overlay/README.md).
//
// agreed_mean(G, round, z, a) = sum a_i z_i / sum a_i over exactly the members of G, or nobody gets
// one. G are the live members of a group in one epoch. While nothing is lost a Topology brings the
// parts together; what follows a loss is the Group's business (group.h).
//
// An AgreedMean owns the groups of a node and what they share (transfer, topology, codecs), passes
// messages and pieces to the group that they name, and keeps one timer for all. Group 0 are all
// workers, from the beginning. A peer can make a node keep kMostOpened exchanges or groups that the
// node itself has not begun.
#include "longhaul/core/registry.h"
#include "longhaul/overlay/group.h"

namespace longhaul::overlay {

class AgreedMean final : public Overlay, private VectorPort {
 public:
  using Messages = overlay::Messages;
  static constexpr std::size_t kMostOpened = 64;

  AgreedMean(const Place&, OverlayParts, std::unique_ptr<Topology>);

  Status begin(const VectorId&, const std::vector<Rank>& members, const Contribution&,
               Turn&) override;
  std::optional<Round> next_round(std::uint32_t group, std::uint32_t range) const override;
  std::optional<Outcome> poll(const VectorId&) override;
  void close(std::uint32_t group, Turn&) override;
  std::string waiting_for() const override;
  std::optional<Traffic> planned(std::uint64_t length) const override;

  Status on_message(Rank from, const Message&, Turn&) override;
  void on_view(const View& before, Turn&) override;
  void on_timer(TimerId, Turn&) override;
  void on_progress(Turn&) override;
  void state(Archive&) override;

  std::size_t groups() const { return groups_.size(); }
  Time gave() const { return given_.took; }  // of the newest contribution that has left

 private:
  // VectorPort
  Payload encoded(const TransferKey&, Range) override;
  Status admit(Rank from, const TransferKey&, Range) override;
  Result<std::vector<float>> decode(const TransferKey&, Range, const Payload&) override;
  std::span<const float> part_values(const TransferKey&, Range) override;
  Payload encode_part(const TransferKey&, Range, std::span<const float> values) override;

  Status take(Rank from, const Announcement&, Turn&);
  Status take(Rank from, const Report&, Turn&);
  Status take(Rank from, const AttemptMessage&, Turn&);
  Status take(Rank from, const TopologyMessage&, Turn&);
  Status take(Rank from, const Closed&, Turn&);
  Status take(Rank from, const Contributors&, Turn&);
  Status take(Rank from, const Fetch&, Turn&);
  template <class M>
  Status pass_on(Rank from, const M&, Turn&);
  bool is_over(Epoch) const;
  // The group that a peer speaks of, opened if it is new. Null: it is of an epoch that is over.
  Result<Group*> open(Rank from, std::uint32_t number, const std::vector<std::uint8_t>& members,
                      Epoch);
  Group* find(std::uint32_t group);
  const Group* find(std::uint32_t group) const;
  std::size_t opened_by(Rank peer) const;
  GroupTurn both(Turn& turn) { return {turn, within(*common_.transfer, turn)}; }
  void measure(Turn&);
  void finish(Turn&);  // after any input
  void drop(std::uint32_t group);

  Common common_;
  std::map<std::uint32_t, Group> groups_;  // by number
  std::optional<Time> alarm_;              // the timer that is set
  struct Given {                           // parts of range 0 that have left for all receivers
    VectorId id;
    Time took{0};
    void state(Archive& ar) { ar(id, took); }
  };
  Given given_;
};

}  // namespace longhaul::overlay
