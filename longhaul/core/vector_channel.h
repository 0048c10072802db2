#pragma once
// A VectorChannel sends one stream of vectors from a node to its peers. A vector has a header,
// which is a strategy's struct with fields(), and a content (core/vector_content.h). A strategy
// owns one channel per stream, each with its codec and service. docs/channels.md
//
// Guarantees for each pair of nodes and each stream:
// - Vectors arrive in sending order, each once and whole.
// - A vector to several receivers is encoded once. A vector to the own node costs nothing.
// - A receiver keeps at most ChannelLimits of vectors that its owner has not polled. The sender
// waits.
// - The owner decides on (from, header, shape) before anything is kept. An impossible announcement
// is
//   malformed and changes nothing.
// - Cancelled vectors, and unfinished vectors of a lost peer, are discarded whole and reported.
// - A peer that returns with a new incarnation begins at 0. With ChannelConfig::one_view all peers
//   begin at 0 in each view, and no vector of the view before arrives.
//
// One vector at a time is in flight to a peer; the next one follows when the host has all of it.
// Classes of service may overtake each other. A vector of another class therefore waits until the
// receiver has read all vectors before it, and so does a change of class in flight. Channels of one
// node in the same class send in the order in which they were owned.
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

// Limits of one peer's unread vectors at a receiver. Equal on all nodes.
struct ChannelLimits {
  std::uint32_t vectors = 8;
  std::uint64_t bytes = 0;  // headers and contents in memory; one vector must fit
  // Returns limits with room for `count` whole models of the layout and their headers.
  static ChannelLimits models(std::uint32_t count, const Layout&);
};

struct ChannelConfig {
  std::string stream;  // name of the stream, for messages to the user
  ChannelLimits limits;
  Service service = {};   // default for vectors without their own; reliable
  bool one_view = false;  // a change of the members drops all that is unsent, unread or in transit
};

struct SendOptions {
  Coding coding = Coding::up;  // coding of values; buffers and other contents are exact
  std::optional<Service> service = {};
  // Group for error feedback: later vectors of the same group get the error. Unset: the receiver's
  // rank if there is one receiver, else the group of all vectors to several.
  std::optional<std::uint32_t> group = {};
  bool report_sent = false;  // sent() reports the vector once the host has all of it
};

class VectorChannelBase : public Machine, public VectorPort {
 public:
  using Messages = channel::Messages;
  static constexpr std::uint32_t kSeveralReceivers = 0xFFFFFFFF;  // a group

  // A vector, sent by this node (`incoming` false) or to it, that does not arrive whole.
  struct LostVector {
    Rank peer = 0;
    bool incoming = false;
    VectorHandle handle = 0;  // handle at the sender
    bool cancelled = false;   // incoming: cancelled by its sender; else the peer is lost
    std::vector<std::uint8_t> header;
    void state(auto& ar) { ar(peer, incoming, handle, cancelled, header); }
  };
  struct SentVector {  // a vector to one receiver
    VectorHandle handle = 0;
    Rank to = 0;
    std::uint64_t bytes = 0;
    Time took{0};  // time since send()
    void state(auto& ar) { ar(handle, to, bytes, took); }
  };

  // Drops the rest that the host does not have yet, for all receivers; those that have a part
  // discard it. Returns false if the host has all of it, or if it was dropped before.
  bool cancel(VectorHandle, Turn&);
  // Does the same for one receiver; the others receive the vector.
  bool cancel(VectorHandle, Rank to, Turn&);
  // Changes the service (reliable) of the rest that the host does not have yet. Returns false if
  // the host has all of it.
  bool reprioritise(VectorHandle, Service, Turn&);
  // Returns the values that receiver `to` would decode if these were sent next with these options,
  // to it alone. The next vector must be this one.
  std::vector<float> as_received(std::span<const float> values, Range, Rank to, const SendOptions&);
  std::optional<SentVector> sent();
  // Returns how much the host does not have yet for this receiver: values, or words of 32 bits.
  std::uint64_t unsent(VectorHandle, Rank to) const;
  // Returns the number of vectors for `to` that the host does not have completely.
  std::size_t queued(Rank to) const;
  // Returns the nodes that it waits for: "stream models: rank 3 to read what it has"; "": none.
  std::string waiting_for() const;
  // Returns `text`, followed by "; " and waiting_for() if that is not empty.
  std::string waiting_after(const std::string& text) const {
    const std::string below = waiting_for();
    return below.empty() ? text : text + "; " + below;
  }
  // Discards the reports of lost(), for owners that learn of lost peers from views.
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
  // Returns true to keep the vector, false to skip it unread, an Error if the peer broke the
  // protocol.
  virtual Result<bool> admits(Rank from, const HeaderBytes&, const ContentShape&) = 0;

