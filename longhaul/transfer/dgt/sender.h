#pragma once
// The sending end of differential transfers: cuts vectors into blocks, ranks them, and queues each
// on its channel. Channel 0 is reliable, with the service that the owner requested. All other
// channels are best effort, each with a lower priority than the one before. A peer gets nothing of
// a channel while something waits on an earlier one.
//
// A vector is encoded when it is pushed, because its owner may forget it once its reliable blocks
// have gone. Memory: the encoded vector, until it is sent or has expired. With late = "return"
// best-effort values are also kept as fp32, until the receipt. Owned by Dgt.
#include <algorithm>
#include <deque>
#include <map>
#include <optional>

#include "longhaul/transfer/dgt/config.h"
#include "longhaul/transfer/dgt/ranking.h"
#include "longhaul/transfer/dgt/receiver.h"
#include "longhaul/transfer/dgt/residuals.h"

namespace longhaul::transfer::dgt {

class Sender {
  // Bytes, with headers: passes any path without fragments.
  static constexpr std::size_t kDatagram = 1200;
  static constexpr std::size_t kBlocksHeader = kFrameHeader + 32, kPerBlock = 8;
  static constexpr std::size_t kMostTogether = 4096;  // blocks in a message

 public:
  Sender(const Config& config, const Place& place)
      : config_(config),
        layout_(place.layout),
        phantom_(place.phantom),
        block_(block_values(config, place)),
        wire_scale_(place.wire_scale),
        chunk_bytes_(double(place.longest_piece() * sizeof(float)) * wire_scale_),
        contributions_(config.alpha) {}

  void attach(VectorPort& port) { port_ = &port; }

  // Returns false for the first vector of a stream, which must be sent as a whole.
  bool knows(const Outgoing& out) const {
    const auto peer = peers_.find(out.to);
    return peer != peers_.end() && peer->second.streams.contains(stream_of(out));
  }

  void note_first(const Outgoing& out) { peers_[out.to].streams.try_emplace(stream_of(out)); }

  void begin(Outgoing&& out, double k, Turn& turn) {
    undo_repeated(out);
    Peer& peer = peers_[out.to];
    const StreamId id = stream_of(out);
    const std::uint64_t number = peer.streams[id]++;
    const std::vector<Block> blocks = cut(out.ranges, *layout_, block_);
    PushRecord record{out.to, id, number, out.key.epoch, out.key.vector.round, {}, {}};
    std::vector<std::vector<float>> values;
    const std::vector<float> c = weigh(out, blocks, values, record);
    const Ranking ranking = channels_of(out, blocks, c, k, turn);

    Push push{.end = {id, number, 0, out.key, out.weight, out.ranges, std::uint32_t(blocks.size()),
                      empty_bitmap(blocks.size()), empty_bitmap(blocks.size())},
              .service = out.service,
              .channels = std::vector<std::deque<Waiting>>(1 + config_.channels),
              .since = turn.now()};
    fill(push, blocks, ranking, values, record);
    if (number > config_.max_late) expire(peer, id, number - config_.max_late, out.to, turn);
    if (config_.returns()) records_.push_back(std::move(record));
    peer.pushes.push_back(std::move(push));
  }

  // Sends as much as the host has room for; best effort only if `best_effort`.
  void pump(Rank to, bool best_effort, Turn& turn) {
    const auto found = peers_.find(to);
    if (found == peers_.end()) return;
    Peer& peer = found->second;
    bool clear = pump_reliable(to, peer, turn) && best_effort;
    for (std::size_t channel = 1; clear && channel <= config_.channels; ++channel)
      for (Push& push : peer.pushes) clear = clear && pump_channel(to, push, channel, turn);
    std::erase_if(peer.pushes, [](const Push& push) { return push.empty(); });
  }

  // Returns the peers for which something is queued.
  std::vector<Rank> receivers() const {
    std::vector<Rank> ranks;
    for (const auto& [rank, peer] : peers_)
      if (!peer.pushes.empty()) ranks.push_back(rank);
    return ranks;
  }

