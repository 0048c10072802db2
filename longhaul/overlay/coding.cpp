// Numbers to bytes and back: what a Scene and the transfer ask of an Exchange.
#include "longhaul/overlay/scene.h"

namespace longhaul::overlay {

Payload Exchange::Scene::own_bytes(std::size_t piece) {
  const Range at = exchange_.grid_.range(piece);
  LH_CHECK(exchange_.begun_ && exchange_.weight_ > 0);
  const auto values = exchange_.common_.place.phantom
                          ? std::span<const float>{}
                          : std::span<const float>(exchange_.values_).subspan(at.offset, at.length);
  return exchange_.common_.coder.write(exchange_.own_key(round_), own_coding(), at, values);
}

std::vector<float> Exchange::Scene::own_values(std::size_t piece) {
  return read(piece, own_coding(), own_bytes(piece));
}

Payload Exchange::Scene::write(std::size_t piece, Coding coding, std::span<const float> values) {
  return exchange_.common_.coder.write(exchange_.own_key(round_), coding,
                                       exchange_.grid_.range(piece), values);
}

std::vector<float> Exchange::Scene::read(std::size_t piece, Coding coding, const Payload& bytes) {
  auto values = exchange_.common_.coder.read(exchange_.own_key(round_), coding,
                                             exchange_.grid_.range(piece), bytes);
  LH_CHECK(values);  // our own bytes
  return *std::move(values);
}

void Exchange::Scene::carry_out(GroupTurn& turn) {
  // In the class of the pieces and before them: it comes first.
  for (const auto& [to, share] : shares_) turn.own.send(to, share, {}, kBulk);
  for (const Told& told : notes_) turn.own.send(told.to, told.note, {}, told.service);
  for (const Rank to : rosters_) {
    Message message;
    message.kind = Roster::kKind;
    message.head = *roster_;
    turn.own.send(to, std::move(message), kControl);
  }
  for (const auto& [key, to] : cancelled_) exchange_.common_.transfer->cancel(key, to);
  for (Outgoing& outgoing : posts_)
    exchange_.common_.transfer->begin(std::move(outgoing), turn.transfer);
  if (given_up_) turn.own.fail(*given_up_);
}

Payload Exchange::encoded(const TransferKey& key, Range range) {
  const auto piece = grid_.find(range);
  LH_CHECK(piece);
  if (Phase(key.phase) == Phase::repair) {
    LH_CHECK(mean_.whole() && mean_.round == key.vector.round);
    const std::span<const float> mean = mean_.values;
    return common_.coder.write(key.vector, Coding::exact, range,
                               mean.empty() ? mean : mean.subspan(range.offset, range.length));
  }
  const auto it = attempts_.find(key.vector.round);
  LH_CHECK(it != attempts_.end() && key.epoch == team_.epoch);
  Scene scene(*this, key.vector.round, Time{0});
  if (Phase(key.phase) == Phase::part && key.vector.round == next_) sent_.at(*piece) = true;
  return it->second->encoded(key, *piece, scene);
}

}  // namespace longhaul::overlay
