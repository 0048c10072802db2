#pragma once
// What an attempt is given with every input, and what it answers with. Plain data and one concrete
// object: nothing calls back.
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "longhaul/core/coder.h"
#include "longhaul/core/transfer.h"
#include "longhaul/overlay/messages.h"
#include "longhaul/overlay/partition.h"

namespace longhaul::overlay {

// The numbers of one round at one node: its own contribution, and the codecs. Made for one input;
// what it refers to outlives it.
class ExchangeBuffers {
 public:
  // `own_key`: of what this node writes. `own`: its contribution; empty: none, or a phantom's.
  ExchangeBuffers(Coder& coder, const Partition& grid, const CodecKey& own_key, bool exact,
                  std::span<const float> own)
      : coder_(&coder), grid_(&grid), own_key_(own_key), exact_(exact), own_(own) {}

  // This node's contribution to a piece, as written for the others, and as they read it.
  Payload own_bytes(std::size_t piece) const;
  std::vector<float> own_values(std::size_t piece) const;
  // Numbers of this node's making as bytes, and as read from them. `coding` is exact or down.
  Payload write(std::size_t piece, Coding coding, std::span<const float> values) const;
  std::vector<float> read(std::size_t piece, Coding coding, const Payload& bytes) const;

 private:
  Coder* coder_;
  const Partition* grid_;
  CodecKey own_key_;
  bool exact_;
  std::span<const float> own_;
};

// What an attempt wants done. Its Exchange does it when the attempt has returned, in this order.
struct AttemptActions {
  struct Told {
    VectorId about;  // whose attempt at `to` it is for
    Rank to = 0;
    AttemptMessage note;  // its epoch and vector are set when it is sent
    Service service;
  };
  std::map<std::size_t, std::vector<float>> means;  // these pieces of the mean are final
  // Everybody's share is known: these are counted, with this sum of weights.
  std::vector<std::pair<std::vector<Rank>, double>> contributors_known;
  std::vector<std::pair<Rank, Announcement>> shares;
  std::vector<Told> notes;  // to oneself: in the next turn
  std::optional<Contributors> roster;
  std::vector<Rank> contributors_to;
  // What of this was posted and has not gone out is dropped, before anything new is posted.
  std::vector<std::pair<TransferKey, Rank>> cancelled;
  std::vector<Outgoing> posts;
  std::string given_up;  // why this run cannot go on; "": it can
};

struct AttemptContext : AttemptActions {
  explicit AttemptContext(const ExchangeBuffers& numbers, Time time = Time{0}, Payload bytes = {})
      : buffers(numbers), now(time), arrived(std::move(bytes)) {}
  ExchangeBuffers buffers;
  Time now;  // of the run; not within Attempt::encoded(), which nothing may depend on the time of
  Payload arrived;  // the bytes that the piece now taken came as; for passing them on unchanged
};

}  // namespace longhaul::overlay