  // Cancels pushes, except those whose end is sent: their other blocks are late at most.
  void cancel(const TransferKey& key, std::optional<Rank> to) {
    for (auto& [rank, peer] : peers_) {
      if (to && *to != rank) continue;
      for (const Push& push : peer.pushes)
        if (push.end.key == key && !push.ended) forget(rank, push.end.stream, push.end.push);
      std::erase_if(peer.pushes,
                    [&](const Push& push) { return push.end.key == key && !push.ended; });
    }
  }

  // Returns the number of values that the host does not have.
  std::uint64_t remaining(const TransferKey& key, Rank to) const {
    std::uint64_t values = 0;
    const auto peer = peers_.find(to);
    if (peer == peers_.end()) return 0;
    for (const Push& push : peer->second.pushes)
      for (const auto& channel : push.channels)
        for (const Waiting& block : channel)
          if (push.end.key == key) values += block.values;
    return values;
  }

  void reprioritise(const TransferKey& key, Rank to, const Service& service) {
    const auto peer = peers_.find(to);
    if (peer == peers_.end()) return;
    for (Push& push : peer->second.pushes)
      if (push.end.key == key) push.service = service;
  }

  Status take(Rank from, const Receipt& receipt) {
    if (!config_.returns()) return malformed("a receipt, which late = \"return\" alone has");
    const auto peer = peers_.find(from);
    if (peer == peers_.end()) return malformed("a receipt for a vector that was not sent");
    const auto stream = peer->second.streams.find(receipt.stream);
    if (stream == peer->second.streams.end() || receipt.push >= stream->second)
      return malformed("a receipt for a vector that was not sent");
    for (PushRecord& record : records_)
      if (record.to == from && record.stream == receipt.stream && record.push == receipt.push &&
          !record.counted)
        settle(record, receipt.counted, residuals_);
    for (Push& push : peer->second.pushes)  // the receiver wants no more of it
      if (push.end.stream == receipt.stream && push.end.push == receipt.push)
        push.clear_best_effort();
    std::erase_if(peer->second.pushes, [](const Push& push) { return push.empty(); });
    return Ok{};
  }

  // Undoes pushes without a receipt, which the peer may have counted; its rounds are repeated.
  void lose(Rank to) {
    std::erase_if(records_, [&](const PushRecord& record) {
      const bool open = record.to == to && !record.counted;
      if (open) undo(record, residuals_);
      return open;
    });
    peers_.erase(to);
  }

  std::deque<Sent> sent;  // reliable blocks and end are with the host; to be drained by the owner
  const Residuals& residuals() const { return residuals_; }
  void state(Archive& ar) {
    ar(sent, contributions_, residuals_, peers_, records_);
    if (!ar.loading() || ar.failed()) return;
    for (const auto& [rank, peer] : peers_)
      for (const Push& push : peer.pushes)
        if (push.channels.size() != 1 + config_.channels || !peer.streams.contains(push.end.stream))
          ar.fail("holds a vector under way that does not fit the settings");
  }

 private:
  struct Waiting {  // a block
    std::uint32_t number = 0;
    std::uint32_t values = 0;
    Payload bytes;
    void state(auto& ar) { ar(number, values, bytes); }
  };
  struct Push {
    End end;
    Service service;
    bool ended = false;  // the end is sent
    std::vector<std::deque<Waiting>> channels;
    std::uint64_t bytes = 0;
    Time since{0};
    void clear_best_effort() {
      for (std::size_t channel = 1; channel < channels.size(); ++channel) channels[channel].clear();
    }
    bool empty() const {
      return ended &&
             std::ranges::all_of(channels, [](const auto& channel) { return channel.empty(); });
    }

    void state(auto& ar) {
      ar(end, service.delivery, service.priority, service.order, ended, channels, bytes, since);
    }
  };
  struct Peer {
    std::map<StreamId, std::uint64_t> streams;  // next push of each
    std::deque<Push> pushes;                    // in order of begin()
    void state(auto& ar) { ar(streams, pushes); }
  };

