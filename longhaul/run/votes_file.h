#pragma once
// votes.bin of a node's folder: what its membership must not forget (net::KeptVotes).
#include <functional>
#include <optional>
#include <string>

#include "longhaul/net/event_loop.h"

namespace longhaul::run {

// Null: the folder has none, or what cannot be read.
std::optional<net::KeptVotes> read_votes(const std::string& folder);
// Error: they are of another node, and two would vote as one.
Result<std::optional<net::KeptVotes>> read_own_votes(const std::string& folder, const Members&,
                                                     Rank self);
// Writes them, on any thread. After an Error there is no file: older votes are never taken for
// these.
std::function<Status(const net::KeptVotes&)> keeps_votes(const std::string& folder);

}  // namespace longhaul::run
