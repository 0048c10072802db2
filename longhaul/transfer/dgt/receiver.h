#pragma once
// The receiving end of differential transfers: assembles pushes from their blocks, passes each on
// once its reliable blocks have arrived, and counts every block.
//
// A block that arrives before its push was passed on is fresh. A later block is late: it is carried
// (added to the next push, while it is no more than max_late pushes old), or dropped. The category
// of a block never changes, and an account is closed max_late + 2 pushes later.
//
// Memory per peer: max_late + 2 open pushes a stream, and at most most_kept() bytes. Owned by Dgt.
// The owner (VectorPort) decodes a block only after its push is complete.
#include <algorithm>
#include <cfloat>
#include <deque>
#include <map>
#include <optional>

#include "longhaul/core/place.h"
#include "longhaul/transfer/dgt/config.h"
#include "longhaul/transfer/dgt/cut.h"
#include "longhaul/transfer/dgt/messages.h"

namespace longhaul::transfer::dgt {

// Returns the values of a block: no more than a chunk has.
inline std::uint64_t block_values(const Config& config, const Place& place) {
  return place.standing_for(std::min(config.block_bytes, place.chunk_bytes) / sizeof(float));
}

class Receiver {
  static constexpr std::uint64_t kBlockCost = 64;       // bytes to keep a block, besides its own
  static constexpr std::size_t kMostStreams = 1 << 14;  // per peer
  static constexpr std::uint64_t kMostFigures = 1024;   // values of a vector besides the model
  static constexpr std::uint64_t kAccountsKept = 2;     // pushes beyond max_late

  // Returns the same limit as in overlays: more than twice the model is a lie.
  static std::uint64_t longest_vector(const Layout& layout) {
    return 2 * layout.size() + kMostFigures;
  }

  static float as_float(double v) {
    return float(std::clamp(v, -double(FLT_MAX), double(FLT_MAX)));
  }

  // Returns the index of the range that contains the block.
  static std::optional<std::size_t> stretch_of(const std::vector<Range>& ranges,
                                               const Range& block) {
    const auto after = std::upper_bound(
        ranges.begin(), ranges.end(), block.offset,
        [](std::uint64_t offset, const Range& range) { return offset < range.offset; });
    if (after == ranges.begin() || std::prev(after)->end() < block.end()) return std::nullopt;
    return std::size_t(std::prev(after) - ranges.begin());
  }

 public:
  Receiver(const Config& config, const Place& place)
      : config_(config),
        layout_(place.layout),
        phantom_(place.phantom),
        block_(block_values(config, place)),
        longest_(longest_vector(*place.layout)),
        // A block's bytes are not more than twice its values, whatever the codec.
        most_kept_((config.max_late + 2) *
                   (2 * sizeof(float) * longest_ +
                    kBlockCost * most_blocks(longest_, longest_ / block_, *layout_, block_))) {}

  void attach(VectorPort& port) { port_ = &port; }

  Status take(Rank from, const Blocks& blocks, const Payload& body, Time now) {
    std::uint64_t bytes = 0;
    bool good = blocks.numbers.size() == blocks.sizes.size() && !blocks.numbers.empty();
    for (const std::uint32_t size : blocks.sizes) good &= size > 0, bytes += size;
    if (!good || bytes != body.size() || body.is_phantom() != phantom_)
      return malformed("blocks without the bytes they should have");
    LH_LET(found, stream(from, blocks.stream));
    std::uint64_t at = 0;
    for (std::size_t i = 0; i < blocks.numbers.size(); ++i) {
      LH_TRY(take_block(peers_[from], *found, blocks.push, blocks.numbers[i],
                        body.slice(at, blocks.sizes[i])));
      at += blocks.sizes[i];
    }
    return hand_on_ready(from, *found, now);
  }

  Status take(Rank from, const End& end, Time now) {
    LH_TRY(check(from, end));
    LH_LET(found, stream(from, end.stream));
    Stream& stream = *found;
    Peer& peer = peers_[from];
    give_up(peer, stream, end.oldest);
    const bool is_open = stream.open.contains(end.push);
    if (!is_open && end.push < stream.next) return ++duplicates_, Ok{};
    if (!is_open && stream.open.size() > config_.max_late + 1)
      return malformed("ends of more vectors than one may have under way");
    for (const Range& range : end.ranges) LH_TRY(port_->admit(from, end.key, range));
    Open& open = stream.open[end.push];
    if (open.end) return ++duplicates_, Ok{};
    open.end = end;
    open.missing = count(end.reliable);
    open.expired = empty_bitmap(end.blocks);
    for (auto block = open.blocks.begin(); block != open.blocks.end();) {
      const std::uint32_t number = block->first;
      if (has(end.reliable, number)) --open.missing;
      const bool offered = has(end.offered, number);
      if (!offered) peer.kept -= cost(block->second);
      block = offered ? std::next(block) : open.blocks.erase(block);
    }
    return hand_on_ready(from, stream, now);
  }

