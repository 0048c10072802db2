#pragma once
// A Coder writes ranges of a node's vectors as bytes and reads those of its peers. The bytes are
// fp32 or from the job's codec; in a phantom job they are only a size. Each end of an exchange owns
// one.
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "longhaul/core/codec.h"
#include "longhaul/core/place.h"

namespace longhaul {

// Encoding of a vector.
enum class Coding : std::uint8_t {
  exact = 0,  // fp32: buffers, repairs
  up = 1,     // the job's codec, with the sender's error feedback
  down = 2    // encoding of means and models
};

class Coder {
 public:
  // A null codec writes fp32.
  Coder(bool phantom, std::unique_ptr<Codec> up, std::unique_ptr<Codec> down)
      : phantom_(phantom), up_(std::move(up)), down_(std::move(down)) {}

  // Returns the bytes for a range of values: exact for codecs of fixed size, else a maximum.
  std::size_t size(Coding coding, Range at) const {
    const Codec* with = codec(coding);
    return with ? with->size_at(at) : at.length * sizeof(float);
  }

  // Encodes at.length finite values, or none in a phantom job.
  Payload write(const CodecKey& key, Coding coding, Range at, std::span<const float> values) {
    const std::size_t most = size(coding, at);
    if (phantom_) return Payload::phantom(most);
    LH_CHECK(values.size() == at.length);
    if (Codec* with = codec(coding)) return Payload(share(with->encode(key, at, values)));
    Buffer bytes(most);
    std::memcpy(bytes.data(), values.data(), most);
    return Payload(share(std::move(bytes)));
  }

  // Decodes bytes from a peer. Returns at.length finite values (none in a phantom job), or
  // Malformed.
  Result<std::vector<float>> read(const CodecKey& key, Coding coding, Range at,
                                  const Payload& bytes) const {
    const Codec* with = codec(coding);
    const std::size_t most = size(coding, at);
    if (bytes.size() > most || (!with && bytes.size() != most))
      return malformed("piece of " + std::to_string(bytes.size()) + " bytes where " +
                       std::to_string(most) + " are expected");
    if (phantom_) return std::vector<float>{};
    std::vector<float> values(at.length);
    if (with) {
      LH_TRY(with->decode(key, at, bytes.view(), values));
    } else {
      std::memcpy(values.data(), bytes.view().data(), most);
      if (!all_finite(values)) return malformed("piece with a value that is not finite");
    }
    return values;
  }

  // Sets the agreed fate of a vector written here.
  void settle(const CodecKey& key, Coding coding, Codec::Fate fate) {
    if (Codec* with = codec(coding)) with->settle(key, fate);
  }

  bool mean_of_senders() const { return up_ && up_->mean_of_senders(); }
  // Called when no vector of the group follows.
  void forget(std::uint32_t group) {
    for (Codec* with : {up_.get(), down_.get()})
      if (with) with->forget(group);
  }

  void state(Archive& ar) {
    for (Codec* with : {up_.get(), down_.get()})
      if (with) with->state(ar);
  }

 private:
  Codec* codec(Coding coding) const {
    return coding == Coding::up ? up_.get() : coding == Coding::down ? down_.get() : nullptr;
  }

  bool phantom_;
  std::unique_ptr<Codec> up_, down_;
};

}  // namespace longhaul
