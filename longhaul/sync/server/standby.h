#pragma once
// A Standby keeps the server's state at the node that follows it, so that the server's death does
// not end the run: what the server has committed since the last copy is lost, and nothing else.
//
// The server sends a copy, at the lowest priority, every so many commits, once the one before it is
// wholly on its way: the model, then everything else that it keeps. The node that follows holds the
// newest that has come whole. Who follows is a function of the view (follower_of), equal at all.
#include <optional>

#include "longhaul/core/registry.h"
#include "longhaul/core/vector_channel.h"

namespace longhaul::sync::server {

// Of the live workers but the server the one that has been here longest, of several the lowest: it
// gets the copies, and serves after it. One that has returned does so only after those that stayed,
// who may hold a copy already.
std::optional<Rank> follower_of(Rank server, const Place&, const View&);

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

  // `every` commits, > 0. `server`: who serves at the beginning.
  Standby(const Place&, std::unique_ptr<Transfer>, std::uint32_t every, Rank server);

  // At the server, after each turn: sends a copy to its follower if one is due. `rest` is asked for
  // only then.
  template <class MakeRest>
  void offer(std::uint64_t version, const Snapshot& model, MakeRest&& rest, Turn& turn) {
    if (const auto to = due(version, turn)) send(*to, version, model, rest(), turn);
  }
  // Whose copies are heeded from now on; what was kept is forgotten.
  void follow(Rank server);
  // The newest whole copy, once.
  std::optional<Copy> take() { return std::exchange(whole_, std::nullopt); }

  void on_progress(Turn&) override;
  void state(Archive&) override;

 private:
  Result<bool> admit(Rank from, const StandbyHeader&, const ContentShape&) const;
  std::optional<Rank> due(std::uint64_t version, const Turn&) const;
  void send(Rank to, std::uint64_t version, Snapshot model, Bytes rest, Turn&);

  const Place place_;
  const std::uint32_t every_;
  Rank server_;
  VectorChannel<StandbyHeader> channel_;
  // At the server: what the follower was sent last.
  std::optional<Rank> sent_to_;
  std::uint64_t sent_version_ = 0;
  // At the follower.
  std::optional<Copy> coming_, whole_;
};

}  // namespace longhaul::sync::server
