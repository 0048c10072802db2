#pragma once
// An Attempt is one node's part in one try to form the mean of one round in one epoch: who sends
// what to whom, until the mean is here or a new view ends it. An Exchange (exchange.h) owns
// attempts and gives them their inputs; a Topology makes them.
#include <memory>
#include <set>
#include <string>

#include "longhaul/core/overlay.h"
#include "longhaul/overlay/attempt_context.h"
#include "longhaul/overlay/plan.h"

namespace longhaul::overlay {

// What an attempt is about; outlives it.
struct ExchangeSpec {
  VectorId key;
  bool exact = false;
  const GroupMembers* team = nullptr;
  const Plan* plan = nullptr;
  bool of_senders = false;  // each value's mean is over those that sent it: Reduction
  const Partition& grid() const { return plan->grid(); }
};

class Attempt {
 public:
  explicit Attempt(const ExchangeSpec& spec) : spec_(spec) {}
  virtual ~Attempt() = default;

  // Here is this node's contribution; weight 0: none, but it takes part. Members only, once.
  virtual void contribute(std::uint64_t length, double weight, AttemptContext&) = 0;
  virtual Status take_announcement(Rank from, const Announcement&, AttemptContext&) = 0;
  // May `from` give this piece now, in this phase and coding? The key's vector and epoch are this
  // attempt's. False: it was asked for and is no longer needed; it is late, and dropped. Asked
  // when it is announced, and again when it is here.
  virtual Result<bool> admit(Rank from, const TransferKey&, std::size_t piece) const = 0;
  // An admitted piece. An Error: its weight is not what was promised.
  virtual Status take(Arrival&&, std::size_t piece, AttemptContext&) = 0;
  // What an attempt like this one told. Also heard after its round is over here, while it lives.
  virtual Status take_message(Rank from, const AttemptMessage&, AttemptContext&);
  virtual void on_time(AttemptContext&) {}  // due() has come, or is passed
  // What was posted, now that there is room for it.
  virtual Payload encoded(const TransferKey&, std::size_t piece, AttemptContext&) = 0;
  struct Progress {
    bool reduced = false;  // all that this node owns is reduced
    bool drained = false;  // nothing is kept for sending
  };
  virtual Progress progress() const = 0;
  bool reduced() const { return progress().reduced; }
  bool drained() const { return progress().drained; }
  virtual std::string waiting_for(const std::vector<bool>& mean_pieces) const = 0;
  virtual void state(Archive&);

  const ExchangeSpec& spec() const { return spec_; }
  bool contributed() const { return contributed_; }
  // When this attempt wants to be woken, if nothing comes before.
  std::optional<Time> due() const { return due_; }
  // Keys under which something was posted, to be cancelled when the attempt ends early.
  const std::set<TransferKey>& posted() const { return posted_; }

 protected:
  double weight() const { return weight_; }
  void set_contribution(double weight);

  TransferKey key(Phase, Coding, Rank origin) const;
  // The class of what lies `hop` of `hops` links behind its start: see post().
  Service bulk(std::uint32_t hop, std::uint32_t hops) const;
  Announcement share(std::uint64_t length) const;
  // Sends all pieces to `to` when there is room. `hop`: how many links lie behind them; of what
  // waits for a link, older rounds go first, then lower ranges, then what has the longest way.
  void post(const TransferKey&, Rank to, std::vector<Range>, double weight, std::uint32_t hop,
            std::uint32_t hops, AttemptContext&);
  void tell_contributors(std::span<const double> weights, AttemptContext&);
  Error refuse(Rank from, std::string why) const;
  std::string round_text() const { return "round " + std::to_string(spec_.key.round); }

  const ExchangeSpec spec_;
  std::optional<Time> due_;

