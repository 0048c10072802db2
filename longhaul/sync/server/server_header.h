#pragma once
// The header of the vectors between the workers and the server of a job. A strategy can add a
// struct of its own with fields(), which is written behind the common fields.
#include "longhaul/core/vector_channel.h"

namespace longhaul::sync::server {

using Extension = std::vector<std::uint8_t>;  // a strategy's own struct; empty: it has none

template <Fielded T>
Extension to_extension(const T& fields) {
  const Buffer bytes = to_wire(fields);
  const auto* first = reinterpret_cast<const std::uint8_t*>(bytes.data());
  return {first, first + bytes.size()};
}
// Malformed: a peer has written something else.
template <Fielded T>
Result<T> from_extension(const Extension& bytes) {
  return from_wire<T>(std::as_bytes(std::span(bytes)));
}

struct ServerHeader {
  LONGHAUL_MESSAGE(0, "header");  // not a message by itself: it is in one
  enum class Kind : std::uint8_t {
    start,   // to the server: the model that training starts from
    pull,    // to the server, without a vector: asks for the model
    push,    // to the server: what the worker computed; with `asks`, it asks for the model, too
    model,   // to a worker: the model; without a vector, it is the one that training starts from
    last,    // to a worker: the model that the run ends with
    notice,  // to a worker, without a vector: what only its strategy knows
    ended,   // to a server that follows a lost one: the model that the run has ended with
    serving  // to a worker that has returned, without a vector: its sender serves; with `asks`, it
             // has no model yet
  };
  Kind kind = Kind::pull;
  bool asks = false;          // push, serving
  std::uint64_t version = 0;  // to a worker: of the model; to the server: of the one it had
  std::uint64_t samples = 0;  // push: that the update is of
  Extension extension = {};

  bool is_for_server() const { return kind < Kind::model || kind == Kind::ended; }
  LONGHAUL_FIELDS((kind, .max = 7), asks, (version, .max = 0x1p50), (samples, .max = 0x1p40),
                  (extension, .max = 32768))
};

using ServerChannel = VectorChannel<ServerHeader>;

// A header in transit, with its vector.
struct Envelope {
  Rank peer = 0;  // receiver; after arrival, sender
  ServerHeader header;
  Snapshot values;  // parameters, then buffers; null without a vector, empty in a phantom job

  bool carries() const { return values != nullptr; }
  void state(Archive& ar) {
    ar(peer, header);
    archive_snapshot(ar, values);
  }
};

}  // namespace longhaul::sync::server
