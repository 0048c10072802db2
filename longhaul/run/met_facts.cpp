#include "longhaul/run/met_facts.h"

#include <unistd.h>

#include <fmt/format.h>

#include "longhaul/run/atomic_file.h"

namespace longhaul::run {
namespace {

std::string file_in(const std::string& folder) { return folder + "/facts.bin"; }

}  // namespace

net::Words MetFacts::words() const {
  net::Words words;
  for (const net::Introduction& one : said.all) words.try_emplace(one.rank, one.words);
  return words;
}

Status write_facts(const std::string& folder, const MetFacts& facts) {
  return write_atomically(file_in(folder), std::span<const std::byte>(to_wire(facts)));
}

std::optional<MetFacts> read_facts(const std::string& folder) {
  const auto bytes = read_file(file_in(folder));
  if (!bytes) return std::nullopt;
  auto facts = from_wire<MetFacts>(*bytes);
  return facts ? std::optional(*std::move(facts)) : std::nullopt;
}

Status meet(Workload& workload, const Members& members, const net::Words& words) {
  std::map<std::string, learn::TableFacts> facts;
  for (const auto& [rank, said] : words) {
    if (rank >= members.size() || !members[rank].is(Role::worker)) continue;
    auto read = from_wire<learn::TableFacts>(std::as_bytes(std::span(said)));
    if (!read)
      return malformed(fmt::format("site {} says of its data what cannot be read: {}",
                                   members[rank].site, read.error().what));
    facts.try_emplace(members[rank].site, *std::move(read));
  }
  return workload.meet(facts);
}

Result<Workload> workload_of_run(const Job& job, const std::string& folder, bool numbers,
                                 const OwnLearners* own) {
  const auto facts = read_facts(folder);
  if (!facts) return Workload::load(job, numbers, own);
  auto workload = Workload::load(job, numbers, own, facts->self);
  if (!workload || !workload->meets()) return workload;
  LH_TRY(meet(*workload, job.members(), facts->words()));
  return workload;
}

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
