#pragma once
// Whom a holder serves next: the fastest link known, or one that nobody has tried. A pure function.
#include <functional>
#include <optional>
#include <span>

#include "longhaul/base/rng.h"
#include "longhaul/core/types.h"

namespace longhaul::overlay::tsengine {

// Learned bytes/s from one node to another, if known.
using Rate = std::function<std::optional<double>(Rank from, Rank to)>;

// Of `candidates`, of which there is at least one, ascending: K with a known link from `holder`, U
// without. With probability min(K / (K + U), greed) the fastest of the known, ties to the lowest
// rank; else one of the unknown, or of all if there is no unknown one.
Rank choose_receiver(Rank holder, std::span<const Rank> candidates, const Rate&, double greed,
                     Random&);

}  // namespace longhaul::overlay::tsengine
