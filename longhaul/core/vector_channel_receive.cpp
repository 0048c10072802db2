// VectorChannelBase, of the receiver: what is taken of a peer, in which order, up to which bound.
#include <algorithm>
#include <cstring>

#include "longhaul/core/vector_channel.h"

namespace longhaul {
Status VectorChannelBase::on_message(Rank from, const Message& message, Turn& turn) {
  if (from == turn.self()) return malformed("a vector of oneself by way of the network");
  // Of an incarnation before this one: what it says is over.
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
  const auto found = std::find_if(all.begin(), all.end(), [&](const Part& part) {
    return offset >= part.range.offset && offset < part.range.end();
  });
  return found == all.end() ? nullptr : &*found;
}

Status VectorChannelBase::admit(Rank from, const TransferKey& key, Range range) {
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

// Words are carried as the bits of floats.
Result<std::vector<float>> VectorChannelBase::decode(const TransferKey& key, Range at,
                                                     const Payload& bytes) {
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
  if (found == in_.end() || !found->second.open) return;
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
    std::copy(arrival.values.begin(), arrival.values.end(), open.values.begin() + first);
  }
  if (open.filled == total) close(arrival.from, inbox, open.keep);
}

// The open vector is whole, or is discarded.
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
    arrived.content = VectorContent::values(
        std::make_shared<const std::vector<float>>(std::move(open.values)), shape.range);
  } else {
    Buffer bytes(shape.bytes());
    std::memcpy(bytes.data(), open.values.data(), bytes.size());
    arrived.content = VectorContent::raw(shape, share(std::move(bytes)));
  }
  arrived_.push_back(std::move(arrived));
}

// What was discarded counts as read when all before it are.
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
  // Of a peer that is lost meanwhile, or of this node itself: nobody waits for credit.
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

// Credit goes along with the next vector to the peer. It goes alone when the peer has asked, or
// when half of the limits are used up.
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

// Vectors that are whole stay; what is not is discarded.
void VectorChannelBase::lose_incoming(Rank peer) {
  const auto found = in_.find(peer);
  if (found == in_.end()) return;
  const auto& open = found->second.open;
  if (open && open->keep)
    lost_.push_back({peer, true, open->begin.handle, false, open->begin.header});
  in_.erase(found);
}

}  // namespace longhaul