  Status take(Rank from, const Expired& expired) {
    LH_LET(found, stream(from, expired.stream));
    Stream& stream = *found;
    if (const auto open = stream.open.find(expired.push);
        open != stream.open.end() && open->second.end) {
      if (!is_subset(expired.blocks, open->second.end->offered))
        return malformed("blocks given up that were not offered");
      open->second.expired = expired.blocks;
      return Ok{};
    }
    const auto told = stream.told.find(expired.push);
    if (told == stream.told.end()) return Ok{};
    if (!is_subset(expired.blocks, told->second.offered))
      return malformed("blocks given up that were not offered");
    for (std::uint32_t number = 0; number < 8 * expired.blocks.size(); ++number) {
      if (!has(expired.blocks, number) || has(told->second.seen, number)) continue;
      insert(told->second.seen, number);
      ++told->second.account.expired;
    }
    return Ok{};
  }

  // Returns the time when a push is passed on although blocks are missing.
  std::optional<Time> due() const {
    std::optional<Time> first;
    for (const auto& [rank, peer] : peers_)
      for (const auto& [id, stream] : peer.streams)
        for (const auto& [push, open] : stream.open)
          if (open.due && (!first || *open.due < *first)) first = open.due;
    return first;
  }

  // Passes on the pushes that are due. One that fails here was valid when its end arrived: a view
  // has overtaken it.
  void on_time(Time now) {
    for (auto& [rank, peer] : peers_)
      for (auto& [id, stream] : peer.streams) (void)bool(hand_on_ready(rank, stream, now));
  }

  // Discards everything of this peer; its streams start again after that.
  void lose(Rank from) { peers_.erase(from); }

  // To be drained by the owner.
  std::deque<Arrival> arrivals;
  std::deque<std::pair<Rank, Receipt>> receipts;
  std::deque<Account> accounts;  // closed accounts
  std::uint64_t duplicates() const { return duplicates_; }
  // Returns bytes.
  std::uint64_t kept(Rank from) const {
    const auto peer = peers_.find(from);
    return peer == peers_.end() ? 0 : peer->second.kept;
  }

  std::uint64_t most_kept() const { return most_kept_; }
  void state(Archive& ar) {
    ar(peers_, arrivals, receipts, accounts, duplicates_);
    if (!ar.loading() || ar.failed()) return;
    for (auto& [rank, peer] : peers_)
      for (auto& [id, stream] : peer.streams) {
        for (auto& [push, open] : stream.open)
          if (open.end && !check(rank, *open.end)) ar.fail("holds a vector that does not fit");
        for (auto& [block, carried] : stream.carry)
          if (!stream.told.contains(block.first)) ar.fail("holds a block of no vector");
      }
  }

 private:
  struct Open {  // a push that was not passed on
    std::optional<End> end;
    std::map<std::uint32_t, Payload> blocks;
    std::uint32_t missing = 0;  // reliable blocks, once the end has arrived
    Bitmap expired;
    std::optional<Time> due;
    void state(auto& ar) { ar(end, blocks, missing, expired, due); }
  };
  struct Told {  // a push that was passed on recently
    std::vector<Range> ranges;
    Bitmap offered, seen;
    Account account;
    void state(auto& ar) { ar(ranges, offered, seen, account); }
  };
  struct Carried {
    Range range;
    Payload bytes;
    void state(auto& ar) { ar(range, bytes); }
  };
  using BlockId = std::pair<std::uint64_t, std::uint32_t>;  // push, number
  struct Stream {
    std::uint64_t next = 0;  // lower pushes are open, passed on, or given up
    std::map<std::uint64_t, Open> open;
    std::map<std::uint64_t, Told> told;
    std::map<BlockId, Carried> carry;
    void state(auto& ar) { ar(next, open, told, carry); }
  };
  struct Peer {
    std::map<StreamId, Stream> streams;
    std::uint64_t kept = 0;
    void state(auto& ar) { ar(streams, kept); }
  };
  using Numbers = std::vector<std::vector<float>>;  // by range

  Result<Stream*> stream(Rank from, const StreamId& id) {
    auto& streams = peers_[from].streams;
    if (const auto known = streams.find(id); known != streams.end()) return &known->second;
    if (streams.size() >= kMostStreams) return malformed("too many streams of vectors");
    return &streams[id];
  }