  static StreamId stream_of(const Outgoing& out) {
    return {out.key.vector.group, out.key.vector.range, out.ranges.front().offset};
  }

  // Returns C of each block, 0: not offered. Sets the values of the blocks, with their residual
  // added.
  std::vector<float> weigh(const Outgoing& out, const std::vector<Block>& blocks,
                           std::vector<std::vector<float>>& values, PushRecord& record) {
    std::vector<float> c(blocks.size(), 1);
    std::span<const float> given;
    std::size_t next = 0;  // index of the next range
    Range stretch;
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      const Range& range = blocks[i].range;
      if (range.offset >= stretch.end()) {
        stretch = out.ranges[next++];
        given = port_->part_values(out.key, stretch);
      }
      if (phantom_) continue;
      const auto block = given.subspan(range.offset - stretch.offset, range.length);
      values.emplace_back(block.begin(), block.end());
      if (config_.returns()) {
        auto taken = residuals_.take(record.vector(), range.offset, values.back());
        record.parts.push_back({std::uint32_t(i), range.offset, {}, std::move(taken)});
      }
      c[i] = contributions_.update(record.stream.group, record.stream.range, range.offset,
                                   mean_magnitude(values.back()));
    }
    return c;
  }

  Ranking channels_of(const Outgoing& out, const std::vector<Block>& blocks,
                      const std::vector<float>& c, double k, Turn& turn) const {
    if (!config_.draws()) return rank_blocks(blocks, c, k, config_.channels);
    const auto salt = std::uint32_t(out.to * 31 + out.key.vector.group * 7 + out.key.vector.range);
    return draw_blocks(blocks, c, k, config_.channels, config_.mode == "bounded_loss",
                       turn.random(Purpose::transfer, out.key.vector.round, turn.self(), salt));
  }

  void fill(Push& push, const std::vector<Block>& blocks, const Ranking& ranking,
            const std::vector<std::vector<float>>& values, PushRecord& record) {
    for (std::size_t channel = 0; channel < ranking.channels.size(); ++channel) {
      for (const std::uint32_t number : ranking.channels[channel]) {
        const Range& range = blocks[number].range;
        const auto numbers =
            phantom_ ? std::span<const float>{} : std::span<const float>(values[number]);
        insert(push.end.offered, number);
        if (channel == 0) insert(push.end.reliable, number);
        push.channels[channel].push_back({number, std::uint32_t(range.length),
                                          port_->encode_part(push.end.key, range, numbers)});
        if (channel > 0 && !phantom_ && config_.returns())
          record.parts[number].sent = values[number];
      }
    }
  }

  // Undoes pushes of a failed attempt, because its vector is sent again. Pushes of older rounds are
  // undone only if their receipt is long overdue.
  void undo_repeated(const Outgoing& out) {
    const VectorId& vector = out.key.vector;
    std::erase_if(records_, [&](const PushRecord& record) {
      if (record.vector() != Residuals::Vector{vector.group, vector.range}) return false;
      const bool repeated = record.round == vector.round && record.epoch != out.key.epoch;
      const bool silent = !record.counted && record.round + config_.max_late + 2 < vector.round;
      if (repeated || silent) undo(record, residuals_);
      return repeated || silent || (record.counted && record.round < vector.round);
    });
  }

  // Undoes a push that was not sent.
  void forget(Rank to, const StreamId& stream, std::uint64_t push) {
    std::erase_if(records_, [&](const PushRecord& record) {
      const bool found = record.to == to && record.stream == stream && record.push == push;
      if (found) undo(record, residuals_);
      return found;
    });
  }

  // Drops the best-effort blocks of ended pushes below `below`.
  void expire(Peer& peer, const StreamId& id, std::uint64_t below, Rank to, Turn& turn) {
    for (Push& push : peer.pushes)
      if (push.end.stream == id && push.end.push < below && push.ended) {
        drop(push, to, turn);
        push.clear_best_effort();
      }
    std::erase_if(peer.pushes, [](const Push& push) { return push.empty(); });
  }

