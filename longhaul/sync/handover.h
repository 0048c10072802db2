#pragma once
// Handover brings what the members know to one that has come back: the senior worker's state at the
// start of a round, cut into chunks. The receiver takes it from the senior alone, in order, up to a
// bound; a giver that is lost takes its half-given state with it.
#include <map>
#include <optional>
#include <set>

#include "longhaul/core/machine.h"

namespace longhaul::sync {

class Handover final : public Machine {
 public:
  struct Part {  // with a body: the bytes from `offset` on
    static constexpr std::uint16_t kKind = 1;
    static constexpr std::string_view kName = "part";
    Round round = 0;
    bool last = false;
    std::uint64_t offset = 0, total = 0;
    template <class Self, class Visit>
    static void fields(Self& self, Visit&& visit) {
      LONGHAUL_FIELD(round);
      LONGHAUL_FIELD(last, .doc = "no round follows");
      LONGHAUL_FIELD(offset);
      LONGHAUL_FIELD(total);
    }
  };
  struct Have {  // to all workers: the sender needs nothing any more
    static constexpr std::uint16_t kKind = 2;
    static constexpr std::string_view kName = "have";
    Epoch epoch = 0;  // that it has come back in
    LONGHAUL_FIELDS(epoch)
  };
  using Messages = MessageList<Part, Have>;

  struct Given {
    Round round = 0;    // that is next
    bool last = false;  // the run is at its end
    Bytes bytes;
    void state(Archive& ar) { ar(round, last, bytes); }
  };

  // Instead of what `to` was being given, if anything. All who are given the same share its bytes.
  void give(Rank to, Given, Turn&);
  // What has come whole; nullptr: nothing. drop() is done with it.
  const Given* whole() const { return whole_ ? &*whole_ : nullptr; }
  void drop() { whole_.reset(); }
  void tell_have(Turn&);
  bool has(Rank rank) const { return have_.contains(rank); }

  Status on_message(Rank from, const Message&, Turn&) override;
  void on_writable(Rank peer, Turn& turn) override { go_on(peer, turn); }
  void on_view(const View& before, Turn&) override;
  void state(Archive&) override;

 private:
  struct Going {
    Given given;
    std::uint64_t sent = 0;
    void state(Archive& ar) { ar(given, sent); }
  };
  struct Coming {
    Round round = 0;
    bool last = false;
    std::uint64_t total = 0;
    Buffer bytes;
    void state(Archive& ar) { ar(round, last, total, bytes); }
  };
  void go_on(Rank to, Turn&);
  Status take(Rank from, const Part&, const Payload& body, Turn&);
  Status take(Rank from, const Have&, Turn&);

  std::map<Rank, Going> going_;
  std::optional<Coming> coming_;
  std::optional<Given> whole_;
  std::set<Rank> have_;  // of those who have come back
};

}  // namespace longhaul::sync
