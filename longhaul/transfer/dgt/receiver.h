#pragma once
// The receiving end of differential transfers: puts pushes together from their blocks, hands each
// on once its reliable blocks are in, and keeps account of every block.
//
// A block that comes before its push was handed on is fresh. After that it is late: it is carried
// (added to the next push, while it is no more than max_late pushes old), or dropped. What a block
// is counted as never changes, and an account is closed max_late + 2 pushes later.
//
// Kept of one peer: max_late + 2 open pushes a stream, and at most so many vectors in bytes.
// Owned by Dgt. A block is asked of the owner (VectorPort) only when its push is whole.
#include <deque>
#include <map>
#include <optional>

#include "longhaul/core/place.h"
#include "longhaul/transfer/dgt/config.h"
#include "longhaul/transfer/dgt/cut.h"
#include "longhaul/transfer/dgt/messages.h"

namespace longhaul::transfer::dgt {

class Receiver {
 public:
  Receiver(const Config&, const Place&);
  void attach(VectorPort& port) { port_ = &port; }

  Status take(Rank from, const Blocks&, const Payload& body, Time now);
  Status take(Rank from, const End&, Time now);
  Status take(Rank from, const Expired&);
  std::optional<Time> due() const;  // when a push is handed on though blocks are missing
  void on_time(Time now);
  void lose(Rank from);  // all that is here of it; what it sends after that begins anew

  // To be drained by the owner.
  std::deque<Arrival> arrivals;
  std::deque<std::pair<Rank, Receipt>> receipts;
  std::deque<Account> accounts;  // closed ones
  std::uint64_t duplicates() const { return duplicates_; }
  std::uint64_t kept(Rank from) const;  // bytes
  std::uint64_t most_kept() const { return most_kept_; }
  void state(Archive&);

 private:
  struct Open {  // not handed on
    std::optional<End> end;
    std::map<std::uint32_t, Payload> blocks;
    std::uint32_t missing = 0;  // reliable ones, once the end is here
    Bitmap expired;
    std::optional<Time> due;
    void state(auto& ar) { ar(end, blocks, missing, expired, due); }
  };
  struct Told {  // handed on not long ago
    std::vector<Range> ranges;
    Bitmap offered, seen;
    Account account;
    void state(auto& ar) { ar(ranges, offered, seen, account); }
  };
  struct Carried {
    Range range;
    Payload bytes;
    void state(auto& ar) { ar(range, bytes); }
  };
  using BlockId = std::pair<std::uint64_t, std::uint32_t>;  // push, number
  struct Stream {
    std::uint64_t next = 0;  // pushes below it are open, handed on, or given up
    std::map<std::uint64_t, Open> open;
    std::map<std::uint64_t, Told> told;
    std::map<BlockId, Carried> carry;
    void state(auto& ar) { ar(next, open, told, carry); }
  };
  struct Peer {
    std::map<StreamId, Stream> streams;
    std::uint64_t kept = 0;
    void state(auto& ar) { ar(streams, kept); }
  };
  using Numbers = std::vector<std::vector<float>>;  // by stretch

  Result<Stream*> stream(Rank from, const StreamId&);
  Status check(Rank from, const End&) const;
  Status take_block(Peer&, Stream&, std::uint64_t push, std::uint32_t number, Payload);
  void take_late(Peer&, Stream&, std::uint64_t push, std::uint32_t number, Payload);
  Status hand_on_ready(Rank from, Stream&, Time now);
  Status hand_on(Rank from, Stream&, std::uint64_t push);
  Result<Numbers> assemble(const Open&, const std::vector<Block>&, Told&);
  void add_carried(Peer&, Stream&, std::uint64_t push, const End&, Numbers&);
  void close_accounts(Stream&, std::uint64_t push);
  void give_up(Peer&, Stream&, std::uint64_t below);
  std::vector<Block> cut_of(const std::vector<Range>& ranges) const;
  static std::uint64_t cost(const Payload& bytes);

  const Config config_;
  const std::shared_ptr<const Layout> layout_;
  const bool phantom_;
  const std::uint64_t block_;    // values
  const std::uint64_t longest_;  // vector
  const std::uint64_t most_kept_;
  VectorPort* port_ = nullptr;
  std::map<Rank, Peer> peers_;
  std::uint64_t duplicates_ = 0;
};

// Values of a block: no more than a chunk has.
std::uint64_t block_values(const Config&, const Place&);

}  // namespace longhaul::transfer::dgt
