#pragma once
// Routes are the flows of updates that a site sends, and the slots for the flows that it receives.
// Every update reaches every site exactly once.
//   direct: every site sends its updates to every other.
//   gaia_hubs: sites of a group send to each other; its hub sends their sum to the other hubs, and
//     the sum of all other groups to its group (the released code's overlay).
//   peer_hubs: one site of each group joins it with one other group: it sends its group's sum to
//     its peer, and the peer's sum to its group, where no site adds it to a sum again.
#include "longhaul/sync/gaia/base.h"
#include "longhaul/sync/gaia/groups.h"

namespace longhaul::sync::gaia {

// Clock by clock, as soon as all of `from` have it: the sum of their updates.
struct Flow {
  std::vector<Slot> from;  // ascending
  std::vector<Rank> to;    // ascending
  Slot as = 0;             // the slot that it has at its receivers
  friend bool operator==(const Flow&, const Flow&) = default;
};

struct Routes {
  std::map<Slot, Rank> slots;  // slots of the inbox with their senders; includes this node's own
  std::vector<Flow> flows;     // the first flow has this node's own updates

  std::set<Slot> slot_numbers() const;
};

// Groups have slots `size` + their number, and all other groups together one more; `size`: nodes of
// the job.
Routes direct_routes(const std::vector<Rank>& live, Rank self);
Routes hub_routes(const Groups& live, std::uint32_t size, Rank self);
Routes peer_routes(const Groups& live, std::uint32_t size, Rank self);

}  // namespace longhaul::sync::gaia
