#include "longhaul/core/vector_channel.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace longhaul {

namespace {

enum : std::uint32_t { kParameters, kBuffers, kWords };

Range common(Range a, Range b) {
  const std::uint64_t from = std::max(a.offset, b.offset), to = std::min(a.end(), b.end());
  return {from, to > from ? to - from : 0};
}

}  // namespace

ChannelLimits ChannelLimits::models(std::uint32_t count, const Layout& layout) {
  return {.vectors = 8 * count,
          .bytes = count * (sizeof(float) * layout.size() + channel::kMostHeaderBytes)};
}

VectorChannelBase::VectorChannelBase(const Place& place, ChannelConfig config,
                                     std::unique_ptr<Transfer> transfer, std::unique_ptr<Codec> up,
                                     std::unique_ptr<Codec> down)
    : place_(place),
      config_(std::move(config)),
      transfer_(std::move(transfer)),
      coder_(place.phantom, std::move(up), std::move(down)) {
  LH_CHECK(transfer_ && place_.layout && place_.layout->size() > 0);
  LH_CHECK(config_.limits.vectors > 0 && config_.limits.bytes > 0);
  LH_CHECK(place_.longest_piece() >= 2);  // an fp64 value fits a chunk
  transfer_->attach(*this);
  own(*transfer_);
}

// Returns the epoch in which the session of this node and the peer began. Vectors of an earlier
// incarnation of either belong to an earlier session.
Epoch VectorChannelBase::session(Rank peer) const {
  if (config_.one_view) return view_.epoch;
  return std::max(view_.since(place_.self), view_.since(peer));
}

void VectorChannelBase::work(Turn& turn) {
  for (bool more = true; more;) {
    more = false;
    while (auto arrival = transfer_->arrived()) store(*std::move(arrival));
    while (const auto gone = transfer_->sent()) {
      on_sent(*gone, turn);
      more = true;
    }
    for (const Rank to : std::exchange(to_advance_, {}))
      while (advance(to, turn)) more = true;
    for (const Rank to : std::exchange(to_report_, {}))
      if (const auto found = in_.find(to); found != in_.end())
        report_reads(to, found->second, turn);
  }
}

void VectorChannelBase::on_view(const View& before, Turn& turn) {
  // Keys of the ended session need the view that it was in.
  for (Rank rank = 0; rank < place_.size(); ++rank) {
    const bool goes_on =
        !config_.one_view && turn.view().has(rank) && turn.view().since(rank) == before.since(rank);
    if (goes_on) continue;
    lose_outgoing(rank);
    lose_incoming(rank);
  }
  if (config_.one_view) arrived_.clear();
  view_ = turn.view();
  work(turn);
}

std::string VectorChannelBase::waiting_for() const {
  std::string text;
  const auto add = [&](Rank rank, const std::string& what) {
    text += (text.empty() ? "stream " + config_.stream + ": " : "; ") + "rank " +
            std::to_string(rank) + " " + what;
  };
  for (const auto& [rank, outbox] : out_) {
    const std::string vector = "vector " + std::to_string(outbox.next);
    if (outbox.under_way) {
      add(rank, "to take vector " + std::to_string(outbox.under_way->seq) + " of its link");
    } else if (!outbox.queue.empty()) {
      const auto codec = codec_open_.find({vectors_.at(outbox.queue.front()).begin.coding,
                                           vectors_.at(outbox.queue.front()).begin.group});
      add(rank,
          codec == codec_open_.end()
              ? "to read " + std::to_string(outbox.unread.size()) + " vectors before " + vector
              : "to get " + vector + " after another vector of its codec");
    }
  }
  for (const auto& [rank, inbox] : in_)
    if (inbox.open)
      add(rank, "to send the rest of its vector " + std::to_string(inbox.next) + ", of which " +
                    std::to_string(inbox.open->pieces.size()) + " pieces are here");
  return text;
}