  Status check(Rank from, const End& end) const {
    std::uint64_t values = 0, at = 0;
    if (end.ranges.empty()) return malformed("the end of a vector of nothing");
    bool good = end.ranges.front().offset == end.stream.offset;
    for (const Range& range : end.ranges) {
      good &= range.length > 0 && range.offset >= at;
      at = range.end();
      values += range.length;
      if (!good || values > longest_) return malformed("the end of a vector that cannot be");
    }
    const VectorId& vector = end.key.vector;
    good &= vector.group == end.stream.group && vector.range == end.stream.range;
    good &= end.key.vector.origin == from && end.key.coding == Coding::up && end.weight > 0;
    good &= end.push >= end.oldest && end.blocks == cut_of(end.ranges).size();
    good &= is_of(end.offered, end.blocks) && is_of(end.reliable, end.blocks) &&
            is_subset(end.reliable, end.offered);
    return good ? Status(Ok{}) : malformed("the end of a vector that does not fit together");
  }

  Status take_block(Peer& peer, Stream& stream, std::uint64_t push, std::uint32_t number,
                    Payload bytes) {
    const bool is_open = stream.open.contains(push);
    if (!is_open && push < stream.next)
      return take_late(peer, stream, push, number, std::move(bytes)), Ok{};
    if (!is_open && stream.open.size() > config_.max_late + 1)
      return malformed("blocks of more vectors than one may have under way");
    if (peer.kept + cost(bytes) > most_kept_) return malformed("more blocks than a node keeps");
    Open& open = stream.open[push];
    if (open.end && !has(open.end->offered, number))
      return malformed("a block that was not offered");
    const auto [block, is_new] = open.blocks.emplace(number, std::move(bytes));
    if (!is_new) return ++duplicates_, Ok{};
    peer.kept += cost(block->second);
    if (open.end && has(open.end->reliable, number)) --open.missing;
    return Ok{};
  }

  // Takes a block of a push that was passed on or given up.
  void take_late(Peer& peer, Stream& stream, std::uint64_t push, std::uint32_t number,
                 Payload bytes) {
    const auto found = stream.told.find(push);
    if (found == stream.told.end() || config_.returns()) return;  // its account is closed
    Told& told = found->second;
    if (!has(told.offered, number)) return;
    if (has(told.seen, number)) return void(++duplicates_);
    insert(told.seen, number);
    // The next push is stream.next or, if that was given up, a later one.
    const bool in_time = stream.next - push <= config_.max_late;
    if (!config_.carries() || !in_time || peer.kept + cost(bytes) > most_kept_)
      return void(++told.account.late);
    peer.kept += cost(bytes);
    const Range range = block_of(told.ranges, *layout_, block_, number).range;
    stream.carry[{push, number}] = {range, std::move(bytes)};
  }

  Status hand_on_ready(Rank from, Stream& stream, Time now) {
    const Time grace = from_seconds(config_.grace_ms * 1e-3);
    while (!stream.open.empty()) {
      Open& open = stream.open.begin()->second;
      if (!open.end || open.missing > 0) break;
      const bool whole = open.blocks.size() == count(open.end->offered);
      if (!open.due) open.due = whole ? now : now + grace;
      if (*open.due > now && !whole) break;
      LH_TRY(hand_on(from, stream, stream.open.begin()->first));
    }
    return Ok{};
  }

  Status hand_on(Rank from, Stream& stream, std::uint64_t push) {
    Peer& peer = peers_[from];
    const Open open = std::move(stream.open.at(push));
    stream.open.erase(push);
    stream.next = std::max(stream.next, push + 1);
    for (const auto& [number, bytes] : open.blocks) peer.kept -= cost(bytes);
    const End& end = *open.end;
    for (const Range& range : end.ranges) LH_TRY(port_->admit(from, end.key, range));

    Told told{end.ranges, end.offered, empty_bitmap(end.blocks), {.round = end.key.vector.round}};
    told.account.offered = count(end.offered);
    LH_LET(numbers, assemble(open, cut_of(end.ranges), told));
    if (config_.returns()) {
      receipts.push_back({from, Receipt{end.stream, push, empty_bitmap(end.blocks)}});
      for (const auto& [number, bytes] : open.blocks)
        if (has(told.seen, number)) insert(receipts.back().second.counted, number);
      told.account.returned = told.account.offered - count(told.seen);
      told.seen = end.offered;
    }
    for (std::uint32_t number = 0; number < end.blocks; ++number) {
      if (!has(open.expired, number) || has(told.seen, number)) continue;
      insert(told.seen, number);
      ++told.account.expired;
    }
    stream.told[push] = std::move(told);
    add_carried(peer, stream, push, end, numbers);
    for (std::size_t i = 0; i < end.ranges.size(); ++i)
      arrivals.push_back({from, end.key, end.ranges[i], std::move(numbers[i]), end.weight});
    close_accounts(stream, push);
    return Ok{};
  }

