// What an Exchange gives its attempts, and does for them; what it writes when a link has room.
#include "longhaul/overlay/exchange.h"

namespace longhaul::overlay {

Payload ExchangeBuffers::own_bytes(std::size_t piece) const {
  const Range at = grid_->range(piece);
  return coder_->write(own_key_, exact_ ? Coding::exact : Coding::up, at,
                       own_.empty() ? own_ : own_.subspan(at.offset, at.length));
}

std::vector<float> ExchangeBuffers::own_values(std::size_t piece) const {
  return read(piece, exact_ ? Coding::exact : Coding::up, own_bytes(piece));
}

Payload ExchangeBuffers::write(std::size_t piece, Coding coding,
                               std::span<const float> values) const {
  return coder_->write(own_key_, coding, grid_->range(piece), values);
}

std::vector<float> ExchangeBuffers::read(std::size_t piece, Coding coding,
                                         const Payload& bytes) const {
  auto values = coder_->read(own_key_, coding, grid_->range(piece), bytes);
  LH_CHECK(values);  // our own bytes
  return *std::move(values);
}

AttemptContext Exchange::context(Round round, Time now, Payload arrived) {
  const bool has_own = begun_ && weight_ > 0 && round == next_;
  const ExchangeBuffers buffers(
      common_.coder, grid_, own_key(round), exact_,
      has_own ? std::span<const float>(values_) : std::span<const float>{});
  return AttemptContext(buffers, now, std::move(arrived));
}

void Exchange::carry_out(Round round, AttemptContext& context, GroupTurn& turn) {
  for (const auto& [piece, values] : context.means) put_piece(round, piece, values);
  for (auto& [counted, weight] : context.contributors_known)
    put_contributors(round, std::move(counted), weight, team_.epoch);
  // In the class of the pieces and before them: it comes first.
  for (const auto& [to, share] : context.shares) turn.own.send(to, share, {}, kBulk);
  for (AttemptActions::Told& told : context.notes) {
    told.note.epoch = team_.epoch;
    told.note.vector = {told.about, team_.self};
    turn.own.send(told.to, told.note, {}, told.service);
  }
  if (context.roster) {
    Message message;  // one buffer for all
    message.kind = Contributors::kKind;
    message.head = Payload(share(to_wire(*context.roster)));
    for (const Rank to : context.contributors_to) turn.own.send(to, message, kControl);
  }
  for (const auto& [key, to] : context.cancelled) common_.transfer->cancel(key, to);
  for (Outgoing& outgoing : context.posts)
    common_.transfer->begin(std::move(outgoing), turn.transfer);
  if (!context.given_up.empty()) turn.own.fail(context.given_up);
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
  AttemptContext context = this->context(key.vector.round);
  if (Phase(key.phase) == Phase::part && key.vector.round == next_) sent_.at(*piece) = true;
  return it->second->encoded(key, *piece, context);
}

std::span<const float> Exchange::part_values(const TransferKey& key, Range range) {
  const auto piece = grid_.find(range);
  LH_CHECK(piece && key.coding == Coding::up && key.vector == own_key(next_) && begun_);
  sent_.at(*piece) = true;
  const std::span<const float> own = values_;
  return own.empty() ? own : own.subspan(range.offset, range.length);
}

Payload Exchange::encode_part(const TransferKey& key, Range range, std::span<const float> values) {
  return common_.coder.write(key.vector, key.coding, range, values);
}

}  // namespace longhaul::overlay