  void drop(const Push& push, Rank to, Turn& turn) {
    Bitmap blocks = empty_bitmap(push.end.blocks);
    bool some = false;
    for (std::size_t channel = 1; channel < push.channels.size(); ++channel)
      for (const Waiting& block : push.channels[channel]) insert(blocks, block.number), some = true;
    if (some)
      turn.send(to, Expired{push.end.stream, push.end.push, std::move(blocks)}, {}, push.service);
  }

  // Returns the first push of its stream that may still be passed on: all before it are sent or
  // cancelled.
  std::uint64_t oldest(const Peer& peer, const StreamId& id, std::uint64_t push) const {
    for (const Push& other : peer.pushes)
      if (other.end.stream == id && !other.ended) return std::min(other.end.push, push);
    return push;
  }

  // Returns true if nothing reliable is left.
  bool pump_reliable(Rank to, Peer& peer, Turn& turn) {
    for (Push& push : peer.pushes) {
      if (push.ended) continue;
      if (!pump_channel(to, push, 0, turn)) return false;
      push.end.oldest = oldest(peer, push.end.stream, push.end.push);
      turn.send(to, push.end, {}, push.service);
      push.ended = true;
      sent.push_back({push.end.key, to, true, push.bytes, turn.now() - push.since});
      if (config_.mode != "sender_drop") continue;
      drop(push, to, turn);
      push.clear_best_effort();
    }
    return true;
  }

  bool pump_channel(Rank to, Push& push, std::size_t channel, Turn& turn) {
    const Service service = service_of(push, channel);
    while (!push.channels[channel].empty()) {
      if (turn.room(to, service) == 0) return false;
      send_blocks(to, push, channel, service, turn);
    }
    return true;
  }

  // Sends as many blocks as fit a chunk, or a datagram; one at least.
  void send_blocks(Rank to, Push& push, std::size_t channel, const Service& service, Turn& turn) {
    std::deque<Waiting>& queue = push.channels[channel];
    const double most = channel == 0 ? chunk_bytes_ : double(kDatagram - kBlocksHeader);
    const double per_block = channel == 0 ? 0 : double(kPerBlock);
    Blocks blocks{push.end.stream, push.end.push, {}, {}};
    std::vector<Payload> bodies;
    std::size_t bytes = 0;
    double used = 0;  // bytes on the wire
    while (!queue.empty()) {
      const std::size_t size = queue.front().bytes.size();
      const double taken = double(size) * wire_scale_ + per_block;
      const bool full = used + taken > most || bodies.size() == kMostTogether;
      if (!bodies.empty() && full) break;
      blocks.numbers.push_back(queue.front().number);
      blocks.sizes.push_back(std::uint32_t(size));
      bodies.push_back(std::move(queue.front().bytes));
      queue.pop_front();
      used += taken;
      bytes += size;
    }
    push.bytes += bytes;
    if (bodies.size() == 1) return turn.send(to, blocks, std::move(bodies[0]), service);
    if (phantom_) return turn.send(to, blocks, Payload::phantom(bytes), service);
    Buffer body;
    body.reserve(bytes);
    for (const Payload& one : bodies) body.insert(body.end(), one.view().begin(), one.view().end());
    turn.send(to, blocks, Payload(share(std::move(body))), service);
  }

  static Service service_of(const Push& push, std::size_t channel) {
    Service service = push.service;
    if (channel == 0) return service;
    service.delivery = Service::Delivery::best_effort;
    service.priority =
        std::uint8_t(push.service.priority > channel ? push.service.priority - channel : 0);
    return service;
  }

  const Config config_;
  const std::shared_ptr<const Layout> layout_;
  const bool phantom_;
  const std::uint64_t block_;              // values of a block
  const double wire_scale_, chunk_bytes_;  // on the wire
  VectorPort* port_ = nullptr;
  Contributions contributions_;
  Residuals residuals_;
  std::map<Rank, Peer> peers_;
  std::deque<PushRecord> records_;  // late = "return"
};

}  // namespace longhaul::transfer::dgt
