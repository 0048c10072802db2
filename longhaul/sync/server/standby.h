#pragma once
// Standby keeps copies of the server's state on the nodes that can replace it. If the server is
// lost, the run continues, and only the commits since the last copy are lost.
//
// The server sends a copy at the lowest priority after every `every` commits: the model, then the
// rest of its state. A follower gets the next copy only when the last one has been sent completely.
// It holds the newest complete copy, also of an earlier server, because the current server may be
// lost before its first copy arrives. The followers are a function of the view (followers_of),
// equal on all nodes.
#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "longhaul/core/registry.h"
#include "longhaul/core/vector_channel.h"

namespace longhaul::sync::server {

// Returns the followers, at most `count`: live workers other than the server, those live for the
// longest time first, then by rank. They get the copies, and replace the server in that order. A
// returned worker comes after those that stayed, which may already hold a copy.
inline std::vector<Rank> followers_of(Rank server, const Place& place, const View& view,
                                      std::size_t count) {
  std::vector<Rank> others = live_with(Role::worker, place, view);
  std::erase(others, server);
  std::ranges::sort(others, {}, [&](Rank rank) { return std::pair(view.since(rank), rank); });
  others.resize(std::min(count, others.size()));
  return others;
}

struct StandbyHeader {
  LONGHAUL_MESSAGE(0, "header");  // part of another message
  std::uint64_t version = 0;      // version of the model
  bool last = false;              // the rest of the state, which completes the copy
  LONGHAUL_FIELDS((version, .max = 0x1p50), last)
};

class Standby final : public Machine {
 public:
  struct Copy {
    std::uint64_t version = 0;
    Snapshot model;  // empty in a phantom job
    Bytes rest;
    void state(Archive& ar) {
      ar(version, rest);
      archive_snapshot(ar, model);
    }
  };

  // `every`: commits, > 0. `followers`: maximum number, > 0. `server`: the first server.
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

  // Sends a copy to the followers to which one is due, if they `may_get` it. Called at the server
  // after each turn. `rest` is called only if a copy is sent.
  void offer(std::uint64_t version, const Snapshot& model, auto&& may_get, auto&& rest,
             Turn& turn) {
    std::vector<Rank> to = due(version, turn);
    std::erase_if(to, [&](Rank rank) { return !may_get(rank); });
    if (!to.empty()) send(to, version, model, rest(), turn);
  }
  // Accepts copies only from `server` from now on.
  void follow(Rank server) {
    server_ = server;
    coming_.reset();
    sent_.clear();
  }

  // Returns the newest complete copy, once; null if there is none.
  std::optional<Copy> take() { return std::exchange(whole_, std::nullopt); }

  void on_progress(Turn& turn) override {
    channel_.drop_lost();
    std::erase_if(sent_, [&](const auto& one) { return !turn.view().has(one.first); });
    while (auto one = channel_.poll(within(channel_, turn))) {
      if (one->from != server_) continue;  // no longer the server
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
  // Returns the limits of copies in transit. A copy is read on arrival, and some strategies keep
  // data for each worker.
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
  // At the server: version of the last copy sent to each follower.
  std::map<Rank, std::uint64_t> sent_;
  // At a follower.
  std::optional<Copy> coming_, whole_;
};

}  // namespace longhaul::sync::server
