#include "longhaul/core/coder.h"

#include <cstring>

namespace longhaul {

Codec* Coder::codec(Coding coding) const {
  return coding == Coding::up ? up_.get() : coding == Coding::down ? down_.get() : nullptr;
}

std::size_t Coder::size(Coding coding, Range at) const {
  const Codec* with = codec(coding);
  return with ? with->size_at(at) : at.length * sizeof(float);
}

Payload Coder::write(const CodecKey& key, Coding coding, Range at, std::span<const float> values) {
  const std::size_t most = size(coding, at);
  if (phantom_) return Payload::phantom(most);
  LH_CHECK(values.size() == at.length);
  if (Codec* with = codec(coding)) return Payload(share(with->encode(key, at, values)));
  Buffer bytes(most);
  std::memcpy(bytes.data(), values.data(), most);
  return Payload(share(std::move(bytes)));
}

Result<std::vector<float>> Coder::read(const CodecKey& key, Coding coding, Range at,
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

void Coder::settle(const CodecKey& key, Coding coding, Codec::Fate fate) {
  if (Codec* with = codec(coding)) with->settle(key, fate);
}

void Coder::forget(std::uint32_t group) {
  for (Codec* with : {up_.get(), down_.get()})
    if (with) with->forget(group);
}

void Coder::state(Archive& ar) {
  for (Codec* with : {up_.get(), down_.get()})
    if (with) with->state(ar);
}

}  // namespace longhaul