void VectorChannelBase::state(Archive& ar) {
  ar.expect("channel " + config_.stream);
  ar(view_, next_handle_, vectors_, out_, in_, codec_open_, arrived_, lost_, sent_);
  coder_.state(ar);
  if (!ar.loading() || ar.failed()) return;
  const auto check = [&](bool holds) {
    if (!holds) ar.fail("holds a channel that does not fit together");
  };
  for (const auto& [rank, outbox] : out_) {
    check(!outbox.under_way || !outbox.queue.empty());
    for (const VectorHandle handle : outbox.queue)
      check(vectors_.contains(handle) && vectors_.at(handle).left.contains(rank));
  }
  for (auto& [handle, vector] : vectors_) {
    check(vector.begin.shape == vector.content.shape());
    check(bool(vector.begin.shape.check(*place_.layout)));
    for (const Rank rank : vector.left) check(out_.contains(rank));
  }
  for (const auto& [rank, inbox] : in_) {
    if (!inbox.open) continue;
    const ContentShape& shape = inbox.open->begin.shape;
    check(bool(shape.check(*place_.layout)) &&
          inbox.open->begin.footprint() <= config_.limits.bytes);
    const bool is_values = shape.kind == ContentKind::values;
    check(inbox.open->values.empty() ||
          inbox.open->values.size() == (is_values ? shape.size : shape.words()));
  }
}

// --- the sender: queues, limits, pieces for the transfer ----------------------------------------

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

// Fails the run and returns a handle that no vector has.
VectorHandle VectorChannelBase::diverge(std::string_view what, Turn& turn) {
  turn.diverge("stream " + config_.stream + ": " + std::string(what));
  return next_handle_++;
}

// Returns the parts in which the transfer gets a vector: buffers and words are exact.
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

// Never cuts an fp64 value or a pair in two.
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

// Returns the same key for all receivers of a vector in this session, so it is encoded once.
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

// Returns true if the vector can begin now. A codec has one open vector per group.
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

// Begins the first vector in the queue if it can. Returns false if nothing changed.
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
  for (const Part& part : all)
    transfer_->begin({.key = key_of(place_.self, to, vector.begin, part),
                      .to = to,
                      .ranges = cut(part, vector.begin.shape.kind),
                      .weight = 0,
                      .service = vector.service},
                     within(*transfer_, turn));
}

// Moves the rest of the vector in flight to its current service. Waits while an earlier vector is
// unread, which the new class could overtake.
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
  for (const Part& part : parts(vector.begin.shape, vector.begin.coding))
    transfer_->reprioritise(key_of(place_.self, to, vector.begin, part), to, vector.service,
                            within(*transfer_, turn));
  return true;
}

// Uses the class of the pieces that follow, so that the announcement arrives before them.
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

// Called when the host has all of the first vector in the queue: it arrives, or its receiver is
// lost.
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
  if (open == codec_open_.end() || open->second != vector.begin.handle) return;  // not encoded
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
  settle(found->second, Codec::Fate::abandoned);  // if no receiver has all of it
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
      LH_CHECK(got);  // own bytes
      std::ranges::copy(*got, read.begin() + std::ptrdiff_t(first));
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

// --- the receiver: accepted messages of a peer, their order and limits --------------------------

Status VectorChannelBase::on_message(Rank from, const Message& message, Turn& turn) {
  if (from == turn.self()) return malformed("a vector of oneself by way of the network");
  // From an earlier incarnation, whose session has ended.
  if (message.epoch < session(from)) return Ok{};
  const Status status =
      dispatch(Messages{}, message, [&](const auto& m) { return take(from, m, turn); });
  work(turn);
  return status;
}

Status VectorChannelBase::take(Rank from, const channel::Begin& begin, Turn&) {
  Inbox& inbox = in_[from];
  const auto vector = [&](std::string_view why) {
    return malformed("stream " + config_.stream + ", vector " + std::to_string(begin.seq) + ": " +
                     std::string(why));
  };
  LH_TRY(note_read(from, begin.read));
  if (begin.seq < inbox.next) return Ok{};  // a copy that another class has overtaken
  if (inbox.open && inbox.open->begin.seq == begin.seq)
    return inbox.open->begin.same_vector(begin) ? Status(Ok{}) : vector("another is open");
  if (inbox.open || begin.seq != inbox.next)
    return vector("vector " + std::to_string(inbox.next) + " is expected, after the one before");
  LH_TRY(begin.shape.check(*place_.layout));
  if (begin.shape.kind != ContentKind::values && begin.coding != Coding::exact)
    return vector("a codec writes values only");
  const ChannelLimits& limits = config_.limits;
  if (inbox.unread.size() >= limits.vectors ||
      begin.footprint() > limits.bytes - std::min(limits.bytes, inbox.unread_bytes))
    return vector("it is more than may be unread here");
  const Result<bool> keep = admits(from, begin.header, begin.shape);
  if (!keep) return keep.error();
  inbox.open.emplace(Incoming()).begin = begin;
  inbox.open->keep = *keep;
  if (begin.shape.kind == ContentKind::none) close(from, inbox, *keep);
  return Ok{};
}

