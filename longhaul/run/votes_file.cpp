#include "longhaul/run/votes_file.h"

#include <unistd.h>

#include "longhaul/run/atomic_file.h"

namespace longhaul::run {

std::optional<net::KeptVotes> read_votes(const std::string& folder) {
  const auto bytes = read_file(folder + "/votes.bin");
  if (!bytes) return std::nullopt;
  auto votes = from_wire<net::KeptVotes>(*bytes);
  return votes ? std::optional(*std::move(votes)) : std::nullopt;
}

std::function<Status(const net::KeptVotes&)> keeps_votes(const std::string& folder) {
  return [file = folder + "/votes.bin"](const net::KeptVotes& votes) -> Status {
    const Status written = write_atomically(file, std::span<const std::byte>(to_wire(votes)));
    if (!written) ::unlink(file.c_str());
    return written;
  };
}

}  // namespace longhaul::run
