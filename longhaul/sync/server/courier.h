#pragma once
// Courier carries letters between the workers and the server of a job: a label, and with some of
// them a whole vector of the layout. Updates go up in the job's codec, with the worker's error
// feedback; models come down in another codec, or in fp32; buffers go along as exact fp32 values
// (range 1), and so do the model that a run starts from and the one that it ends with. An update
// goes behind others on full links by its label's urgency; the server may change it on the way.
//
// Letters of one node to another arrive in the order in which they were sent, each once. What a
// peer can make a node keep is one vector that is being put together: a label is taken only if it
// is the next one, pieces only of its vector, each once. A letter to oneself costs no byte and is
// not coded. Over the Transfer it is the port for (core/transfer.h).
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include "longhaul/core/transfer.h"

namespace longhaul::sync::server {

struct Label {
  static constexpr std::uint16_t kKind = 1;
  static constexpr std::string_view kName = "label";
  enum class Kind : std::uint8_t {
    start,  // up: the model that training starts from
    pull,   // up, without a vector: asks for the model
    push,   // up: what the worker computed; with `asks`, it asks for the model, too
    model,  // down: the model; without a vector, it is the one that training starts from
    last,   // down: the model that the run ends with
    urge    // down, without a vector: `urgency` has changed
  };
  Kind kind = Kind::pull;
  bool carries = false;       // a vector follows
  bool asks = false;          // push
  std::uint64_t seq = 0;      // of letters between these two, one way; written by the Courier
  std::uint64_t version = 0;  // down: of the model; up: of the one that the worker had
  // Down: updates that each live worker has given, at least; urge: letters whose labels have come
  // from this worker, written by the Courier.
  std::uint64_t clock = 0;
  std::uint64_t steps = 0;    // up: that the update is of
  std::uint64_t samples = 0;  // up
  std::uint64_t shard = 0;    // up: samples that the worker holds; 0: it does not tell
  double loss = 0;            // up: mean over the steps
  // Of strategies that group workers by their data (fedgsync).
  // Down: of the update under way, or the next; up: of this one. 0 goes first.
  std::uint8_t urgency = 0;
  bool refused = false;            // down: the update that this answers was not taken
  std::vector<float> sketch = {};  // up: of the gradient
  static constexpr std::uint32_t kLongestSketch = 4096;

  bool goes_up() const { return kind < Kind::model; }
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit(Field{.name = "kind", .max = 5}, self.kind);
    visit(Field{.name = "carries"}, self.carries);
    visit(Field{.name = "asks"}, self.asks);
    visit(Field{.name = "seq", .max = 0x1p50}, self.seq);
    visit(Field{.name = "version", .max = 0x1p50}, self.version);
    visit(Field{.name = "clock", .max = 0x1p50}, self.clock);
    visit(Field{.name = "steps", .max = 0x1p32}, self.steps);
    visit(Field{.name = "samples", .max = 0x1p40}, self.samples);
    visit(Field{.name = "shard", .max = 0x1p40}, self.shard);
    visit(Field{.name = "loss", .min = -1e300, .max = 1e300}, self.loss);
    visit(Field{.name = "urgency", .max = 2}, self.urgency);
    visit(Field{.name = "refused"}, self.refused);
    visit(Field{.name = "sketch", .max = kLongestSketch}, self.sketch);
  }
};

struct Letter {
  Rank peer = 0;  // whom it goes to; once arrived, whom it is of
  Label label;
  Snapshot values;  // parameters, then buffers; null without a vector, empty in a phantom job
  void state(Archive&);
};

// Who gets the letters. Asked when a label comes, before anything is kept of its vector.
class Reader {
 public:
  virtual ~Reader() = default;
  virtual Status admit(Rank from, const Label&) = 0;
};

class Courier final : public Machine, public VectorPort {
 public:
  using Messages = MessageList<Label>;

  // `up` and `down`: null writes fp32. `reader` lives as long as the Courier.
  Courier(const Place&, Rank server, std::unique_ptr<Transfer> transfer, std::unique_ptr<Codec> up,
          std::unique_ptr<Codec> down, Reader& reader);

  // Values are finite and not changed any more.
  void send(Letter, Turn&);
  std::optional<Letter> arrived();  // to be drained in on_progress
  // What the server will read of an update that this node sends: what the codec leaves of it.
  std::vector<float> as_read(std::span<const float> parameters);

  Status on_message(Rank from, const Message&, Turn&) override;
  void on_progress(Turn&) override;
  void on_view(const View& before, Turn&) override;
  void state(Archive&) override;

  // VectorPort
  Payload encoded(const TransferKey&, Range) override;
  std::span<const float> values(const TransferKey&, Range) override;
  Status admit(Rank from, const TransferKey&, Range) override;
  Result<std::vector<float>> decode(const TransferKey&, Range, const Payload&) override;

 private:
  struct Outbox {  // to one peer
    std::uint64_t next = 0;
    bool under_way = false;  // the first letter's vector is with the transfer
    std::deque<Letter> letters;
    void state(auto& ar) { ar(next, under_way, letters); }
  };
  struct Inbox {  // of one peer
    std::uint64_t next = 0;
    std::optional<Label> open;      // its vector is being put together
    std::uint64_t filled = 0;       // values of it that are there
    std::set<std::uint64_t> there;  // where its pieces begin
    std::vector<float> values;
    void state(auto& ar) { ar(next, open, filled, there, values); }
  };

  bool is_server() const { return place_.self == server_; }
  void pump(Outbox&, Turn&);
  void urge(const Label&, Turn&);
  void begin(const Letter&, Turn&);
  void sent(const Sent&, Turn&);
  void take(Arrival);
  TransferKey key_of(Rank from, Rank to, const Label&, std::uint32_t range) const;
  void begin_range(const Letter&, std::uint32_t range, Range left, Turn&);
  std::vector<Range> cut(Range) const;

  const Place place_;
  const Rank server_;
  std::unique_ptr<Transfer> transfer_;
  Coder coder_;
  Reader& reader_;
  std::map<Rank, Outbox> out_;
  std::map<Rank, Inbox> in_;
  std::deque<Letter> arrived_;
};

}  // namespace longhaul::sync::server