Status VectorChannelBase::take(Rank from, const channel::Cancel& cancel, Turn&) {
  Inbox& inbox = in_[from];
  if (!inbox.open || inbox.open->begin.seq != cancel.seq)
    return malformed("stream " + config_.stream + ": vector " + std::to_string(cancel.seq) +
                     " is cancelled, which is not open");
  Incoming& open = *inbox.open;
  if (open.keep) lost_.push_back({from, true, open.begin.handle, true, open.begin.header});
  open.keep = false;
  open.values = {};
  if (++open.cancels >= cancel.copies) close(from, inbox, false);
  return Ok{};
}

Status VectorChannelBase::take(Rank from, const channel::Credit& credit, Turn&) {
  return note_read(from, credit.read);
}

Status VectorChannelBase::take(Rank from, const channel::Ask& ask, Turn&) {
  Inbox& inbox = in_[from];
  inbox.asked_up_to = std::max(inbox.asked_up_to, ask.seq);
  to_report_.insert(from);
  return Ok{};
}

Status VectorChannelBase::note_read(Rank from, std::uint64_t read) {
  Outbox& outbox = out_[from];
  if (read > outbox.next)
    return malformed("stream " + config_.stream + ": " + std::to_string(read) +
                     " vectors are read where " + std::to_string(outbox.next) + " were sent");
  for (; outbox.read < read; ++outbox.read) {
    outbox.unread_bytes -= outbox.unread.front();
    outbox.unread.pop_front();
  }
  if (outbox.unread.empty()) outbox.classes = 0;
  to_advance_.insert(from);
  return Ok{};
}

const VectorChannelBase::Part* VectorChannelBase::part_at(const std::vector<Part>& all,
                                                          std::uint64_t offset) const {
  const auto found = std::ranges::find_if(all, [&](const Part& part) {
    return offset >= part.range.offset && offset < part.range.end();
  });
  return found == all.end() ? nullptr : &*found;
}

// Pieces of an earlier session pass, and store() drops them: their sender could not know.
Status VectorChannelBase::admit(Rank from, const TransferKey& key, Range range) {
  if (key.epoch < session(from)) return Ok{};
  const auto found = in_.find(from);
  if (found == in_.end() || !found->second.open) return malformed("a piece of no vector");
  const Incoming& open = *found->second.open;
  const std::vector<Part> all = parts(open.begin.shape, open.begin.coding);
  const Part* part = part_at(all, range.offset);
  if (!part || key != key_of(from, place_.self, open.begin, *part))
    return malformed("a piece of another vector than the one that is open");
  const std::uint64_t longest = longest_piece(open.begin.shape.kind);
  const bool is_cut = (range.offset - part->range.offset) % longest == 0 &&
                      range.length == std::min(longest, part->range.end() - range.offset);
  if (!is_cut || open.pieces.contains(range.offset))
    return malformed("a piece at " + std::to_string(range.offset) + " that is " +
                     (is_cut ? "there already" : "none of those that a vector is cut in"));
  return Ok{};
}

// Carries words as the bits of floats.
Result<std::vector<float>> VectorChannelBase::decode(const TransferKey& key, Range at,
                                                     const Payload& bytes) {
  if (key.vector.origin >= place_.size() || key.epoch < session(key.vector.origin))
    return std::vector<float>{};
  const auto found = in_.find(key.vector.origin);
  if (found == in_.end() || !found->second.open) return malformed("a piece of no vector");
  const ContentShape& shape = found->second.open->begin.shape;
  if (shape.kind == ContentKind::values) return coder_.read(key.vector, key.coding, at, bytes);
  const std::uint64_t size = std::min(4 * at.end(), shape.bytes()) - 4 * at.offset;
  if (bytes.size() != size)
    return malformed("piece of " + std::to_string(bytes.size()) + " bytes where " +
                     std::to_string(size) + " are expected");
  if (place_.phantom) return std::vector<float>{};
  std::vector<float> words(at.length);
  std::memcpy(words.data(), bytes.view().data(), size);
  LH_TRY(check_elements(shape, bytes.view()));
  return words;
}

