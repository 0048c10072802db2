// Keeps the votes of a node's membership on disk, before it sends a message that depends on them.
#include <algorithm>

#include "longhaul/net/event_loop.h"

namespace longhaul::net {

namespace {
constexpr std::size_t kMostHeld = 64;  // messages of a kind to a peer, while a disk hangs
}

void EventLoop::remember() {
  const auto votes = std::as_bytes(std::span(votes_->votes));
  const Status read = node_->remember(now(), share({votes.begin(), votes.end()}));
  if (!read) on_note("what this site has voted before cannot be read: " + read.error().what);
}

// Messages wait until the vote is on disk. After a failed write `keep_` leaves no file, and the
// next process has no vote.
void EventLoop::keep(Rank, const Buffer& votes) {
  if (!keep_) return;
  if (!keeper_) keeper_ = std::make_unique<TaskThread>();
  const auto* const bytes = reinterpret_cast<const std::uint8_t*>(votes.data());
  to_keep_ = KeptVotes{place_.self, peers_.meeting().life(), {bytes, bytes + votes.size()}};
  if (!std::exchange(keeping_, true)) write_votes();
}

// Writes the newest votes only: at most one write waits for a disk that hangs.
void EventLoop::write_votes() {
  keeper_->submit([this, votes = *std::exchange(to_keep_, std::nullopt)] {
    const Status written = keep_(votes);
    loop_.post([this, written] { kept(written); });
  });
}

void EventLoop::kept(const Status& written) {
  if (!written && !std::exchange(cannot_keep_, true))
    on_note(written.error().what +
            ": if this site is started again, it has no vote until it is let in");
  if (to_keep_) return write_votes();
  keeping_ = false;
  for (const Send& send : std::exchange(held_, {})) peers_.send(send);
}

// Drops the oldest of a kind to a peer: membership repeats its proposals, and answers questions
// about the last 64 epochs only.
void EventLoop::hold(Send send) {
  const auto is_alike = [&](const Send& one) {
    return one.to == send.to && one.message.kind == send.message.kind;
  };
  if (std::size_t(std::ranges::count_if(held_, is_alike)) >= kMostHeld)
    held_.erase(std::ranges::find_if(held_, is_alike));
  held_.push_back(std::move(send));
}

}  // namespace longhaul::net
