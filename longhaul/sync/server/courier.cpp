#include "longhaul/sync/server/courier.h"

#include <algorithm>

namespace longhaul::sync::server {
namespace {

// Labels too: they come before their vectors. A node sends one update at a time, and nothing behind
// it until it is answered, so that no letter overtakes one of a lower class.
Service service_of(const Label& label) {
  return {.priority = std::uint8_t(Service{}.priority - (label.goes_up() ? label.urgency : 0))};
}

enum : std::uint32_t { kParameters, kBuffers };

// The models at both ends of a run are equal at all nodes, whatever the codec.
Coding coding_of(const Label& label, std::uint32_t range) {
  if (range == kBuffers) return Coding::exact;
  if (label.kind == Label::Kind::push) return Coding::up;
  return label.kind == Label::Kind::model ? Coding::down : Coding::exact;
}

bool may_carry(Label::Kind kind) { return kind != Label::Kind::pull && kind != Label::Kind::urge; }
bool must_carry(Label::Kind kind) { return may_carry(kind) && kind != Label::Kind::model; }

}  // namespace

void Letter::state(Archive& ar) {
  ar(peer, label);
  archive_snapshot(ar, values);
}

Courier::Courier(const Place& place, Rank server, std::unique_ptr<Transfer> transfer,
                 std::unique_ptr<Codec> up, std::unique_ptr<Codec> down, Reader& reader)
    : place_(place),
      server_(server),
      transfer_(std::move(transfer)),
      coder_(place.phantom, std::move(up), std::move(down)),
      reader_(reader) {
  LH_CHECK(transfer_ && place_.layout && place_.layout->size() > 0);
  transfer_->attach(*this);
  own(*transfer_);
}

void Courier::send(Letter letter, Turn& turn) {
  LH_CHECK(letter.label.goes_up() ? letter.peer == server_ : is_server());
  letter.label.carries = letter.values != nullptr;
  if (letter.peer == turn.self()) return arrived_.push_back(std::move(letter));
  if (letter.label.kind == Label::Kind::urge) {
    const Inbox& inbox = in_[letter.peer];
    letter.label.clock = inbox.next + (inbox.open ? 1 : 0);
  }
  Outbox& outbox = out_[letter.peer];
  letter.label.seq = outbox.next++;
  outbox.letters.push_back(std::move(letter));
  pump(outbox, turn);
  on_progress(turn);  // short vectors are gone already
}

// The next label goes when the vector before it has gone, so that the receiver has one open.
void Courier::pump(Outbox& outbox, Turn& turn) {
  while (!outbox.under_way && !outbox.letters.empty()) {
    const Letter& letter = outbox.letters.front();
    turn.send(letter.peer, letter.label, {}, service_of(letter.label));
    if (!letter.label.carries) {
      outbox.letters.pop_front();
      continue;
    }
    outbox.under_way = true;
    begin(letter, turn);
  }
}

void Courier::begin(const Letter& letter, Turn& turn) {
  const Layout& layout = *place_.layout;
  begin_range(letter, kParameters, layout.parameters(), turn);
  begin_range(letter, kBuffers, layout.buffers(), turn);
}

void Courier::begin_range(const Letter& letter, std::uint32_t range, Range left, Turn& turn) {
  if (left.length == 0) return;
  Turn below = within(*transfer_, turn);
  transfer_->begin({.key = key_of(turn.self(), letter.peer, letter.label, range),
                    .to = letter.peer,
                    .ranges = cut(left),
                    .weight = 0,
                    .service = service_of(letter.label)},
                   below);
}

// What is with the host goes as it is; the rest is queued anew, in the same pieces. Only behind a
// label that has come: nothing of another class may overtake it.
void Courier::urge(const Label& how, Turn& turn) {
  const auto found = out_.find(server_);
  if (found == out_.end() || !found->second.under_way) return;
  Letter& letter = found->second.letters.front();
  if (letter.label.seq >= how.clock || letter.label.urgency == how.urgency) return;
  letter.label.urgency = how.urgency;
  const Layout& layout = *place_.layout;
  for (const auto& [range, whole] :
       {std::pair{kParameters, layout.parameters()}, std::pair{kBuffers, layout.buffers()}}) {
    const TransferKey key = key_of(turn.self(), letter.peer, letter.label, range);
    const std::uint64_t left = transfer_->remaining(key, letter.peer);
    if (left == 0) continue;
    transfer_->cancel(key, letter.peer);
    begin_range(letter, range, {whole.end() - left, left}, turn);
  }
}

TransferKey Courier::key_of(Rank from, Rank to, const Label& label, std::uint32_t range) const {
  // The group is whom it is for: letters to different peers are different vectors.
  return {.epoch = 0,
          .vector = {.round = label.seq, .group = to, .range = range, .origin = from},
          .phase = std::uint8_t(label.goes_up() ? 0 : 1),
          .coding = coding_of(label, range)};
}

// Messages are cut here, not by the transfer: as_read() encodes the same stretches.
std::vector<Range> Courier::cut(Range whole) const {
  const std::uint64_t longest = place_.longest_piece();
  std::vector<Range> pieces;
  for (std::uint64_t at = whole.offset; at < whole.end(); at += longest)
    pieces.push_back({at, std::min(longest, whole.end() - at)});
  return pieces;
}

std::vector<float> Courier::as_read(std::span<const float> parameters) {
  std::vector<float> read(parameters.begin(), parameters.end());
  if (is_server() || place_.phantom) return read;
  const auto outbox = out_.find(server_);
  const CodecKey key{.round = outbox == out_.end() ? 0 : outbox->second.next,
                     .group = server_,
                     .range = kParameters,
                     .origin = place_.self};
  for (const Range& at : cut({0, parameters.size()})) {
    const auto values = parameters.subspan(at.offset, at.length);
    const auto got = coder_.read(key, Coding::up, at, coder_.write(key, Coding::up, at, values));
    LH_CHECK(got);  // our own bytes
    std::copy(got->begin(), got->end(), read.begin() + std::ptrdiff_t(at.offset));
  }
  return read;
}

std::optional<Letter> Courier::arrived() {
  if (arrived_.empty()) return std::nullopt;
  Letter letter = std::move(arrived_.front());
  arrived_.pop_front();
  return letter;
}

Status Courier::on_message(Rank from, const Message& message, Turn& turn) {
  return dispatch(Messages{}, message, [&](const Label& label) -> Status {
    if (from == turn.self() || label.goes_up() != is_server() || (!is_server() && from != server_))
      return malformed("a letter that goes the wrong way");
    Inbox& inbox = in_[from];
    if (inbox.open || label.seq != inbox.next)
      return malformed("letter " + std::to_string(label.seq) + " where " +
                       std::to_string(inbox.next) + " is expected, after the one before");
    if (label.carries ? !may_carry(label.kind) : must_carry(label.kind))
      return malformed("a letter with a vector that has none, or without the one it has");
    LH_TRY(reader_.admit(from, label));
    if (label.carries) {
      inbox.open = label;
      inbox.filled = 0;
      inbox.there.clear();
      inbox.values.clear();
      return Ok{};
    }
    ++inbox.next;
    if (label.kind == Label::Kind::urge) urge(label, turn);
    arrived_.push_back({from, label, nullptr});
    return Ok{};
  });
}

Status Courier::admit(Rank from, const TransferKey& key, Range range) {
  const auto found = in_.find(from);
  if (found == in_.end() || !found->second.open) return malformed("a piece of no letter");
  const Inbox& inbox = found->second;
  const Range buffers = place_.layout->buffers();
  const std::uint32_t of = range.offset < buffers.offset ? kParameters : kBuffers;
  if (key != key_of(from, place_.self, *inbox.open, of))
    return malformed("a piece of another letter than the one that is open");
  const Range whole = of == kParameters ? place_.layout->parameters() : buffers;
  const std::uint64_t longest = place_.longest_piece();
  const bool is_cut = (range.offset - whole.offset) % longest == 0 &&
                      range.length == std::min(longest, whole.end() - range.offset);
  if (!is_cut || inbox.there.contains(range.offset))
    return malformed("a piece at " + std::to_string(range.offset) + " that is " +
                     (is_cut ? "there already" : "none of those that a vector is cut in"));
  return Ok{};
}

Result<std::vector<float>> Courier::decode(const TransferKey& key, Range at, const Payload& bytes) {
  return coder_.read(key.vector, key.coding, at, bytes);
}

std::span<const float> Courier::values(const TransferKey& key, Range range) {
  const Letter& letter = out_.at(key.vector.group).letters.front();
  LH_CHECK(letter.label.seq == key.vector.round);
  if (place_.phantom) return {};
  return std::span(*letter.values).subspan(range.offset, range.length);
}

Payload Courier::encoded(const TransferKey& key, Range range) {
  return coder_.write(key.vector, key.coding, range, values(key, range));
}

void Courier::on_progress(Turn& turn) {
  while (auto arrival = transfer_->arrived()) take(*std::move(arrival));
  while (const auto gone = transfer_->sent()) sent(*gone, turn);
}

void Courier::take(Arrival arrival) {
  Inbox& inbox = in_.at(arrival.from);
  LH_CHECK(inbox.open);
  if (!place_.phantom) inbox.values.resize(place_.layout->size());
  std::copy(arrival.values.begin(), arrival.values.end(),
            inbox.values.begin() + std::ptrdiff_t(arrival.range.offset));
  inbox.filled += arrival.range.length;
  inbox.there.insert(arrival.range.offset);
  if (inbox.filled < place_.layout->size()) return;
  auto whole = std::make_shared<const std::vector<float>>(std::move(inbox.values));
  arrived_.push_back({arrival.from, *inbox.open, std::move(whole)});
  inbox.values = {};
  inbox.there.clear();
  inbox.open.reset();
  ++inbox.next;
}

// What is with the host is delivered, or its receiver is lost.
void Courier::sent(const Sent& gone, Turn& turn) {
  const auto found = out_.find(gone.to);
  if (found == out_.end()) return;
  Outbox& outbox = found->second;
  LH_CHECK(outbox.under_way && outbox.letters.front().label.seq == gone.key.vector.round);
  coder_.settle(gone.key.vector, gone.key.coding, Codec::Fate::delivered);
  const bool last = gone.key.vector.range == kBuffers || place_.layout->buffers().length == 0;
  if (!last) return;
  outbox.letters.pop_front();
  outbox.under_way = false;
  pump(outbox, turn);
}

void Courier::on_view(const View&, Turn& turn) {
  const auto is_gone = [&](const auto& entry) { return !turn.view().has(entry.first); };
  std::erase_if(out_, is_gone);
  std::erase_if(in_, is_gone);
}

void Courier::state(Archive& ar) {
  ar.expect("courier");
  ar(out_, in_, arrived_);
  coder_.state(ar);
  if (!ar.loading()) return;
  for (const auto& [rank, inbox] : in_)
    if (inbox.values.size() > place_.layout->size()) ar.fail("holds a letter that is too long");
}

}  // namespace longhaul::sync::server
