// Numbers to bytes and back: what a Scene and the transfer ask of an AgreedMean.
#include "longhaul/overlay/scene.h"

namespace longhaul::overlay {

Payload AgreedMean::Scene::own_bytes(std::size_t piece) {
  const Range at = sequence_.grid.range(piece);
  LH_CHECK(sequence_.begun && sequence_.weight > 0);
  const auto values = overlay_.place_.phantom
                          ? std::span<const float>{}
                          : std::span<const float>(sequence_.values).subspan(at.offset, at.length);
  return overlay_.coder_.write(self_key(), own_coding(), at, values);
}

std::vector<float> AgreedMean::Scene::own_values(std::size_t piece) {
  return read(piece, own_coding(), own_bytes(piece));
}

Payload AgreedMean::Scene::write(std::size_t piece, Coding coding, std::span<const float> values) {
  return overlay_.coder_.write(self_key(), coding, sequence_.grid.range(piece), values);
}

std::vector<float> AgreedMean::Scene::read(std::size_t piece, Coding coding, const Payload& bytes) {
  auto values = overlay_.coder_.read(self_key(), coding, sequence_.grid.range(piece), bytes);
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
    return coder_.write(
        key.vector, Coding::exact, range,
        place_.phantom
            ? std::span<const float>{}
            : std::span<const float>(sequence->mean.values).subspan(range.offset, range.length));
  }
  const auto it = sequence->attempts.find(key.vector.round);
  LH_CHECK(it != sequence->attempts.end() && key.epoch == team_.epoch);
  Scene scene(*this, *sequence, key.vector.round, Time{0});
  if (Phase(key.phase) == Phase::part && key.vector.round == sequence->next)
    sequence->sent.at(*piece) = true;
  return it->second->encoded(key, *piece, scene);
}

}  // namespace longhaul::overlay
