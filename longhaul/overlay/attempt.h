#pragma once
// An Attempt is one node's part in one try to form the mean of one round in one epoch: who sends
// what to whom, until the mean is here or a new view ends it. An Exchange (exchange.h) owns
// attempts and gives them their inputs; a Topology makes them.
#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "longhaul/core/coder.h"
#include "longhaul/core/overlay.h"
#include "longhaul/core/transfer.h"
#include "longhaul/overlay/messages.h"
#include "longhaul/overlay/plan.h"

namespace longhaul::overlay {

// What an attempt is given with every input, and what it answers with. Plain data and one concrete
// object: nothing calls back.

// The numbers of one round at one node: its own contribution, and the codecs. Made for one input;
// what it refers to outlives it.
class ExchangeBuffers {
 public:
  // `own_key`: of what this node writes. `own`: its contribution; empty: none, or a phantom's.
  ExchangeBuffers(Coder& coder, const Partition& grid, const CodecKey& own_key, bool exact,
                  std::span<const float> own)
      : coder_(&coder), grid_(&grid), own_key_(own_key), exact_(exact), own_(own) {}

  // This node's contribution to a piece, as written for the others, and as they read it.
  Payload own_bytes(std::size_t piece) const {
    const Range at = grid_->range(piece);
    return coder_->write(own_key_, exact_ ? Coding::exact : Coding::up, at,
                         own_.empty() ? own_ : own_.subspan(at.offset, at.length));
  }

  std::vector<float> own_values(std::size_t piece) const {
    return read(piece, exact_ ? Coding::exact : Coding::up, own_bytes(piece));
  }

  // Numbers of this node's making as bytes, and as read from them. `coding` is exact or down.
  Payload write(std::size_t piece, Coding coding, std::span<const float> values) const {
    return coder_->write(own_key_, coding, grid_->range(piece), values);
  }

  std::vector<float> read(std::size_t piece, Coding coding, const Payload& bytes) const {
    auto values = coder_->read(own_key_, coding, grid_->range(piece), bytes);
    LH_CHECK(values);  // our own bytes
    return *std::move(values);
  }

 private:
  Coder* coder_;
  const Partition* grid_;
  CodecKey own_key_;
  bool exact_;
  std::span<const float> own_;
};

// What an attempt wants done. Its Exchange does it when the attempt has returned, in this order.
struct AttemptActions {
  struct Told {
    VectorId about;  // whose attempt at `to` it is for
    Rank to = 0;
    AttemptMessage note;  // its epoch and vector are set when it is sent
    Service service;
  };
  std::map<std::size_t, std::vector<float>> means;  // these pieces of the mean are final
  // Everybody's share is known: these are counted, with this sum of weights.
  std::vector<std::pair<std::vector<Rank>, double>> contributors_known;
  std::vector<std::pair<Rank, Announcement>> shares;
  std::vector<Told> notes;  // to oneself: in the next turn
  std::optional<Contributors> roster;
  std::vector<Rank> contributors_to;
  // What of this was posted and has not gone out is dropped, before anything new is posted.
  std::vector<std::pair<TransferKey, Rank>> cancelled;
  std::vector<Outgoing> posts;
  std::string given_up;  // why this run cannot go on; "": it can
};

struct AttemptContext : AttemptActions {
  explicit AttemptContext(const ExchangeBuffers& numbers, Time time = Time{0}, Payload bytes = {})
      : buffers(numbers), now(time), arrived(std::move(bytes)) {}
  ExchangeBuffers buffers;
  Time now;  // of the run; not within Attempt::encoded(), which nothing may depend on the time of
  Payload arrived;  // the bytes that the piece now taken came as; for passing them on unchanged
};

inline Contributors contributors_of(const GroupMembers& team, const CodecKey& key,
                                    const std::vector<Rank>& counted, double weight) {
  return {team.epoch, key, weight, to_bits(counted), team.epoch};
}

// The class of pieces and shares.
inline constexpr Service kBulk{.priority = 4};
// "2, 5 and 7 more"
inline std::string list_ranks(const std::vector<Rank>& ranks) {
  constexpr std::size_t kMost = 8;
  std::string text;
  for (std::size_t i = 0; i < std::min(ranks.size(), kMost); ++i)
    text += (i > 0 ? ", " : "") + std::to_string(ranks[i]);
  if (ranks.size() > kMost) text += " and " + std::to_string(ranks.size() - kMost) + " more";
  return text;
}

// "rank 2", "ranks 2, 5"
inline std::string named_ranks(const std::vector<Rank>& ranks) {
  return (ranks.size() == 1 ? "rank " : "ranks ") + list_ranks(ranks);
}

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
  virtual Status take_message(Rank from, const AttemptMessage&, AttemptContext&) {
    return refuse(from, "a note, which this overlay has none of");
  }

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
  virtual void state(Archive& ar) { ar(contributed_, weight_, posted_); }

