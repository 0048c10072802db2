#pragma once
// A Coder writes the stretches of a node's vectors as bytes and reads those of its peers: as fp32,
// with the job's codec, or as the size alone where a phantom job has no numbers. One at each end of
// an exchange, owned by who exchanges.
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "longhaul/core/codec.h"
#include "longhaul/core/place.h"

namespace longhaul {

// How the bytes of a vector are written.
enum class Coding : std::uint8_t {
  exact = 0,  // fp32: buffers, repairs
  up = 1,     // the job's codec, with the sender's error feedback
  down = 2    // what a mean or a model is written with
};

class Coder {
 public:
  // A codec that is null writes fp32.
  Coder(bool phantom, std::unique_ptr<Codec> up, std::unique_ptr<Codec> down)
      : phantom_(phantom), up_(std::move(up)), down_(std::move(down)) {}

  // Bytes for the values of a stretch: exactly for codecs of fixed size, else at most.
  std::size_t size(Coding coding, Range at) const {
    const Codec* with = codec(coding);
    return with ? with->size_at(at) : at.length * sizeof(float);
  }

  // `values`: at.length finite ones, in a phantom job none.
  Payload write(const CodecKey& key, Coding coding, Range at, std::span<const float> values) {
    const std::size_t most = size(coding, at);
    if (phantom_) return Payload::phantom(most);
    LH_CHECK(values.size() == at.length);
    if (Codec* with = codec(coding)) return Payload(share(with->encode(key, at, values)));
    Buffer bytes(most);
    std::memcpy(bytes.data(), values.data(), most);
    return Payload(share(std::move(bytes)));
  }

  // Bytes come from a peer: at.length finite values, in a phantom job none, or malformed.
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

  // The fate of a vector written here is agreed.
  void settle(const CodecKey& key, Coding coding, Codec::Fate fate) {
    if (Codec* with = codec(coding)) with->settle(key, fate);
  }

  bool mean_of_senders() const { return up_ && up_->mean_of_senders(); }
  // no vector of it follows
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