 private:
  // --- sender -----------------------------------------------------------------------------------
  struct Part {  // a part of a vector, one unit for the transfer
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
    channel::Begin begin;  // without seq and read, which differ between receivers
    VectorContent content;
    Service service;
    bool report_sent = false;
    bool settled = false;  // the codec knows the fate
    Time since{0};
    std::uint32_t receivers = 0;                  // number at the start
    std::set<Rank> left;                          // receivers without all of it
    std::map<std::uint64_t, CachedPiece> pieces;  // by offset; several receivers only
    void state(Archive&);
  };
  struct UnderWay {
    std::uint64_t seq = 0;
    std::uint8_t classes = 0;     // classes of its announcements, a bit each
    std::uint8_t parts_left = 0;  // a bit each
    std::uint64_t bytes = 0;
    Service service = {};  // current service at the transfer
    void state(auto& ar) {
      ar(seq, classes, parts_left, bytes, service.delivery, service.priority, service.order);
    }
  };
  struct Outbox {                      // state for one peer
    std::uint64_t next = 0;            // seq
    std::uint64_t read = 0;            // vectors read by the peer
    std::deque<std::uint64_t> unread;  // footprints of vectors that the peer has not read
    std::uint64_t unread_bytes = 0;
    std::uint8_t classes = 0;  // classes of the unread ones, a bit each
    bool asked = false;        // credit requested for the head of the queue
    std::deque<VectorHandle> queue;
    std::optional<UnderWay> under_way;  // head of the queue, if in flight
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
    bool keep = true;                // the owner wants it and the sender has not cancelled it
    std::uint8_t cancels = 0;        // received copies of Cancel
    std::set<std::uint64_t> pieces;  // offsets of the received pieces
    std::uint64_t filled = 0;        // values or words
    std::vector<float> values;       // values, or the bits of words
    void state(auto& ar) { ar(begin, keep, cancels, pieces, filled, values); }
  };
  struct Unread {
    std::uint64_t footprint = 0;
    bool is_live = true;  // false: discarded; counts until all before it are read
    void state(auto& ar) { ar(footprint, is_live); }
  };
  struct Inbox {                    // state for one peer
    std::uint64_t next = 0;         // seq of the open vector or the next one
    std::uint64_t read = 0;         // vectors read or discarded
    std::uint64_t reported = 0;     // reads that the peer knows of
    std::uint64_t asked_up_to = 0;  // the peer wants a report of each read before this one
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
  // Called when a vector is announced, before anything of it is kept.
  using Admission = std::function<Result<bool>(Rank from, const Header&, const ContentShape&)>;

  // `up` and `down`: null writes fp32. `place`: the node's own; `transfer`: the job's.
  VectorChannel(const Place& place, ChannelConfig config, std::unique_ptr<Transfer> transfer,
                std::unique_ptr<Codec> up, std::unique_ptr<Codec> down, Admission admission)
      : VectorChannelBase(place, std::move(config), std::move(transfer), std::move(up),
                          std::move(down)),
        admission_(std::move(admission)) {}

  // Sends a vector. Receivers outside the view are reported as lost. A header number that is not
  // finite or out of range fails the run as diverged, because no receiver would accept it.
  VectorHandle send(const std::vector<Rank>& to, const Header& header, VectorContent content,
                    const SendOptions& options, Turn& turn) {
    if (const auto number = number_out_of_range(header); !number.empty())
      return diverge(number, turn);
    const Buffer bytes = to_wire(header);
    const auto* first = reinterpret_cast<const std::uint8_t*>(bytes.data());
    return send_bytes(to, {first, first + bytes.size()}, std::move(content), options, turn);
  }
  // Returns the next received vector, once. Must be drained in on_progress or later: unpolled
  // vectors count against the limits.
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