void VectorChannelBase::store(Arrival arrival) {
  const auto found = in_.find(arrival.from);
  if (found == in_.end() || !found->second.open || arrival.key.epoch < session(arrival.from))
    return;
  Inbox& inbox = found->second;
  Incoming& open = *inbox.open;
  const ContentShape& shape = open.begin.shape;
  const bool is_values = shape.kind == ContentKind::values;
  const std::uint64_t total = is_values ? shape.size : shape.words();
  const auto first = std::ptrdiff_t(arrival.range.offset - (is_values ? shape.range.offset : 0));
  open.pieces.insert(arrival.range.offset);
  open.filled += arrival.range.length;
  if (open.keep && !place_.phantom) {
    open.values.resize(total);
    std::ranges::copy(arrival.values, open.values.begin() + first);
  }
  if (open.filled == total) close(arrival.from, inbox, open.keep);
}

// Closes the open vector, which is whole or discarded.
void VectorChannelBase::close(Rank from, Inbox& inbox, bool is_live) {
  Incoming open = *std::move(inbox.open);
  inbox.open.reset();
  ++inbox.next;
  inbox.unread.push_back({open.begin.footprint(), is_live});
  inbox.unread_bytes += open.begin.footprint();
  if (!is_live) {
    to_report_.insert(from);
    return count_read(inbox);
  }
  Arrived arrived{from, session(from), std::move(open.begin.header), {}};
  const ContentShape& shape = open.begin.shape;
  if (place_.phantom || shape.kind == ContentKind::none) {
    arrived.content = VectorContent::phantom(shape);
  } else if (shape.kind == ContentKind::values) {
    arrived.content = VectorContent::values(snapshot_of(std::move(open.values)), shape.range);
  } else {
    Buffer bytes(shape.bytes());
    std::memcpy(bytes.data(), open.values.data(), bytes.size());
    arrived.content = VectorContent::raw(shape, share(std::move(bytes)));
  }
  arrived_.push_back(std::move(arrived));
}

// Counts a discarded vector as read when all vectors before it are read.
void VectorChannelBase::count_read(Inbox& inbox) {
  while (!inbox.unread.empty() && !inbox.unread.front().is_live) {
    inbox.unread_bytes -= inbox.unread.front().footprint;
    inbox.unreported_bytes += inbox.unread.front().footprint;
    inbox.unread.pop_front();
    ++inbox.read;
  }
}

std::optional<VectorChannelBase::Arrived> VectorChannelBase::poll_bytes(Turn& turn) {
  if (arrived_.empty()) return std::nullopt;
  Arrived arrived = std::move(arrived_.front());
  arrived_.pop_front();
  const auto found = in_.find(arrived.from);
  // From a peer that is lost, or from this node itself: no sender waits for credit.
  if (found == in_.end() || arrived.from == turn.self() || arrived.session != session(arrived.from))
    return arrived;
  found->second.unread.front().is_live = false;
  count_read(found->second);
  report_reads(arrived.from, found->second, turn);
  return arrived;
}

std::optional<VectorChannelBase::LostVector> VectorChannelBase::lost_bytes() {
  if (lost_.empty()) return std::nullopt;
  LostVector one = std::move(lost_.front());
  lost_.pop_front();
  return one;
}

// Sends credit alone if the peer has asked, or if half of the limits are used up. Otherwise the
// next vector to the peer carries it.
void VectorChannelBase::report_reads(Rank to, Inbox& inbox, Turn& turn) {
  const std::uint64_t unreported = inbox.read - inbox.reported;
  if (unreported == 0) return;
  const ChannelLimits& limits = config_.limits;
  if (inbox.asked_up_to <= inbox.reported && 2 * unreported < limits.vectors &&
      2 * inbox.unreported_bytes < limits.bytes)
    return;
  inbox.reported = inbox.read;
  inbox.unreported_bytes = 0;
  turn.send(to, channel::Credit{inbox.read}, {}, kControl);
}

// Keeps whole vectors and discards the unfinished one.
void VectorChannelBase::lose_incoming(Rank peer) {
  const auto found = in_.find(peer);
  if (found == in_.end()) return;
  const auto& open = found->second.open;
  if (open && open->keep)
    lost_.push_back({peer, true, open->begin.handle, false, open->begin.header});
  in_.erase(found);
}

}  // namespace longhaul
