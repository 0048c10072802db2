#pragma once
// A Standby keeps the server's state at the nodes that would follow it, so that the server's death
// does not end the run: what the server has committed since the last copy is lost, and nothing
// else.
//
// The server sends a copy, at the lowest priority, every so many commits, to each follower to which
// the one before it is wholly on its way: the model, then everything else that it keeps. A follower
// holds the newest that has come whole, also of a server before this one: who serves may be lost
// before its own first copy is there. Who follows is a function of the view (followers_of), equal
// at all.
#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "longhaul/core/registry.h"
#include "longhaul/core/vector_channel.h"

namespace longhaul::sync::server {

// Of the live workers but the server those that have been here longest, of several the lowest
// first, at most `count`: they get the copies, and serve after it in that order. One that has
// returned does so only after those that stayed, who may hold a copy already.
inline std::vector<Rank> followers_of(Rank server, const Place& place, const View& view,
                                      std::size_t count) {
  std::vector<Rank> others = live_with(Role::worker, place, view);
  std::erase(others, server);
  std::ranges::sort(others, {}, [&](Rank rank) { return std::pair(view.since(rank), rank); });
  others.resize(std::min(count, others.size()));
  return others;
}

struct StandbyHeader {
  LONGHAUL_MESSAGE(0, "header");  // not a message by itself: it is in one
  std::uint64_t version = 0;      // of the model
  bool last = false;              // the rest of the state: with it the copy is whole
  LONGHAUL_FIELDS((version, .max = 0x1p50), last)
};

class Standby final : public Machine {
 public:
  struct Copy {
    std::uint64_t version = 0;
    Snapshot model;  // a phantom's is empty
    Bytes rest;
    void state(Archive& ar) {
      ar(version, rest);
      archive_snapshot(ar, model);
    }
  };

  // `every` commits, > 0, to so many `followers`, > 0. `server`: who serves at the beginning.
  Standby(const Place& place, std::unique_ptr<Transfer> transfer, std::uint32_t every,
          std::uint32_t followers, Rank server)
      : place_(place),
        every_(every),
        followers_(followers),
        server_(server),
        channel_(
            place,
            {.stream = "standby", .limits = room_for_copies(place), .service = {.priority = 0}},
            std::move(transfer), nullptr, nullptr, std::bind_front(&Standby::admit, this)) {
    LH_CHECK(every > 0 && followers > 0);
    own(channel_);
  }

  // At the server, after each turn: sends a copy to the followers to which one is due, if they
  // `may_get` it. `rest` is asked for only then.
  void offer(std::uint64_t version, const Snapshot& model, auto&& may_get, auto&& rest,
             Turn& turn) {
    std::vector<Rank> to = due(version, turn);
    std::erase_if(to, [&](Rank rank) { return !may_get(rank); });
    if (!to.empty()) send(to, version, model, rest(), turn);
  }
  // Whose copies are heeded from now on.
  void follow(Rank server) {
    server_ = server;
    coming_.reset();
    sent_.clear();
  }

  // The newest whole copy, once.
  std::optional<Copy> take() { return std::exchange(whole_, std::nullopt); }

  void on_progress(Turn& turn) override {
    channel_.drop_lost();
    std::erase_if(sent_, [&](const auto& one) { return !turn.view().has(one.first); });
    while (auto one = channel_.poll(within(channel_, turn))) {
      if (one->from != server_) continue;  // it serves no more
      if (!one->header.last) {
        coming_ = Copy{one->header.version, one->content.values(), {}};
      } else if (coming_ && coming_->version == one->header.version) {
        coming_->rest = one->content.bytes();
        whole_ = std::exchange(coming_, std::nullopt);
      }
    }
  }

  void state(Archive& ar) override {
    ar.expect("standby");
    ar(server_, sent_, coming_, whole_);
  }

 private:
  // Copies under way: one that is read at once, and what some strategies keep for each worker.
  static ChannelLimits room_for_copies(const Place& place) {
    return ChannelLimits::models(8 + 4 * place.size(), *place.layout);
  }

  Result<bool> admit(Rank from, const StandbyHeader& header, const ContentShape& shape) const {
    if (from != server_) return malformed("a copy of the state of one that does not serve");
    const bool is_model =
        shape.kind == ContentKind::values && shape.range == Range{0, place_.layout->size()};
    if (header.last ? shape.kind != ContentKind::bytes : !is_model)
      return malformed("a part of a state that is none");
    return true;
  }

  std::vector<Rank> due(std::uint64_t version, const Turn& turn) const {
    std::vector<Rank> to = followers_of(place_.self, place_, turn.view(), followers_);
    std::erase_if(to, [&](Rank rank) {
      const auto sent = sent_.find(rank);
      return sent != sent_.end() && (version < sent->second + every_ || channel_.queued(rank) > 0);
    });
    return to;
  }

  void send(const std::vector<Rank>& to, std::uint64_t version, Snapshot model, Bytes rest,
            Turn& turn) {
    Turn below = within(channel_, turn);
    const SendOptions exactly{.coding = Coding::exact};
    channel_.send(to, {version, false},
                  VectorContent::values(std::move(model), {0, place_.layout->size()}), exactly,
                  below);
    channel_.send(to, {version, true}, VectorContent::bytes(std::move(rest)), exactly, below);
    for (const Rank rank : to) sent_[rank] = version;
  }

  const Place place_;
  const std::uint32_t every_, followers_;
  Rank server_;
  VectorChannel<StandbyHeader> channel_;
  // At the server: the version that each follower was sent last.
  std::map<Rank, std::uint64_t> sent_;
  // At a follower.
  std::optional<Copy> coming_, whole_;
};

}  // namespace longhaul::sync::server
