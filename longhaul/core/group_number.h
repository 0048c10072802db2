#pragma once
// Numbers of an overlay's groups other than 0 (core/overlay.h). A number contains the view in which
// the group was made. A member that rejoined in a later view is not in the group, in any view that
// the other members have reached. So a group made before the loss of a worker does not wait for its
// new incarnation, which does not know the group.
#include "longhaul/core/types.h"

namespace longhaul {

// A number names the view by its epoch modulo kGroupEpochs, the group by a number modulo
// kGroupsOfAnEpoch; both are reused when no group of that number is left.
inline constexpr std::uint32_t kGroupEpochs = 64, kGroupsOfAnEpoch = (1u << 26) - 1;

// Never 0, which is the group of all workers.
inline std::uint32_t group_number(Epoch made_in, std::uint64_t group) {
  return 1 + std::uint32_t(made_in % kGroupEpochs) * (kGroupsOfAnEpoch + 1) +
         std::uint32_t(group % kGroupsOfAnEpoch);
}

// Returns the newest view up to `now` that can have made the group. `number` must not be 0.
inline Epoch epoch_of_group(std::uint32_t number, Epoch now) {
  const Epoch of = (number - 1) / (kGroupsOfAnEpoch + 1);
  return now - std::min<Epoch>(now, (now + kGroupEpochs - of) % kGroupEpochs);
}

}  // namespace longhaul
