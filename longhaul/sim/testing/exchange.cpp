#include "longhaul/sim/testing/exchange.h"

#include <cstring>

namespace longhaul::sim::testing {
namespace {
constexpr TimerId kBeat{1}, kNever{2};
}

Exchange::Exchange(Config config, const Place& place)
    : config_(config), size_(place.layout->size()), phantom_(place.phantom) {}

void Exchange::on_start(Turn& turn) {
  turn.set_timer(*this, kNever, std::chrono::hours(1000));
  turn.compute(LocalStep{}, config_.steps);
}

void Exchange::on_computed(const Computed& done, Turn& turn) {
  turn.record("train_loss", round_, done.loss);
  turn.set_timer(*this, kBeat, turn.now() + std::chrono::milliseconds(3));
  if (!phantom_) mine_.assign(turn.params().begin(), turn.params().end());
  sent_.clear();
  sending_ = true;
  pump(turn);
}

void Exchange::on_timer(TimerId, Turn& turn) { turn.record("beat", round_, seconds(turn.now())); }

void Exchange::pump(Turn& turn) {
  if (!sending_) return;
  // From the next rank on, so that not all send to the same downlink at once.
  for (Rank next = 1; next < turn.place().size(); ++next) {
    const Rank peer = (turn.self() + next) % turn.place().size();
    if (!turn.view().has(peer)) continue;
    std::uint64_t& at = sent_[peer];
    while (at < size_ && turn.room(peer) > 0) {
      const Range range{at, std::min(config_.chunk, size_ - at)};
      Payload body = Payload::phantom(range.length * 4);
      if (!phantom_) {
        const auto bytes = std::as_bytes(std::span(mine_).subspan(range.offset, range.length));
        body = Payload(share(Buffer(bytes.begin(), bytes.end())));
      }
      turn.send(peer, Piece{round_, range}, std::move(body));
      at = range.end();
    }
  }
  end_round(turn);
}

Status Exchange::on_message(Rank from, const Message& message, Turn& turn) {
  return dispatch(MessageList<Piece>{}, message, [&](const Piece& piece) -> Status {
    if (piece.range.end() > size_ || message.body.size() != piece.range.length * 4)
      return longhaul::malformed("a piece of another size");
    Part& part = parts_[piece.round][from];
    part.received += piece.range.length;
    if (!message.body.is_phantom()) {
      part.values.resize(size_);
      std::memcpy(part.values.data() + piece.range.offset, message.body.view().data(),
                  message.body.size());
    }
    end_round(turn);
    return Ok{};
  });
}

void Exchange::end_round(Turn& turn) {
  if (!sending_) return;
  awaited_.clear();
  bool all_sent = true;
  for (const Rank peer : turn.view().live) {
    if (peer == turn.self()) continue;
    all_sent &= sent_[peer] == size_;
    if (parts_[round_][peer].received < size_) awaited_.push_back(peer);
  }
  if (!all_sent || !awaited_.empty()) return;
  sending_ = false;
  if (!phantom_) {
    std::vector<double> sum(size_);
    for (const Rank rank : turn.view().live) {
      const auto& values = rank == turn.self() ? mine_ : parts_[round_][rank].values;
      for (std::size_t i = 0; i < size_; ++i) sum[i] += double(values[i]);
    }
    for (std::size_t i = 0; i < size_; ++i)
      turn.params()[i] = float(sum[i] / double(turn.view().live.size()));
  }
  parts_.erase(round_);
  turn.cancel_timer(*this, kBeat);
  if (turn.self() == 0 && (round_ + 1) % config_.report_every == 0) turn.report(round_, nullptr);
  if (++round_ < config_.rounds) return turn.compute(LocalStep{}, config_.steps);
  turn.finish();
}

std::string Exchange::waiting_for() const {
  if (!sending_ || awaited_.empty()) return "";
  std::string text = "round " + std::to_string(round_) + ": vectors of ranks";
  for (const Rank rank : awaited_) text += " " + std::to_string(rank);
  return text;
}

void Exchange::state(Archive& ar) { ar(round_, sending_, mine_, sent_, parts_, awaited_); }

}  // namespace longhaul::sim::testing
