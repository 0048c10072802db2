#include "longhaul/run/votes_file.h"

#include <unistd.h>

#include <fmt/format.h>

#include "longhaul/run/atomic_file.h"

namespace longhaul::run {

std::optional<net::KeptVotes> read_votes(const std::string& folder) {
  const auto bytes = read_file(folder + "/votes.bin");
  if (!bytes) return std::nullopt;
  auto votes = from_wire<net::KeptVotes>(*bytes);
  return votes ? std::optional(*std::move(votes)) : std::nullopt;
}

Result<std::optional<net::KeptVotes>> read_own_votes(const std::string& folder,
                                                     const Members& members, Rank self) {
  auto votes = read_votes(folder);
  if (votes && votes->rank != self)
    return invalid(fmt::format(
        "{}/votes.bin: of {} (rank {}), and this is site {} (rank {}): remove the file; this site "
        "then has no vote until the others let it in",
        folder,
        votes->rank < members.size() ? "site " + members[votes->rank].site : "no site of this job",
        votes->rank, members.at(self).site, self));
  return votes;
}

std::function<Status(const net::KeptVotes&)> keeps_votes(const std::string& folder) {
  return [file = folder + "/votes.bin"](const net::KeptVotes& votes) -> Status {
    const Status written = write_atomically(file, std::span<const std::byte>(to_wire(votes)));
    if (!written) ::unlink(file.c_str());
    return written;
  };
}

}  // namespace longhaul::run
