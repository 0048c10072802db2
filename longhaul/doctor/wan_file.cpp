#include "longhaul/doctor/report.h"

#include <algorithm>

#include <fmt/format.h>

#include "longhaul/doctor/grades.h"

namespace longhaul::doctor {
namespace {

constexpr double kMaxLoss = 0.99;  // maximum in a job file

struct Link {
  double mbps = 0, delay_ms = 0, loss = 0;
};

// Returns the link of a measured direction. Loss of about one datagram in 200 can be chance and
// counts as zero. Lost packets also crossed the link and were sent again. Therefore the rate of the
// link is higher than the rate received.
Link link_of(const Report::Direction& direction) {
  const DirectionResult& way = direction.way;
  const bool lost = way.udp_passes() && way.loss() > kLoss;
  const double loss = lost ? std::min(way.loss(), kMaxLoss) : 0;
  return {mbps(way) / (1 - loss), direction.pair.rtt_min_s * 1e3 / 2, loss};
}

// Returns the queue keys of the more common kind of queue among the directions that showed one. For
// drop-tail queues, queue_ms is the median of their waits.
std::string queue_keys(const Report& report) {
  std::vector<double> shared, own;  // waits in seconds
  for (std::uint32_t from = 0; from < report.sites.size(); ++from)
    for (std::uint32_t to = 0; to < report.sites.size(); ++to) {
      if (from == to) continue;
      const auto direction = report.direction(from, to);
      if (!direction) continue;
      const QueueSeen queue = queue_of(direction->pair, direction->way);
      if (queue.kind == QueueSeen::Kind::shared) shared.push_back(queue.wait_s);
      if (queue.kind == QueueSeen::Kind::per_flow) own.push_back(queue.wait_s);
    }
  const std::size_t known = shared.size() + own.size();
  if (known == 0)
    return "# Queues are unknown: no packets waited, or no UDP passes. per_flow is assumed.\n";
  if (shared.size() < own.size())
    return fmt::format(
        "# Flows wait each by itself in {} of {} directions.\nqueue = \"per_flow\"\n", own.size(),
        known);
  const auto [least, most] = std::minmax_element(shared.begin(), shared.end());
  return fmt::format(
      "# All flows wait in one queue in {} of {} directions, for up to {:.0f} to {:.0f} ms.\n"
      "queue = \"drop_tail\"\nqueue_ms = {:.1f}\n",
      shared.size(), known, *least * 1e3, *most * 1e3, median(shared) * 1e3);
}

}  // namespace

Result<std::string> wan_toml(const Report& report) {
  std::string links, missing;
  Link worst;
  for (std::uint32_t from = 0; from < report.sites.size(); ++from)
    for (std::uint32_t to = 0; to < report.sites.size(); ++to) {
      if (from == to) continue;
      const std::string &a = report.sites[from].name, &b = report.sites[to].name;
      const auto direction = report.direction(from, to);
      if (!direction || direction->way.bulk.rate <= 0 || direction->pair.pongs == 0) {
        missing += fmt::format("# not measured: {} -> {}\n", a, b);
        continue;
      }
      const Link link = link_of(*direction);
      worst.mbps = worst.mbps == 0 ? link.mbps : std::min(worst.mbps, link.mbps);
      worst.delay_ms = std::max(worst.delay_ms, link.delay_ms);
      links += fmt::format("[[wan.link]]\nfrom = \"{}\"\nto = \"{}\"\nmbps = {:.3f}\n", a, b,
                           std::max(link.mbps, 0.001));
      links += fmt::format("delay_ms = {:.3f}\n", link.delay_ms);
      if (link.loss > 0) links += fmt::format("loss = {:.4f}\n", link.loss);
    }
  if (links.empty())
    return unavailable("no pair of sites was measured: there is no [wan] to write");
  std::string text = fmt::format(
      "# Measured by longhaul doctor {} (job hash {}).\n# It takes the place of [wan] and "
      "[[wan.link]] in the job file. Rates are what each pair gets\n# alone, in IP bytes; delays "
      "are half of the smallest round trip.\n",
      report.job, report.job_hash);
  text += missing;
  if (!missing.empty())
    text += "# Those have the smallest rate and the longest delay of the others:\n";
  text += fmt::format("[wan]\nmodel = \"fair\"\nmbps = {:.3f}\ndelay_ms = {:.3f}\n",
                      std::max(worst.mbps, 0.001), worst.delay_ms);
  return text + queue_keys(report) + links;
}

}  // namespace longhaul::doctor
