#pragma once
// A VectorChannel sends one stream of vectors from a node to its peers. A vector is a header, which
// is a struct of the strategy's own with fields(), and a content (core/vector_content.h). A
// strategy owns one channel for each stream, each with its codec and service. docs/channels.md
//
// Promises, for each pair of nodes and each stream:
// - Vectors arrive in the order in which they were sent, each once and whole.
// - A vector to several receivers is encoded once. A vector to oneself costs nothing.
// - A receiver keeps at most ChannelLimits of what its owner has not polled. The sender waits.
// - The owner decides on (from, header, shape) before anything is kept. What cannot be genuine is
//   malformed and changes nothing.
// - A cancelled vector, and what a lost peer leaves unfinished, is discarded whole and reported.
// - A peer that comes back with a new incarnation begins at 0.
//
// One vector is under way to a peer at a time; the next one follows when the host has all of it.
// Vectors of another class of service wait until the receiver has read all before them, because
// classes may overtake each other; so does a change of class while a vector is under way. Between
// channels of one node in the same class the one that was owned first goes first.
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "longhaul/core/channel_messages.h"
#include "longhaul/core/transfer.h"

namespace longhaul {

// A vector at its sender: unique in a channel, never used again. 0: none.
using VectorHandle = std::uint64_t;

// How much of one peer's may be unread at a receiver. Equal at all nodes.
struct ChannelLimits {
  std::uint32_t vectors = 8;
  std::uint64_t bytes = 0;  // headers and contents in memory; one vector must fit
  // Room for so many whole models of the layout, with their headers.
  static ChannelLimits models(std::uint32_t count, const Layout&);
};

struct ChannelConfig {
  std::string stream;  // its name, for messages to the user
  ChannelLimits limits;
  Service service = {};  // of vectors that name none; reliable
};

struct SendOptions {
  Coding coding = Coding::up;  // of values; buffers and other contents are exact
  std::optional<Service> service = {};
  // Error is fed back to later vectors of the same group. Unset: the receiver's rank if there is
  // one receiver, else the group of all vectors to several.
  std::optional<std::uint32_t> group = {};
  bool report_sent = false;  // sent() tells when the host has all of it
};

class VectorChannelBase : public Machine, public VectorPort {
 public:
  using Messages = channel::Messages;
  static constexpr std::uint32_t kSeveralReceivers = 0xFFFFFFFF;  // a group

  // It was sent by this node (`incoming` false) or to it, and does not arrive whole.
  struct LostVector {
    Rank peer = 0;
    bool incoming = false;
    VectorHandle handle = 0;  // the sender's
    bool cancelled = false;   // incoming: by its sender; else the peer is lost
    std::vector<std::uint8_t> header;
    void state(auto& ar) { ar(peer, incoming, handle, cancelled, header); }
  };
  struct SentVector {  // to one receiver
    VectorHandle handle = 0;
    Rank to = 0;
    std::uint64_t bytes = 0;
    Time took{0};  // from send() on
    void state(auto& ar) { ar(handle, to, bytes, took); }
  };

  // Drops what the host does not have yet, at all receivers; those that have a part discard it.
  // False: all of it is with the host, or was dropped before.
  bool cancel(VectorHandle, Turn&);
  // The same, of one receiver; the others get it.
  bool cancel(VectorHandle, Rank to, Turn&);
  // What the host does not have yet goes with this service (reliable). False: it has all.
  bool reprioritise(VectorHandle, Service, Turn&);
  // What receiver `to` would read of these values if they were sent to it alone, next, with these
  // options; they must be sent next.
  std::vector<float> as_received(std::span<const float> values, Range, Rank to, const SendOptions&);
  std::optional<SentVector> sent();
  // What of the vector the host does not have yet, for this receiver: values, or words of 32 bits.
  std::uint64_t unsent(VectorHandle, Rank to) const;
  // Vectors for `to` that are not wholly with the host.
  std::size_t queued(Rank to) const;
  // What waits for whom: "stream models: rank 3 to read what it has"; "": nothing.
  std::string waiting_for() const;
  // "TEXT; what waits for whom"
  std::string waiting_after(const std::string& text) const {
    const std::string below = waiting_for();
    return below.empty() ? text : text + "; " + below;
  }
  // For who learns of lost peers from views: forgets what lost() would say.
  void drop_lost() { lost_.clear(); }

  Status on_message(Rank from, const Message&, Turn&) override;
  void on_progress(Turn& turn) override { work(turn); }
  void on_view(const View& before, Turn&) override;
  void state(Archive&) override;

