#pragma once
// Numbers of an overlay's groups other than 0 (core/overlay.h). A number says in which view the
// group was made: a member that has come back in a later view is not in it, whatever view the other
// members have reached. So a group that was made before a worker was lost does not wait for its new
// incarnation, which knows nothing of the group.
#include "longhaul/core/types.h"

namespace longhaul {

// A number names the view by its epoch modulo kGroupEpochs, the group by a number modulo
// kGroupsOfAnEpoch; both are used anew when no group of that number is left.
inline constexpr std::uint32_t kGroupEpochs = 64, kGroupsOfAnEpoch = (1u << 26) - 1;

// Never 0, which is the group of all workers.
inline std::uint32_t group_number(Epoch made_in, std::uint64_t group) {
  return 1 + std::uint32_t(made_in % kGroupEpochs) * (kGroupsOfAnEpoch + 1) +
         std::uint32_t(group % kGroupsOfAnEpoch);
}

// The newest view up to `now` that the number may be of. `number` is not 0.
inline Epoch epoch_of_group(std::uint32_t number, Epoch now) {
  const Epoch of = (number - 1) / (kGroupsOfAnEpoch + 1);
  return now - std::min<Epoch>(now, (now + kGroupEpochs - of) % kGroupEpochs);
}

}  // namespace longhaul