  // Returns zeros, and the blocks that have arrived. Empty: the owner no longer needs the vector.
  Result<Numbers> assemble(const Open& open, const std::vector<Block>& blocks, Told& told) {
    const End& end = *open.end;
    Numbers numbers(end.ranges.size());
    if (!phantom_)
      for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i].resize(end.ranges[i].length);
    for (const auto& [number, bytes] : open.blocks) {
      const Range& range = blocks[number].range;
      const auto values = port_->decode(end.key, range, bytes);
      if (!values && has(end.reliable, number)) return values.error();
      insert(told.seen, number);
      if (!values) {
        ++told.account.bad;
        continue;
      }
      ++told.account.fresh;
      if (phantom_) continue;
      if (values->size() != range.length) return Numbers(end.ranges.size());
      const std::size_t i = stretch_of(end.ranges, range).value();
      std::ranges::copy(*values,
                        numbers[i].begin() + std::ptrdiff_t(range.offset - end.ranges[i].offset));
    }
    return numbers;
  }

  // Adds carried blocks, oldest push first, then by number, in double, rounded once. A block is not
  // added if its round is repeated, for example after a third node's loss: the sender then repeats
  // the whole vector.
  void add_carried(Peer& peer, Stream& stream, std::uint64_t push, const End& end,
                   Numbers& numbers) {
    std::map<std::size_t, std::vector<double>> sums;  // by range
    for (const auto& [id, carried] : stream.carry) {
      peer.kept -= cost(carried.bytes);
      Account& account = stream.told.at(id.first).account;
      const auto i = stretch_of(end.ranges, carried.range);
      const bool fits = i && (phantom_ || numbers[*i].size() == end.ranges[*i].length);
      const bool again = account.round >= end.key.vector.round;
      if (!fits || again || push - id.first > config_.max_late) {
        ++account.late;
        continue;
      }
      const auto values = port_->decode(end.key, carried.range, carried.bytes);
      if (!values || values->size() != (phantom_ ? 0 : carried.range.length)) {
        ++account.bad;
        continue;
      }
      ++account.carried;
      if (phantom_) continue;
      auto& sum = sums[*i];
      if (sum.empty()) sum.assign(numbers[*i].begin(), numbers[*i].end());
      const std::uint64_t at = carried.range.offset - end.ranges[*i].offset;
      for (std::size_t j = 0; j < values->size(); ++j) sum[at + j] += double((*values)[j]);
    }
    stream.carry.clear();
    for (const auto& [i, sum] : sums) std::ranges::transform(sum, numbers[i].begin(), as_float);
  }

  void close_accounts(Stream& stream, std::uint64_t push) {
    while (!stream.told.empty() &&
           stream.told.begin()->first + config_.max_late + kAccountsKept <= push) {
      Account account = stream.told.begin()->second.account;
      account.lost = account.offered - account.settled();
      accounts.push_back(account);
      stream.told.erase(stream.told.begin());
    }
  }

  // Discards pushes without an end, which their sender has cancelled. Those with an end wait for
  // the grace alone.
  void give_up(Peer& peer, Stream& stream, std::uint64_t below) {
    std::erase_if(stream.open, [&](const auto& entry) {
      const bool gone = entry.first < below && !entry.second.end;
      if (gone)
        for (const auto& [number, bytes] : entry.second.blocks) peer.kept -= cost(bytes);
      return gone;
    });
    stream.next = std::max(stream.next, below);
  }

  std::vector<Block> cut_of(const std::vector<Range>& ranges) const {
    return cut(ranges, *layout_, block_);
  }

  static std::uint64_t cost(const Payload& bytes) { return bytes.size() + kBlockCost; }

  const Config config_;
  const std::shared_ptr<const Layout> layout_;
  const bool phantom_;
  const std::uint64_t block_;    // values of a block
  const std::uint64_t longest_;  // values of the longest vector
  const std::uint64_t most_kept_;
  VectorPort* port_ = nullptr;
  std::map<Rank, Peer> peers_;
  std::uint64_t duplicates_ = 0;
};

}  // namespace longhaul::transfer::dgt