  // VectorPort
  Payload encoded(const TransferKey&, Range) override;
  Status admit(Rank from, const TransferKey&, Range) override;
  Result<std::vector<float>> decode(const TransferKey&, Range, const Payload&) override;

 protected:
  using HeaderBytes = std::vector<std::uint8_t>;
  struct Arrived {
    Rank from = 0;
    Epoch session = 0;
    HeaderBytes header;
    VectorContent content;
    void state(Archive& ar) { ar(from, session, header, content); }
  };

  VectorChannelBase(const Place&, ChannelConfig, std::unique_ptr<Transfer>,
                    std::unique_ptr<Codec> up, std::unique_ptr<Codec> down);
  VectorHandle send_bytes(const std::vector<Rank>& to, HeaderBytes, VectorContent,
                          const SendOptions&, Turn&);
  VectorHandle diverge(std::string_view what, Turn&);
  std::optional<Arrived> poll_bytes(Turn&);
  std::optional<LostVector> lost_bytes();
  // True: keep it; false: let it pass unread; an Error: the peer broke the protocol.
  virtual Result<bool> admits(Rank from, const HeaderBytes&, const ContentShape&) = 0;

 private:
  // --- sender -----------------------------------------------------------------------------------
  struct Part {  // of a vector, given to the transfer as one
    std::uint32_t index = 0;
    Range range;
    Coding coding = Coding::exact;
  };
  struct CachedPiece {
    Payload bytes;
    std::uint32_t pulled = 0;
    void state(auto& ar) { ar(bytes, pulled); }
  };
  struct Vector {
    channel::Begin begin;  // without seq and read, which differ from receiver to receiver
    VectorContent content;
    Service service;
    bool report_sent = false;
    bool settled = false;  // its codec was told what became of it
    Time since{0};
    std::uint32_t receivers = 0;                  // at the start
    std::set<Rank> left;                          // receivers that do not have all of it yet
    std::map<std::uint64_t, CachedPiece> pieces;  // by offset; with several receivers
    void state(Archive&);
  };
  struct UnderWay {
    std::uint64_t seq = 0;
    std::uint8_t classes = 0;     // that it was announced in, a bit each
    std::uint8_t parts_left = 0;  // a bit each
    std::uint64_t bytes = 0;
    Service service = {};  // that the transfer was given
    void state(auto& ar) {
      ar(seq, classes, parts_left, bytes, service.delivery, service.priority, service.order);
    }
  };
  struct Outbox {                      // to one peer
    std::uint64_t next = 0;            // seq
    std::uint64_t read = 0;            // vectors that the peer has read
    std::deque<std::uint64_t> unread;  // footprints of those that it has not
    std::uint64_t unread_bytes = 0;
    std::uint8_t classes = 0;  // that the unread ones used, a bit each
    bool asked = false;        // for credit, for the head of the queue
    std::deque<VectorHandle> queue;
    std::optional<UnderWay> under_way;  // the first of the queue
    void state(auto& ar) { ar(next, read, unread, unread_bytes, classes, asked, queue, under_way); }
  };

  static std::uint8_t class_bit(Service service) { return std::uint8_t(1u << service.priority); }
  std::vector<Part> parts(const ContentShape&, Coding) const;
  std::vector<Range> cut(const Part&, ContentKind) const;
  std::uint64_t longest_piece(ContentKind) const;
  std::span<const float> values(const TransferKey&, Range) const;
  TransferKey key_of(Rank from, Rank to, const channel::Begin&, const Part&) const;
  bool is_coded(const Vector&) const;
  bool has_room(const Vector&, Outbox&, Rank to, Turn&);
  void ask(Rank to, Outbox&, Turn&);
  bool advance(Rank to, Turn&);
  bool follow_service(Rank to, Outbox&, const Vector&, Turn&);
  void begin(Rank to, Outbox&, Vector&, Turn&);
  void announce(Rank to, Outbox&, const Vector&, Turn&);
  void on_sent(const Sent&, Turn&);
  void finish(Rank to, Outbox&, Turn&);
  void settle(Vector&, Codec::Fate);
  void forget_receiver(VectorHandle, Rank to);
  void drop_at(Rank to, VectorHandle, Turn&);
  void lose_outgoing(Rank peer);
  void work(Turn&);