  const ExchangeSpec& spec() const { return spec_; }
  bool contributed() const { return contributed_; }
  // When this attempt wants to be woken, if nothing comes before.
  std::optional<Time> due() const { return due_; }
  // Keys under which something was posted, to be cancelled when the attempt ends early.
  const std::set<TransferKey>& posted() const { return posted_; }

 protected:
  double weight() const { return weight_; }
  void set_contribution(double weight) {
    LH_CHECK(!contributed_ && spec_.team->takes_part());
    contributed_ = true;
    weight_ = weight;
  }

  TransferKey key(Phase phase, Coding coding, Rank origin) const {
    return {spec_.team->epoch,
            {spec_.key, origin},
            std::uint8_t(phase),
            spec_.exact ? Coding::exact : coding};
  }

  // The class of what lies `hop` of `hops` links behind its start: see post().
  Service bulk(std::uint32_t hop, std::uint32_t hops) const {
    Service service = kBulk;
    constexpr std::uint32_t kRanges = 64;  // those beyond share a place
    const std::uint32_t range = std::min(spec_.key.range, kRanges - 1);
    service.order = std::uint32_t((spec_.key.round * kRanges + range) * hops + hop);
    return service;
  }

  Announcement share(std::uint64_t length) const {
    return {spec_.team->epoch, {spec_.key, spec_.team->self}, length, spec_.exact, weight_,
            spec_.team->name};
  }

  // Sends all pieces to `to` when there is room. `hop`: how many links lie behind them; of what
  // waits for a link, older rounds go first, then lower ranges, then what has the longest way.
  void post(const TransferKey& key, Rank to, std::vector<Range> ranges, double weight,
            std::uint32_t hop, std::uint32_t hops, AttemptContext& context) {
    posted_.insert(key);
    context.posts.push_back({key, to, std::move(ranges), weight, bulk(hop, hops)});
  }

  // The owner of the first piece tells all who is counted, itself included.
  void tell_contributors(std::span<const double> weights, AttemptContext& context) {
    const GroupMembers& team = *spec_.team;
    std::vector<Rank> counted;
    double sum = 0;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      if (weights[i] == 0) continue;
      sum += weights[i];
      counted.push_back(team.members[i]);
    }
    context.roster = contributors_of(team, {spec_.key, team.self}, counted, sum);
    context.contributors_to = team.others();
    if (team.takes_part()) context.contributors_known.emplace_back(std::move(counted), sum);
  }

  Error refuse(Rank from, std::string why) const {
    return malformed(round_text() + " of rank " + std::to_string(from) + ": " + why);
  }

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
  void carry_out(Epoch epoch, Turn& turn) {
    for (auto& [to, notice] : told_) {
      notice.epoch = epoch;
      turn.send(to, notice, {}, kControl);
    }
    for (const auto& [name, round, value] : figures_) turn.record(name, round, value);
  }

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
  virtual Partition cut(std::uint64_t length, std::uint32_t workers, std::uint64_t chunk) const {
    (void)workers;
    return {length, 1, chunk};
  }
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
  // A star around each owner.
  virtual std::optional<RoutePlan> routes(const Partition& grid, const GroupMembers& team) const {
    if (auto forest = this->forest(grid, team)) return RoutePlan{*std::move(forest)};
    const Plan plan(grid, team);
    RoutePlan routes;
    for (const Rank owner : plan.owners()) {
      const std::uint32_t root = team.place_of(owner).value();
      const std::vector<std::uint32_t> to_root(team.nodes(), root);
      routes.forest.trees.push_back({root, to_root, to_root});
    }
    for (std::size_t piece = 0; piece < grid.pieces(); ++piece) {
      const auto owners = plan.owners();
      const auto owner = std::ranges::lower_bound(owners, plan.owner(piece));
      routes.forest.tree_of.push_back(std::uint32_t(owner - owners.begin()));
    }
    return routes;
  }

  virtual std::unique_ptr<Attempt> open(const ExchangeSpec&) const = 0;
  // What outlives attempts. All attempts of the group have ended; null: the group is over.
  virtual void on_team(std::uint32_t group, const GroupMembers*) { (void)group; }
  virtual void state(Archive&) {}

  // Null unless the topology's nodes agree on trees. Its state is this one's.
  virtual ReplanningTopology* replanning() { return nullptr; }
};

// A topology with a server: `server`, [roles] server, or the lowest live worker where it is absent
// or lost.
class ServedTopology : public Topology {
 public:
  explicit ServedTopology(std::optional<Rank> server) : server_(server) {}
  std::optional<Rank> server(const std::vector<Rank>& members, const View& view) const override {
    return server_ && view.has(*server_) ? *server_ : members.front();
  }

 private:
  const std::optional<Rank> server_;
};

}  // namespace longhaul::overlay
