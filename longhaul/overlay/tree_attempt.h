#pragma once
// The attempt of all overlays that work along trees (tree.h). A node sends up, piece by piece, the
// mean of all that stand below it, itself first and then its children in ascending order,
//     m <- m + (a / A) (z - m)    A: sum of the weights so far, with a
// in double, rounded once a node; who has nothing to add to its own sends its own bytes. The root
// has the mean, which goes down in the very bytes in which the root wrote it.
//
// A share goes to all who stand above. So every node knows the weight of all that is below each
// child before it mixes, and waits for nothing from those that bring nothing.
#include <map>

#include "longhaul/overlay/attempt.h"

namespace longhaul::overlay {

class TreeAttempt final : public Attempt {
 public:
  // streamed: a piece goes on when it is mixed, or has come; else when all pieces of its tree are.
  // interleaved: pieces that wait for a link go in the order of the vector, whatever their trees,
  // and the farther behind it the more links they have crossed (Forest::lag); else tree by tree.
  TreeAttempt(const ExchangeSpec& spec, bool streamed, bool interleaved = false);

  void contribute(std::uint64_t length, double weight, AttemptContext&) override;
  Status take_announcement(Rank from, const Announcement&, AttemptContext&) override;
  Result<bool> admit(Rank from, const TransferKey&, std::size_t piece) const override;
  Status take(Arrival&&, std::size_t piece, AttemptContext&) override;
  Payload encoded(const TransferKey&, std::size_t piece, AttemptContext&) override;
  Progress progress() const override { return {to_reduce_ == 0, outbox_.empty()}; }
  std::string waiting_for(const std::vector<bool>& mean_pieces) const override;
  void state(Archive&) override;

 private:
  struct Known {                              // of a tree
    std::uint32_t unknown = 0;                // who stand below and have not told their weight
    std::vector<double> upstream_children{};  // the weight of each, once all are known
    double all = 0;                           // with this node's own
  };
  struct Out {
    Payload bytes;
    std::uint32_t left = 0;  // sends to come
    void state(auto& ar) { ar(bytes, left); }
  };

  const TreeSet& tree_set() const { return spec_.plan->tree_set(); }
  const TreeNode& branch_of(std::size_t piece) const {
    return tree_set().branch(tree_set().tree_of(piece));
  }
  bool is_root(const TreeNode& branch) const { return branch.root == self_; }
  bool is_teller() const { return spec_.plan->root() == spec_.team->self; }
  // The child's number in the branch, if it is one.
  static std::optional<std::size_t> upstream_child_of(const TreeNode&,
                                                      std::optional<std::uint32_t> place);
  bool stands_below(std::uint32_t place, std::uint32_t tree) const;
  bool is_here(std::size_t piece, std::uint32_t place) const;
  bool knows(std::uint32_t tree) const;  // all it needs to begin

  void recount(std::uint32_t tree);
  void set_weight(std::uint32_t place, double weight, AttemptContext&);
  void begin(std::uint32_t tree, AttemptContext&);
  void begin_alone(std::uint32_t tree, AttemptContext&);
  void advance(std::size_t piece, AttemptContext&);
  // `way`: the links that lie before it.
  void send(const TransferKey&, std::uint32_t place, const std::vector<Range>&, double weight,
            std::uint32_t way, AttemptContext&);
  std::vector<float> mix(std::size_t piece, AttemptContext&);
  void finish(std::size_t piece, std::span<const float> mean, double weight, AttemptContext&);
  void spread(const TransferKey&, std::size_t piece, Payload, double weight, AttemptContext&);
  std::vector<Range> ready(Phase, std::size_t piece);
  std::vector<Rank> silent() const;
  std::vector<Rank> slow_children() const;

  const bool streamed_;
  const bool interleaved_;
  const std::uint32_t self_;           // place
  std::vector<double> weights_;        // by place
  std::uint32_t pending_weights_ = 0;  // members that whoever tells the roster has not heard of
  std::vector<Known> known_;           // by tree; follows from weights_
  std::size_t to_reduce_ = 0;          // pieces whose root this is
  std::vector<bool> mixed_;            // pieces of which nothing more is to come up
  std::map<std::uint32_t, std::map<std::uint32_t, std::vector<float>>> waiting_;  // piece, place
  std::map<std::pair<std::uint8_t, std::uint32_t>, Out> outbox_;                  // (phase, piece)
  // sequential: pieces of (phase, tree) that are here and have not gone on
  std::map<std::pair<std::uint8_t, std::uint32_t>, std::uint64_t> held_;
};

}  // namespace longhaul::overlay
