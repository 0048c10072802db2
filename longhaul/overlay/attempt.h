#pragma once
// An Attempt is one node's part in one try to form the mean of one round in one epoch. The attempt
// decides which pieces this node sends to which nodes, until the mean has arrived or a new view
// ends it. An Exchange (exchange.h) owns attempts and gives them their inputs; a Topology
// (topology.h) makes them.
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

// Inputs and outputs of an attempt: plain data and one concrete object, without callbacks.

// The values of one round at one node: its own contribution, and the codecs. Made for one input;
// the referenced objects outlive it.
class ExchangeBuffers {
 public:
  // `own_key`: key of the vectors that this node writes. `own`: its contribution; empty: none, or a
  // phantom's.
  ExchangeBuffers(Coder& coder, const Partition& grid, const CodecKey& own_key, bool exact,
                  std::span<const float> own)
      : coder_(&coder), grid_(&grid), own_key_(own_key), exact_(exact), own_(own) {}

  // Returns this node's contribution to a piece: encoded for the others, and as they decode it.
  Payload own_bytes(std::size_t piece) const {
    const Range at = grid_->range(piece);
    return coder_->write(own_key_, exact_ ? Coding::exact : Coding::up, at,
                         own_.empty() ? own_ : own_.subspan(at.offset, at.length));
  }

  std::vector<float> own_values(std::size_t piece) const {
    return read(piece, exact_ ? Coding::exact : Coding::up, own_bytes(piece));
  }

  // Encodes values that this node computed, and decodes them. `coding` is exact or down.
  Payload write(std::size_t piece, Coding coding, std::span<const float> values) const {
    return coder_->write(own_key_, coding, grid_->range(piece), values);
  }

  std::vector<float> read(std::size_t piece, Coding coding, const Payload& bytes) const {
    auto values = coder_->read(own_key_, coding, grid_->range(piece), bytes);
    LH_CHECK(values);  // this node's own bytes
    return *std::move(values);
  }

 private:
  Coder* coder_;
  const Partition* grid_;
  CodecKey own_key_;
  bool exact_;
  std::span<const float> own_;
};

// Actions that an attempt requests. Its Exchange performs them in this order after the attempt has
// returned.
struct AttemptActions {
  struct Told {
    VectorId about;  // vector of the attempt at `to`
    Rank to = 0;
    AttemptMessage note;  // epoch and vector are set when the Exchange sends it
    Service service;
  };
  std::map<std::size_t, std::vector<float>> means;  // final pieces of the mean
  // Contributors and the sum of their weights, once all weights are known.
  std::vector<std::pair<std::vector<Rank>, double>> contributors_known;
  std::vector<std::pair<Rank, Announcement>> shares;
  std::vector<Told> notes;  // one to this node arrives in its next turn
  std::optional<Contributors> roster;
  std::vector<Rank> contributors_to;
  // Posts whose unsent rest is dropped before anything new is posted.
  std::vector<std::pair<TransferKey, Rank>> cancelled;
  std::vector<Outgoing> posts;
  std::string given_up;  // why this run cannot continue; "": it can
};

struct AttemptContext : AttemptActions {
  explicit AttemptContext(const ExchangeBuffers& numbers, Time time = Time{0}, Payload bytes = {})
      : buffers(numbers), now(time), arrived(std::move(bytes)) {}
  ExchangeBuffers buffers;
  Time now;         // time of the run; not in Attempt::encoded(), which must not depend on the time
  Payload arrived;  // encoded bytes of the piece of the mean in take(), to forward them unchanged
};

inline Contributors contributors_of(const GroupMembers& team, const CodecKey& key,
                                    const std::vector<Rank>& counted, double weight) {
  return {team.epoch, key, weight, to_bits(counted), team.epoch};
}

// The service of pieces and announcements.
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

// The vector, members and plan of an attempt; the pointees outlive it.
struct ExchangeSpec {
  VectorId key;
  bool exact = false;
  const GroupMembers* team = nullptr;
  const Plan* plan = nullptr;
  bool of_senders = false;  // the mean of each value is over the nodes that sent it: Reduction
  const Partition& grid() const { return plan->grid(); }
};

class Attempt {
 public:
  explicit Attempt(const ExchangeSpec& spec) : spec_(spec) {}
  virtual ~Attempt() = default;

  // Adds this node's contribution; weight 0: it takes part without one. Members only, once.
  virtual void contribute(std::uint64_t length, double weight, AttemptContext&) = 0;
  virtual Status take_announcement(Rank from, const Announcement&, AttemptContext&) = 0;
  // Returns true if `from` may send this piece now, in this phase and coding. The key has this
  // attempt's vector and epoch. False: the piece is late, no longer needed, and dropped. Called
  // when the piece is announced, and again when it has arrived.
  virtual Result<bool> admit(Rank from, const TransferKey&, std::size_t piece) const = 0;
  // Takes an admitted piece. An Error: it is not needed, or its weight is not the announced one.
  virtual Status take(Arrival&&, std::size_t piece, AttemptContext&) = 0;
  // Takes a message from another node's attempt at this vector. Also called after the round has
  // ended here, while the attempt exists.
  virtual Status take_message(Rank from, const AttemptMessage&, AttemptContext&) {
    return refuse(from, "a note, which this overlay has none of");
  }

  virtual void on_time(AttemptContext&) {}  // due() is reached or has passed
  // Returns the bytes of a posted piece, when there is room for it.
  virtual Payload encoded(const TransferKey&, std::size_t piece, AttemptContext&) = 0;
  struct Progress {
    bool reduced = false;  // all pieces of this node are reduced
    bool drained = false;  // nothing is kept for sending
  };
  virtual Progress progress() const = 0;
  bool reduced() const { return progress().reduced; }
  bool drained() const { return progress().drained; }
  virtual std::string waiting_for(const std::vector<bool>& mean_pieces) const = 0;
  virtual void state(Archive& ar) { ar(contributed_, weight_, posted_); }

  const ExchangeSpec& spec() const { return spec_; }
  bool contributed() const { return contributed_; }
  // Returns the time when this attempt must be woken if no input comes earlier.
  std::optional<Time> due() const { return due_; }
  // Returns the keys of all posts, which are cancelled when the attempt ends early.
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

  // Returns the service of pieces that have crossed `hop` of `hops` links: see post().
  Service bulk(std::uint32_t hop, std::uint32_t hops) const {
    Service service = kBulk;
    constexpr std::uint32_t kRanges = 64;  // higher ranges share a place
    const std::uint32_t range = std::min(spec_.key.range, kRanges - 1);
    service.order = (spec_.key.round * kRanges + range) * hops + hop;
    return service;
  }

  Announcement share(std::uint64_t length) const {
    return {spec_.team->epoch, {spec_.key, spec_.team->self}, length, spec_.exact, weight_,
            spec_.team->name};
  }

  // Sends all pieces to `to` when there is room. `hop`: number of links behind them. Among waiting
  // pieces, older rounds go first, then lower ranges, then those with the most links ahead.
  void post(const TransferKey& key, Rank to, std::vector<Range> ranges, double weight,
            std::uint32_t hop, std::uint32_t hops, AttemptContext& context) {
    posted_.insert(key);
    context.posts.push_back({key, to, std::move(ranges), weight, bulk(hop, hops)});
  }

  // Sends the contributors to all members, this node included. Called at the owner of the first
  // piece.
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

}  // namespace longhaul::overlay
