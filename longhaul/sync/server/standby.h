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
#include <map>
#include <optional>
#include <vector>

#include "longhaul/core/registry.h"
#include "longhaul/core/vector_channel.h"

namespace longhaul::sync::server {

// Of the live workers but the server those that have been here longest, of several the lowest
// first, at most `count`: they get the copies, and serve after it in that order. One that has
// returned does so only after those that stayed, who may hold a copy already.
std::vector<Rank> followers_of(Rank server, const Place&, const View&, std::size_t count);

struct StandbyHeader {
  static constexpr std::uint16_t kKind = 0;  // not a message by itself: it is in one
  static constexpr std::string_view kName = "header";
  std::uint64_t version = 0;  // of the model
  bool last = false;          // the rest of the state: with it the copy is whole
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    LONGHAUL_FIELD(version, .max = 0x1p50);
    LONGHAUL_FIELD(last);
  }
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
  Standby(const Place&, std::unique_ptr<Transfer>, std::uint32_t every, std::uint32_t followers,
          Rank server);

  // At the server, after each turn: sends a copy to the followers to which one is due, if they
  // `may_get` it. `rest` is asked for only then.
  template <class MayGet, class MakeRest>
  void offer(std::uint64_t version, const Snapshot& model, MayGet&& may_get, MakeRest&& rest,
             Turn& turn) {
    std::vector<Rank> to = due(version, turn);
    std::erase_if(to, [&](Rank rank) { return !may_get(rank); });
    if (!to.empty()) send(to, version, model, rest(), turn);
  }
  // Whose copies are heeded from now on.
  void follow(Rank server);
  // The newest whole copy, once.
  std::optional<Copy> take() { return std::exchange(whole_, std::nullopt); }

  void on_progress(Turn&) override;
  void state(Archive&) override;

 private:
  Result<bool> admit(Rank from, const StandbyHeader&, const ContentShape&) const;
  std::vector<Rank> due(std::uint64_t version, const Turn&) const;
  void send(const std::vector<Rank>& to, std::uint64_t version, Snapshot model, Bytes rest, Turn&);

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
