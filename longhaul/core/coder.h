#pragma once
// A Coder writes the stretches of a node's vectors as bytes and reads those of its peers: as fp32,
// with the job's codec, or as the size alone where a phantom job has no numbers. One at each end of
// an exchange, owned by who exchanges.
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
  std::size_t size(Coding, Range at) const;
  // `values`: at.length finite ones, in a phantom job none.
  Payload write(const CodecKey&, Coding, Range at, std::span<const float> values);
  // Bytes come from a peer: at.length finite values, in a phantom job none, or malformed.
  Result<std::vector<float>> read(const CodecKey&, Coding, Range at, const Payload&) const;
  // The fate of a vector written here is agreed.
  void settle(const CodecKey&, Coding, Codec::Fate);
  bool mean_of_senders() const { return up_ && up_->mean_of_senders(); }
  void forget(std::uint32_t group);  // no vector of it follows
  void state(Archive&);

 private:
  Codec* codec(Coding) const;

  bool phantom_;
  std::unique_ptr<Codec> up_, down_;
};

}  // namespace longhaul
