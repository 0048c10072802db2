// Numbers to bytes and back: the codecs of an AgreedMean.
#include <cstring>

#include "longhaul/overlay/scene.h"

namespace longhaul::overlay {

Codec* AgreedMean::codec_of(Coding coding) const {
  return coding == Coding::up ? up_.get() : coding == Coding::down ? down_.get() : nullptr;
}

std::size_t AgreedMean::size_of(Coding coding, std::uint64_t values) const {
  const Codec* codec = codec_of(coding);
  return codec ? codec->encoded_size(values) : values * sizeof(float);
}

Payload AgreedMean::write(const CodecKey& key, Coding coding, Range at,
                          std::span<const float> values) {
  Codec* codec = codec_of(coding);
  const std::size_t size = size_of(coding, at.length);
  if (place_.phantom) return Payload::phantom(size);
  LH_CHECK(values.size() == at.length);
  if (codec) return Payload(share(codec->encode(key, at, values)));
  Buffer bytes(size);
  std::memcpy(bytes.data(), values.data(), size);
  return Payload(share(std::move(bytes)));
}

Result<std::vector<float>> AgreedMean::read(const CodecKey& key, Coding coding, Range at,
                                            const Payload& bytes) const {
  const Codec* codec = codec_of(coding);
  const std::size_t size = size_of(coding, at.length);
  if (bytes.size() > size || (!codec && bytes.size() != size))
    return malformed("piece of " + std::to_string(bytes.size()) + " bytes where " +
                     std::to_string(size) + " are expected");
  if (place_.phantom) return std::vector<float>{};
  std::vector<float> values(at.length);
  if (codec) {
    LH_TRY(codec->decode(key, at, bytes.view(), values));
  } else {
    std::memcpy(values.data(), bytes.view().data(), size);
    if (!all_finite(values)) return malformed("piece with a value that is not finite");
  }
  return values;
}

Payload AgreedMean::Scene::own_bytes(std::size_t piece) {
  const Range at = sequence_.grid.range(piece);
  LH_CHECK(sequence_.begun && sequence_.weight > 0);
  const auto values = overlay_.place_.phantom
                          ? std::span<const float>{}
                          : std::span<const float>(sequence_.values).subspan(at.offset, at.length);
  return overlay_.write(self_key(), own_coding(), at, values);
}

std::vector<float> AgreedMean::Scene::own_values(std::size_t piece) {
  return read(piece, own_coding(), own_bytes(piece));
}

Payload AgreedMean::Scene::write(std::size_t piece, Coding coding, std::span<const float> values) {
  return overlay_.write(self_key(), coding, sequence_.grid.range(piece), values);
}

std::vector<float> AgreedMean::Scene::read(std::size_t piece, Coding coding, const Payload& bytes) {
  auto values = overlay_.read(self_key(), coding, sequence_.grid.range(piece), bytes);
  LH_CHECK(values);  // our own bytes
  return *std::move(values);
}

void AgreedMean::Scene::carry_out(Turn& own, Turn& transfer) {
  // In the class of the pieces and before them: it comes first.
  for (const auto& [to, share] : shares_) own.send(to, share, {}, kBulk);
  for (const Told& told : notes_) own.send(told.to, told.note, {}, told.service);
  for (const Rank to : rosters_) {
    Message message;
    message.kind = Roster::kKind;
    message.head = *roster_;
    own.send(to, std::move(message), kControl);
  }
  for (const auto& [key, to] : cancelled_) overlay_.transfer_->cancel(key, to);
  for (Outgoing& outgoing : posts_) overlay_.transfer_->begin(std::move(outgoing), transfer);
  if (given_up_) own.fail(*given_up_);
}

Payload AgreedMean::encoded(const TransferKey& key, Range range) {
  Sequence* sequence = find({key.vector.group, key.vector.range});
  LH_CHECK(sequence);
  const auto piece = sequence->grid.find(range);
  LH_CHECK(piece);
  if (Phase(key.phase) == Phase::repair) {
    LH_CHECK(sequence->mean.whole() && sequence->mean.round == key.vector.round);
    return write(key.vector, Coding::exact, range, values(key, range));
  }
  const auto it = sequence->attempts.find(key.vector.round);
  LH_CHECK(it != sequence->attempts.end() && key.epoch == team_.epoch);
  Scene scene(*this, *sequence, key.vector.round, Time{0});
  if (Phase(key.phase) == Phase::part && key.vector.round == sequence->next)
    sequence->sent.at(*piece) = true;
  return it->second->encoded(key, *piece, scene);
}

std::span<const float> AgreedMean::values(const TransferKey& key, Range range) {
  Sequence* sequence = find({key.vector.group, key.vector.range});
  LH_CHECK(sequence);
  if (place_.phantom) return {};
  const std::vector<float>& vector =
      Phase(key.phase) == Phase::part ? sequence->values : sequence->mean.values;
  return std::span<const float>(vector).subspan(range.offset, range.length);
}

}  // namespace longhaul::overlay
