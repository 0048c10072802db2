#include "longhaul/run/site_status.h"

#include <fmt/format.h>

#include "longhaul/run/nodes.h"

namespace longhaul::run {

NodeStatus site_status(const Members& members, Rank self, const net::EventLoop& loop, bool ended) {
  const net::EventLoop::Counters counters = loop.counters();
  net::EventLoop::Doing doing;
  if (!ended) doing = loop.doing();
  std::vector<std::string> awaited;
  for (const Rank rank : doing.awaited) awaited.push_back(node_name(members.at(rank)));
  NodeStatus status{
      .site = members.at(self).site,
      .rank = self,
      .state = ended ? "ended" : doing.state,
      .waits_for = awaited.empty() ? doing.waits_for : names_text(awaited, members.size()),
      .time_s = seconds(counters.time),
      .wan_bytes = counters.wan_bytes,
      .wan_messages = counters.wan_messages,
      .computing_s = seconds(counters.computing)};
  for (const auto& [peer, since] : doing.silent)
    status.silent.push_back(
        {fmt::format("rank {} ({})", peer, members.at(peer).site), seconds(since)});
  return status;
}

Status is_folder_of(const std::string& folder, const Members& members, Rank self) {
  const auto before = read_status(folder);
  if (!before || before->site.empty()) return Ok{};
  const Member& me = members.at(self);
  // A node that serves has another rank once the job has got sites.
  const bool is_of_site = before->rank < members.size() && members[before->rank].site == me.site;
  if (before->site == me.site && (before->rank == self || !is_of_site)) return Ok{};
  return invalid(fmt::format(
      "{}: is the run folder of site {} (rank {}), and this is site {} (rank {}): choose this "
      "site's own with --out, or start it with --force to begin anew here",
      folder, before->site, before->rank, me.site, self));
}

net::EventLoop::Counters counters_of(const NodeStatus& status) {
  return {.computing = from_seconds(status.computing_s),
          .wan_bytes = status.wan_bytes,
          .wan_messages = status.wan_messages,
          .pace = {}};
}

Summary failed_summary(const Job& job, const Error& why) {
  Summary summary = summary_of(job);
  summary.stop_reason = StopReason::failed;
  summary.failure = why.what;
  return summary;
}

}  // namespace longhaul::run
