// VectorChannelBase, of both sides: views, state, what it waits for.
#include "longhaul/core/vector_channel.h"

namespace longhaul {

ChannelLimits ChannelLimits::models(std::uint32_t count, const Layout& layout) {
  return {.vectors = 8 * count,
          .bytes = count * (sizeof(float) * layout.size() + channel::kMostHeaderBytes)};
}

VectorChannelBase::VectorChannelBase(const Place& place, ChannelConfig config,
                                     std::unique_ptr<Transfer> transfer, std::unique_ptr<Codec> up,
                                     std::unique_ptr<Codec> down)
    : place_(place),
      config_(std::move(config)),
      transfer_(std::move(transfer)),
      coder_(place.phantom, std::move(up), std::move(down)) {
  LH_CHECK(transfer_ && place_.layout && place_.layout->size() > 0);
  LH_CHECK(config_.limits.vectors > 0 && config_.limits.bytes > 0);
  LH_CHECK(place_.longest_piece() >= 2);  // an fp64 value fits a chunk
  transfer_->attach(*this);
  own(*transfer_);
}

// The epoch in which this node and the peer began to speak with each other. What an earlier
// incarnation of either has sent is of an earlier session.
Epoch VectorChannelBase::session(Rank peer) const {
  return std::max(view_.since(place_.self), view_.since(peer));
}

void VectorChannelBase::work(Turn& turn) {
  for (bool more = true; more;) {
    more = false;
    while (auto arrival = transfer_->arrived()) store(*std::move(arrival));
    while (const auto gone = transfer_->sent()) {
      on_sent(*gone, turn);
      more = true;
    }
    for (const Rank to : std::exchange(to_advance_, {}))
      while (advance(to, turn)) more = true;
    for (const Rank to : std::exchange(to_report_, {}))
      if (const auto found = in_.find(to); found != in_.end())
        report_reads(to, found->second, turn);
  }
}

void VectorChannelBase::on_view(const View& before, Turn& turn) {
  // Of the session that ends: keys are made with the view that it was in.
  for (Rank rank = 0; rank < place_.size(); ++rank) {
    const bool goes_on = turn.view().has(rank) && turn.view().since(rank) == before.since(rank);
    if (goes_on) continue;
    lose_outgoing(rank);
    lose_incoming(rank);
  }
  view_ = turn.view();
  work(turn);
}

std::string VectorChannelBase::waiting_for() const {
  std::string text;
  const auto add = [&](Rank rank, const std::string& what) {
    text += (text.empty() ? "stream " + config_.stream + ": " : "; ") + "rank " +
            std::to_string(rank) + " " + what;
  };
  for (const auto& [rank, outbox] : out_) {
    const std::string vector = "vector " + std::to_string(outbox.next);
    if (outbox.under_way) {
      add(rank, "to take vector " + std::to_string(outbox.under_way->seq) + " of its link");
    } else if (!outbox.queue.empty()) {
      const auto codec = codec_open_.find({vectors_.at(outbox.queue.front()).begin.coding,
                                           vectors_.at(outbox.queue.front()).begin.group});
      add(rank,
          codec == codec_open_.end()
              ? "to read " + std::to_string(outbox.unread.size()) + " vectors before " + vector
              : "to get " + vector + " after another vector of its codec");
    }
  }
  for (const auto& [rank, inbox] : in_)
    if (inbox.open)
      add(rank, "to send the rest of its vector " + std::to_string(inbox.next) + ", of which " +
                    std::to_string(inbox.open->pieces.size()) + " pieces are here");
  return text;
}

void VectorChannelBase::state(Archive& ar) {
  ar.expect("channel " + config_.stream);
  ar(view_, next_handle_, vectors_, out_, in_, codec_open_, arrived_, lost_, sent_);
  coder_.state(ar);
  if (!ar.loading() || ar.failed()) return;
  const auto check = [&](bool holds) {
    if (!holds) ar.fail("holds a channel that does not fit together");
  };
  for (const auto& [rank, outbox] : out_) {
    check(!outbox.under_way || !outbox.queue.empty());
    for (const VectorHandle handle : outbox.queue)
      check(vectors_.contains(handle) && vectors_.at(handle).left.contains(rank));
  }
  for (auto& [handle, vector] : vectors_) {
    check(vector.begin.shape == vector.content.shape());
    check(bool(vector.begin.shape.check(*place_.layout)));
    for (const Rank rank : vector.left) check(out_.contains(rank));
  }
  for (const auto& [rank, inbox] : in_) {
    if (!inbox.open) continue;
    const ContentShape& shape = inbox.open->begin.shape;
    check(bool(shape.check(*place_.layout)) &&
          inbox.open->begin.footprint() <= config_.limits.bytes);
    const bool is_values = shape.kind == ContentKind::values;
    check(inbox.open->values.empty() ||
          inbox.open->values.size() == (is_values ? shape.size : shape.words()));
  }
}

}  // namespace longhaul
