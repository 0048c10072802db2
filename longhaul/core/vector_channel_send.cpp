// VectorChannelBase, of the sender: queues, limits, pieces for the transfer.
#include <algorithm>
#include <bit>

#include "longhaul/core/vector_channel.h"

namespace longhaul {
namespace {

enum : std::uint32_t { kParameters, kBuffers, kWords };

Range common(Range a, Range b) {
  const std::uint64_t from = std::max(a.offset, b.offset), to = std::min(a.end(), b.end());
  return {from, to > from ? to - from : 0};
}

}  // namespace

VectorHandle VectorChannelBase::send_bytes(const std::vector<Rank>& to, HeaderBytes header,
                                           VectorContent content, const SendOptions& options,
                                           Turn& turn) {
  if (!content.is_finite()) return diverge("a value", turn);
  const VectorHandle handle = next_handle_++;
  Vector vector;
  vector.service = options.service.value_or(config_.service);
  LH_CHECK(vector.service.delivery == Service::Delivery::reliable);
  vector.report_sent = options.report_sent;
  vector.since = turn.now();
  vector.begin = {.handle = handle,
                  .group = options.group.value_or(to.size() == 1 ? to[0] : kSeveralReceivers),
                  .coding = content.kind() == ContentKind::values ? options.coding : Coding::exact,
                  .shape = content.shape(),
                  .header = std::move(header)};
  vector.content = std::move(content);
  LH_CHECK(vector.begin.shape.check(*place_.layout));
  LH_CHECK(vector.begin.header.size() <= channel::kMostHeaderBytes);
  LH_CHECK(vector.begin.footprint() <= config_.limits.bytes);
  for (const Rank rank : to) {
    if (rank == turn.self()) {
      arrived_.push_back({rank, session(rank), vector.begin.header, vector.content});
      if (vector.report_sent) sent_.push_back({handle, rank, 0, Time{0}});
    } else if (!turn.view().has(rank)) {
      lost_.push_back({rank, false, handle, false, vector.begin.header});
    } else if (vector.left.insert(rank).second) {
      out_[rank].queue.push_back(handle);
      to_advance_.insert(rank);
    }
  }
  vector.receivers = std::uint32_t(vector.left.size());
  if (!vector.left.empty()) vectors_.emplace(handle, std::move(vector));
  work(turn);
  return handle;
}

// Of a vector that nobody is sent.
VectorHandle VectorChannelBase::diverge(std::string_view what, Turn& turn) {
  turn.diverge("stream " + config_.stream + ": " + std::string(what));
  return next_handle_++;
}

// What a vector is given to the transfer as: buffers and words are exact.
std::vector<VectorChannelBase::Part> VectorChannelBase::parts(const ContentShape& shape,
                                                              Coding coding) const {
  std::vector<Part> found;
  const auto add = [&](std::uint32_t index, Range range, Coding with) {
    if (range.length > 0) found.push_back({index, range, with});
  };
  if (shape.kind == ContentKind::values) {
    add(kParameters, common(shape.range, place_.layout->parameters()), coding);
    add(kBuffers, common(shape.range, place_.layout->buffers()), Coding::exact);
  } else {
    add(kWords, {0, shape.words()}, Coding::exact);
  }
  return found;
}

// An fp64 value or a pair is never cut in two.
std::uint64_t VectorChannelBase::longest_piece(ContentKind kind) const {
  const std::uint64_t longest = place_.longest_piece();
  if (kind == ContentKind::doubles || kind == ContentKind::indexed) return longest / 2 * 2;
  return longest;
}

std::vector<Range> VectorChannelBase::cut(const Part& part, ContentKind kind) const {
  const std::uint64_t longest = longest_piece(kind);
  std::vector<Range> pieces;
  for (std::uint64_t at = part.range.offset; at < part.range.end(); at += longest)
    pieces.push_back({at, std::min(longest, part.range.end() - at)});
  return pieces;
}

// The same for all receivers of a vector in this session: it is encoded once.
TransferKey VectorChannelBase::key_of(Rank from, Rank to, const channel::Begin& begin,
                                      const Part& part) const {
  return {.epoch = session(from == place_.self ? to : from),
          .vector = {{begin.handle, begin.group, part.index}, from},
          .phase = 0,
          .coding = part.coding};
}

bool VectorChannelBase::is_coded(const Vector& vector) const {
  return vector.begin.coding != Coding::exact;
}

// May the vector begin now? A codec has one vector of a group open at a time.
bool VectorChannelBase::has_room(const Vector& vector, Outbox& outbox, Rank to, Turn& turn) {
  if (is_coded(vector) && !vector.settled) {
    const auto open = codec_open_.find({vector.begin.coding, vector.begin.group});
    if (open != codec_open_.end() && open->second != vector.begin.handle) return false;
  }
  const std::uint8_t bit = class_bit(vector.service);
  const bool in_order = outbox.classes == 0 || outbox.classes == bit;
  const ChannelLimits& limits = config_.limits;
  if (in_order && outbox.unread.size() < limits.vectors &&
      vector.begin.footprint() <= limits.bytes - outbox.unread_bytes)
    return true;
  ask(to, outbox, turn);
  return false;
}

void VectorChannelBase::ask(Rank to, Outbox& outbox, Turn& turn) {
  if (!std::exchange(outbox.asked, true)) turn.send(to, channel::Ask{outbox.next}, {}, kControl);
}

// Begins the first vector that waits, if it may. False: nothing is to be done now.
bool VectorChannelBase::advance(Rank to, Turn& turn) {
  const auto found = out_.find(to);
  if (found == out_.end() || found->second.queue.empty()) return false;
  Outbox& outbox = found->second;
  Vector& vector = vectors_.at(outbox.queue.front());
  if (outbox.under_way) return follow_service(to, outbox, vector, turn);
  if (!has_room(vector, outbox, to, turn)) return false;
  begin(to, outbox, vector, turn);
  return true;
}

void VectorChannelBase::begin(Rank to, Outbox& outbox, Vector& vector, Turn& turn) {
  outbox.asked = false;
  outbox.under_way = UnderWay{
      .seq = outbox.next++, .classes = 0, .parts_left = 0, .bytes = 0, .service = vector.service};
  outbox.unread.push_back(vector.begin.footprint());
  outbox.unread_bytes += vector.begin.footprint();
  announce(to, outbox, vector, turn);
  const std::vector<Part> all = parts(vector.begin.shape, vector.begin.coding);
  if (all.empty()) return finish(to, outbox, turn);
  if (is_coded(vector) && !vector.settled)
    codec_open_[{vector.begin.coding, vector.begin.group}] = vector.begin.handle;
  for (const Part& part : all) outbox.under_way->parts_left |= std::uint8_t(1u << part.index);
  Turn below = within(*transfer_, turn);
  for (const Part& part : all)
    transfer_->begin({.key = key_of(place_.self, to, vector.begin, part),
                      .to = to,
                      .ranges = cut(part, vector.begin.shape.kind),
                      .weight = 0,
                      .service = vector.service},
                     below);
}

// Moves what is left of the vector under way to the service that it has by now. Not while one
// before it is unread: the new class could overtake that.
bool VectorChannelBase::follow_service(Rank to, Outbox& outbox, const Vector& vector, Turn& turn) {
  UnderWay& now = *outbox.under_way;
  if (now.service.priority == vector.service.priority && now.service.order == vector.service.order)
    return false;
  if (!(now.classes & class_bit(vector.service))) {
    if (outbox.unread.size() > 1) {
      ask(to, outbox, turn);
      return false;
    }
    announce(to, outbox, vector, turn);
  }
  now.service = vector.service;
  Turn below = within(*transfer_, turn);
  for (const Part& part : parts(vector.begin.shape, vector.begin.coding))
    transfer_->reprioritise(key_of(place_.self, to, vector.begin, part), to, vector.service, below);
  return true;
}

// In the class of the pieces that follow, so that it comes before them.
void VectorChannelBase::announce(Rank to, Outbox& outbox, const Vector& vector, Turn& turn) {
  Inbox& inbox = in_[to];
  channel::Begin begin = vector.begin;
  begin.seq = outbox.under_way->seq;
  begin.read = inbox.reported = inbox.read;
  inbox.unreported_bytes = 0;
  outbox.under_way->classes |= class_bit(vector.service);
  outbox.classes |= class_bit(vector.service);
  turn.send(to, begin, {}, vector.service);
}

void VectorChannelBase::on_sent(const Sent& gone, Turn& turn) {
  const auto found = out_.find(gone.to);
  if (found == out_.end() || !found->second.under_way) return;
  Outbox& outbox = found->second;
  const VectorHandle handle = outbox.queue.front();
  if (gone.key.vector.round != handle || gone.key.epoch != session(gone.to)) return;
  const auto bit = std::uint8_t(1u << gone.key.vector.range);
  if (!(outbox.under_way->parts_left & bit) || transfer_->remaining(gone.key, gone.to) > 0) return;
  outbox.under_way->parts_left &= std::uint8_t(~bit);
  outbox.under_way->bytes += gone.bytes;
  if (outbox.under_way->parts_left == 0) finish(gone.to, outbox, turn);
}

// The host has all of the first vector in the queue: it arrives, or its receiver is lost.
void VectorChannelBase::finish(Rank to, Outbox& outbox, Turn& turn) {
  const VectorHandle handle = outbox.queue.front();
  Vector& vector = vectors_.at(handle);
  if (vector.report_sent)
    sent_.push_back({handle, to, outbox.under_way->bytes, turn.now() - vector.since});
  outbox.queue.pop_front();
  outbox.under_way.reset();
  to_advance_.insert(to);
  settle(vector, Codec::Fate::delivered);  // all of it is encoded
  forget_receiver(handle, to);
}

void VectorChannelBase::settle(Vector& vector, Codec::Fate fate) {
  if (vector.settled) return;
  vector.settled = true;
  if (!is_coded(vector)) return;
  const std::pair slot{vector.begin.coding, vector.begin.group};
  const auto open = codec_open_.find(slot);
  if (open == codec_open_.end() || open->second != vector.begin.handle) return;  // none encoded
  codec_open_.erase(open);
  for (const Part& part : parts(vector.begin.shape, vector.begin.coding))
    coder_.settle(key_of(place_.self, place_.self, vector.begin, part).vector, part.coding, fate);
  for (const auto& [handle, other] : vectors_)
    if (std::pair{other.begin.coding, other.begin.group} == slot)
      to_advance_.insert(other.left.begin(), other.left.end());
}

void VectorChannelBase::forget_receiver(VectorHandle handle, Rank to) {
  const auto found = vectors_.find(handle);
  found->second.left.erase(to);
  if (!found->second.left.empty()) return;
  settle(found->second, Codec::Fate::abandoned);  // if nobody has all of it
  vectors_.erase(found);
}

bool VectorChannelBase::cancel(VectorHandle handle, Turn& turn) {
  const auto found = vectors_.find(handle);
  if (found == vectors_.end()) return false;
  const std::set<Rank> left = found->second.left;
  for (const Rank to : left) drop_at(to, handle, turn);
  work(turn);
  return true;
}

bool VectorChannelBase::cancel(VectorHandle handle, Rank to, Turn& turn) {
  const auto found = vectors_.find(handle);
  if (found == vectors_.end() || !found->second.left.contains(to)) return false;
  drop_at(to, handle, turn);
  work(turn);
  return true;
}

void VectorChannelBase::drop_at(Rank to, VectorHandle handle, Turn& turn) {
  const Vector& vector = vectors_.at(handle);
  Outbox& outbox = out_.at(to);
  if (outbox.under_way && outbox.queue.front() == handle) {
    for (const Part& part : parts(vector.begin.shape, vector.begin.coding))
      transfer_->cancel(key_of(place_.self, to, vector.begin, part), to);
    const std::uint8_t classes = outbox.under_way->classes;
    for (std::uint8_t priority = 0; priority < 8; ++priority)
      if (classes >> priority & 1)
        turn.send(to, channel::Cancel{outbox.under_way->seq, std::uint8_t(std::popcount(classes))},
                  {}, Service{.priority = priority});
    outbox.under_way.reset();
  }
  std::erase(outbox.queue, handle);
  to_advance_.insert(to);
  forget_receiver(handle, to);
}

bool VectorChannelBase::reprioritise(VectorHandle handle, Service service, Turn& turn) {
  LH_CHECK(service.delivery == Service::Delivery::reliable);
  const auto found = vectors_.find(handle);
  if (found == vectors_.end()) return false;
  Vector& vector = found->second;
  vector.service = service;
  to_advance_.insert(vector.left.begin(), vector.left.end());
  work(turn);
  return true;
}

std::vector<float> VectorChannelBase::as_received(std::span<const float> values, Range range,
                                                  Rank to, const SendOptions& options) {
  std::vector<float> read(values.begin(), values.end());
  if (to == place_.self || place_.phantom) return read;
  LH_CHECK(values.size() == range.length);
  const channel::Begin begin{.handle = next_handle_, .group = options.group.value_or(to)};
  LH_CHECK(options.coding == Coding::exact || !codec_open_.contains({options.coding, begin.group}));
  const ContentShape shape{ContentKind::values, range, range.length};
  for (const Part& part : parts(shape, options.coding)) {
    const CodecKey key = key_of(place_.self, to, begin, part).vector;
    for (const Range& at : cut(part, shape.kind)) {
      const auto first = std::size_t(at.offset - range.offset);
      const Payload bytes = coder_.write(key, part.coding, at, values.subspan(first, at.length));
      const auto got = coder_.read(key, part.coding, at, bytes);
      LH_CHECK(got);  // our own bytes
      std::copy(got->begin(), got->end(), read.begin() + std::ptrdiff_t(first));
    }
  }
  return read;
}

std::span<const float> VectorChannelBase::values(const TransferKey& key, Range range) const {
  const Vector& vector = vectors_.at(key.vector.round);
  if (place_.phantom || key.vector.range == kWords) return {};
  return std::span(*vector.content.values())
      .subspan(range.offset - vector.begin.shape.range.offset, range.length);
}

Payload VectorChannelBase::encoded(const TransferKey& key, Range range) {
  Vector& vector = vectors_.at(key.vector.round);
  if (key.vector.range == kWords) {
    const std::uint64_t from = 4 * range.offset;
    const std::uint64_t size = std::min(4 * range.end(), vector.begin.shape.bytes()) - from;
    return place_.phantom ? Payload::phantom(size) : Payload(vector.content.bytes(), from, size);
  }
  const auto cached = vector.pieces.find(range.offset);
  if (cached == vector.pieces.end()) {
    const Payload bytes = coder_.write(key.vector, key.coding, range, values(key, range));
    if (vector.receivers > 1) vector.pieces[range.offset] = {bytes, 1};
    return bytes;
  }
  const Payload bytes = cached->second.bytes;
  if (++cached->second.pulled == vector.receivers) vector.pieces.erase(cached);
  return bytes;
}

std::optional<VectorChannelBase::SentVector> VectorChannelBase::sent() {
  if (sent_.empty()) return std::nullopt;
  const SentVector one = sent_.front();
  sent_.pop_front();
  return one;
}

std::uint64_t VectorChannelBase::unsent(VectorHandle handle, Rank to) const {
  const auto found = vectors_.find(handle);
  if (found == vectors_.end() || !found->second.left.contains(to)) return 0;
  const channel::Begin& begin = found->second.begin;
  const Outbox& outbox = out_.at(to);
  const bool has_begun = outbox.under_way && outbox.queue.front() == handle;
  std::uint64_t left = 0;
  for (const Part& part : parts(begin.shape, begin.coding))
    left += has_begun ? transfer_->remaining(key_of(place_.self, to, begin, part), to)
                      : part.range.length;
  return left;
}

std::size_t VectorChannelBase::queued(Rank to) const {
  const auto found = out_.find(to);
  return found == out_.end() ? 0 : found->second.queue.size();
}

void VectorChannelBase::lose_outgoing(Rank peer) {
  const auto found = out_.find(peer);
  if (found == out_.end()) return;
  const std::deque<VectorHandle> queue = found->second.queue;
  for (const VectorHandle handle : queue) {
    const Vector& vector = vectors_.at(handle);
    lost_.push_back({peer, false, handle, false, vector.begin.header});
    for (const Part& part : parts(vector.begin.shape, vector.begin.coding))
      transfer_->cancel(key_of(place_.self, peer, vector.begin, part), peer);
    forget_receiver(handle, peer);
  }
  out_.erase(found);
}

void VectorChannelBase::Vector::state(Archive& ar) {
  ar(begin, content, service.delivery, service.priority, service.order);
  ar(report_sent, settled, since, receivers, left, pieces);
}

}  // namespace longhaul