 private:
  bool contributed_ = false;
  double weight_ = 0;
  std::set<TransferKey> posted_;
};

// Which way every piece of a vector goes, as trees: also of topologies that need none to work.
struct RoutePlan {
  Forest forest;
  Coding means = Coding::down;  // how the mean is written on its way out
  bool all_to_all = false;      // parts go from everybody to everybody, along no tree; no mean does
};

// What a topology wants to be sent and recorded, outside of any exchange.
class TopologyOutput {
 public:
  // To the topology of another member; its epoch is set.
  void tell(Rank to, TopologyMessage notice) { told_.emplace_back(to, std::move(notice)); }
  void record(std::string name, Round round, double value) {  // a figure of the run
    figures_.emplace_back(std::move(name), round, value);
  }
  void carry_out(Epoch, Turn&);

 private:
  std::vector<std::pair<Rank, TopologyMessage>> told_;
  std::vector<std::tuple<std::string, Round, double>> figures_;
};

// What a topology whose nodes agree on its trees, and on others while rounds go on, has besides
// (forest).
class ReplanningTopology {
 public:
  virtual ~ReplanningTopology() = default;
  struct Standing {
    // The round from which the trees of this exchange are in force; 0: they are those of
    // Topology::forest(). Other trees have another beginning.
    Round since = 0;
    // What keeps this node from giving its part to it; nothing: it may.
    std::optional<std::string> hold = {};
  };
  virtual Standing standing(const VectorId&) const = 0;  // asked again when something was heard
  virtual Forest forest_since(Round, const Partition&) const = 0;
  // This node has its part, and gives it unless standing() holds it.
  virtual void on_ready(const VectorId&, const Partition&, TopologyOutput&) = 0;
  virtual void on_contributed(const VectorId&, Time now) = 0;  // this node gives its part now
  virtual void on_mean_ready(const VectorId&, const Partition&, Time now, TopologyOutput&) = 0;
  // A stretch of a vector came from `peer`, or is with the host on its way there.
  struct Moved {
    Rank peer = 0;
    bool sent = false;
    std::uint64_t bytes = 0;
    Time waited{0};  // since it was given to the transfer; of one that was sent
  };
  virtual void on_moved(const Moved&, Time now) = 0;
  virtual Status take(Rank from, const TopologyMessage&, TopologyOutput&) = 0;
};

// A way for parts to become a mean.
class Topology {
 public:
  virtual ~Topology() = default;
  // How a vector of `length` values is cut for so many workers; no piece is longer than a chunk.
  virtual Partition cut(std::uint64_t length, std::uint32_t workers, std::uint64_t chunk) const = 0;
  // Who owns all pieces, if somebody does.
  virtual std::optional<Rank> server(const std::vector<Rank>& members, const View&) const {
    (void)members;
    return std::nullopt;
  }
  // The trees that the pieces of a vector go along, the same at all nodes; nothing: there are none,
  // and pieces belong to workers as Plan deals them.
  virtual std::optional<Forest> forest(const Partition&, const GroupMembers&) const {
    return std::nullopt;
  }
  // For whoever wants to see the plan: all that an exchange to which all contribute sends. Of a
  // topology without a forest, all parts of a piece go straight to its owner, and the mean back.
  // Nothing: it is decided while it runs.
  virtual std::optional<RoutePlan> routes(const Partition&, const GroupMembers&) const;
  virtual std::unique_ptr<Attempt> open(const ExchangeSpec&) const = 0;
  // What outlives attempts. All attempts of the group have ended; null: the group is over.
  virtual void on_team(std::uint32_t group, const GroupMembers*) { (void)group; }
  virtual void state(Archive&) {}

  // Of a topology whose nodes agree on trees; null: they do not. Its state is this one's.
  virtual ReplanningTopology* replanning() { return nullptr; }
};

// Who serves a team: `server`, [roles] server, or the lowest live worker where it is absent or
// lost.
Rank serving(std::optional<Rank> server, const std::vector<Rank>& members, const View&);

Contributors contributors_of(const GroupMembers&, const CodecKey&, const std::vector<Rank>& counted,
                             double weight);

// The class of pieces and shares.
inline constexpr Service kBulk{.priority = 4};
// "2, 5 and 7 more"
std::string list_ranks(const std::vector<Rank>& ranks);
// "rank 2", "ranks 2, 5"
std::string named_ranks(const std::vector<Rank>& ranks);

}  // namespace longhaul::overlay