  // --- receiver ---------------------------------------------------------------------------------
  struct Incoming {
    channel::Begin begin;
    bool keep = true;                // its owner wants it and its sender has not cancelled it
    std::uint8_t cancels = 0;        // copies of Cancel
    std::set<std::uint64_t> pieces;  // offsets of those that are there
    std::uint64_t filled = 0;        // values or words
    std::vector<float> values;       // or the bits of words
    void state(auto& ar) { ar(begin, keep, cancels, pieces, filled, values); }
  };
  struct Unread {
    std::uint64_t footprint = 0;
    bool is_live = true;  // false: discarded; it counts until all before it are read
    void state(auto& ar) { ar(footprint, is_live); }
  };
  struct Inbox {                    // of one peer
    std::uint64_t next = 0;         // seq of the one that is open or comes next
    std::uint64_t read = 0;         // vectors read or discarded
    std::uint64_t reported = 0;     // of them, what the peer was told
    std::uint64_t asked_up_to = 0;  // the peer wants to know of each before this one
    std::uint64_t unreported_bytes = 0;
    std::uint64_t unread_bytes = 0;
    std::deque<Unread> unread;
    std::optional<Incoming> open;
    void state(auto& ar) {
      ar(next, read, reported, asked_up_to, unreported_bytes, unread_bytes, unread, open);
    }
  };

  Epoch session(Rank peer) const;
  Status take(Rank from, const channel::Begin&, Turn&);
  Status take(Rank from, const channel::Cancel&, Turn&);
  Status take(Rank from, const channel::Credit&, Turn&);
  Status take(Rank from, const channel::Ask&, Turn&);
  Status note_read(Rank from, std::uint64_t read);
  void store(Arrival);
  void close(Rank from, Inbox&, bool is_live);
  void count_read(Inbox&);
  void report_reads(Rank to, Inbox&, Turn&);
  void lose_incoming(Rank peer);
  const Part* part_at(const std::vector<Part>&, std::uint64_t offset) const;

  const Place place_;
  const ChannelConfig config_;
  std::unique_ptr<Transfer> transfer_;
  Coder coder_;
  View view_;  // the newest
  VectorHandle next_handle_ = 1;
  std::map<VectorHandle, Vector> vectors_;
  std::map<Rank, Outbox> out_;
  std::map<Rank, Inbox> in_;
  std::map<std::pair<Coding, std::uint32_t>, VectorHandle> codec_open_;  // by (coding, group)
  std::set<Rank> to_advance_, to_report_;                                // empty between inputs
  std::deque<Arrived> arrived_;
  std::deque<LostVector> lost_;
  std::deque<SentVector> sent_;
};

template <Fielded Header>
class VectorChannel final : public VectorChannelBase {
 public:
  struct Received {
    Rank from = 0;
    Header header;
    VectorContent content;
  };
  struct Lost {
    LostVector what;
    Header header;
  };
  // Asked when a vector is announced, before anything of it is kept.
  using Admission = std::function<Result<bool>(Rank from, const Header&, const ContentShape&)>;

  // `up` and `down`: null writes fp32. `place` is that of the node, `transfer` the job's.
  VectorChannel(const Place& place, ChannelConfig config, std::unique_ptr<Transfer> transfer,
                std::unique_ptr<Codec> up, std::unique_ptr<Codec> down, Admission admission)
      : VectorChannelBase(place, std::move(config), std::move(transfer), std::move(up),
                          std::move(down)),
        admission_(std::move(admission)) {}

  // Receivers that are not in the view are reported as lost. A number that is not finite, or is
  // beyond its range in the header, fails the run as diverged: no receiver would take it.
  VectorHandle send(const std::vector<Rank>& to, const Header& header, VectorContent content,
                    const SendOptions& options, Turn& turn) {
    if (const auto number = number_out_of_range(header); !number.empty())
      return diverge(number, turn);
    const Buffer bytes = to_wire(header);
    const auto* first = reinterpret_cast<const std::uint8_t*>(bytes.data());
    return send_bytes(to, {first, first + bytes.size()}, std::move(content), options, turn);
  }
  // What came, once; to be drained in on_progress, or later: what is not polled counts.
  std::optional<Received> poll(Turn& turn) {
    auto arrived = poll_bytes(turn);
    if (!arrived) return std::nullopt;
    return Received{arrived->from, *decoded(arrived->header), std::move(arrived->content)};
  }
  std::optional<Lost> lost() {
    auto what = lost_bytes();
    if (!what) return std::nullopt;
    Header header = *decoded(what->header);
    return Lost{*std::move(what), std::move(header)};
  }

 private:
  static Result<Header> decoded(const HeaderBytes& header) {
    return from_wire<Header>(std::as_bytes(std::span(header)));
  }
  Result<bool> admits(Rank from, const HeaderBytes& bytes, const ContentShape& shape) override {
    const auto header = decoded(bytes);
    if (!header) return malformed("header " + header.error().what);
    return admission_(from, *header, shape);
  }

  const Admission admission_;
};

}  // namespace longhaul
