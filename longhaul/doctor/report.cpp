#include "longhaul/doctor/report.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "longhaul/doctor/grades.h"

namespace longhaul::doctor {
namespace {

using Json = nlohmann::ordered_json;

std::string cell(std::string text, Grade grade) {
  return text + (grade == Grade::bad ? " !" : grade == Grade::note ? " ?" : "");
}
std::string number(double value) {
  return value < 10    ? fmt::format("{:.2f}", value)
         : value < 100 ? fmt::format("{:.1f}", value)
                       : fmt::format("{:.0f}", value);
}
std::string gigabytes(std::uint64_t bytes) { return fmt::format("{:.1f} GB", double(bytes) / 1e9); }

void add_measured(std::vector<std::string>& row, const Report::Direction& direction,
                  const Report& report) {
  const PairResult& pair = direction.pair;
  const DirectionResult& way = direction.way;
  const bool pinged = pair.pongs > 0;
  row.push_back(pinged ? cell(number(pair.rtt_median_s * 1e3), grade_rtt(pair, report)) : "-");
  row.push_back(pinged ? number(pair.rtt_min_s * 1e3) : "-");
  row.push_back(way.udp_passes() ? cell(fmt::format("{:.1f} %", 100 * way.loss()), grade_loss(way))
                                 : "-");
  row.push_back(cell(number(mbps(way)), grade_bulk(way)));
  row.push_back(number(goodput_mbps(way)));
  row.push_back(pinged ? cell(fmt::format("{:+.1f}", direction.offset_s * 1e3),
                              grade_clock(direction.offset_s))
                       : "-");
  row.push_back(way.path.mtu == 0 ? "-" : cell(std::to_string(way.path.mtu), grade_mtu(way)));
  row.push_back(!way.udp_passes()
                    ? "-"
                    : cell(marks_survive(way) ? "kept" : "lost", grade_dscp(way, report)));
  const QueueSeen queue = queue_of(pair, way);
  row.push_back(queue.kind == QueueSeen::Kind::unknown
                    ? "-"
                    : fmt::format("{} {}", number(queue.wait_s * 1e3),
                                  queue.kind == QueueSeen::Kind::shared ? "shared" : "own"));
}

Json site_json(const SiteReport& site) {
  return {{"site", site.name},
          {"address", site.address},
          {"came", site.present},
          {"failure", site.failure},
          {"release", site.release},
          {"disk_free_bytes", site.facts.disk_free},
          {"memory_available_bytes", site.facts.memory_available},
          {"congestion", site.facts.congestion},
          {"bbr", site.facts.has_bbr}};
}

Json direction_json(const Report& report, std::uint32_t from, std::uint32_t to) {
  Json json = {{"from", report.sites[from].name}, {"to", report.sites[to].name}};
  const PairResult* const pair = report.pair(from, to);
  json["dialled_by"] = pair ? Json(report.sites[pair->from].name) : Json();
  json["reached"] = pair && pair->reached;
  json["failure"] = pair ? pair->failure : "";
  for (const char* key : {"rtt_ms", "rtt_min_ms", "clock_offset_ms", "loss", "mbps", "goodput_mbps",
                          "mtu", "dscp_kept", "congestion", "queue", "queue_ms"})
    json[key] = nullptr;
  const auto direction = report.direction(from, to);
  if (!direction) return json;
  const DirectionResult& way = direction->way;
  if (pair->pongs > 0) {
    json["rtt_ms"] = pair->rtt_median_s * 1e3;
    json["rtt_min_ms"] = pair->rtt_min_s * 1e3;
    json["clock_offset_ms"] = direction->offset_s * 1e3;
  }
  if (way.udp_passes()) {
    json["loss"] = way.loss();
    json["dscp_kept"] = marks_survive(way);
  }
  json["mbps"] = mbps(way);
  json["goodput_mbps"] = goodput_mbps(way);
  if (way.path.mtu != 0) json["mtu"] = way.path.mtu;
  if (!way.path.congestion.empty()) json["congestion"] = ascii(way.path.congestion);
  const QueueSeen queue = queue_of(*pair, way);
  if (queue.kind != QueueSeen::Kind::unknown) {
    json["queue"] = queue.kind == QueueSeen::Kind::shared ? "drop_tail" : "per_flow";
    json["queue_ms"] = queue.wait_s * 1e3;
  }
  return json;
}

}  // namespace

const PairResult* Report::pair(std::uint32_t a, std::uint32_t b) const {
  const auto found = std::find_if(pairs.begin(), pairs.end(), [&](const PairResult& p) {
    return (p.from == a && p.to == b) || (p.from == b && p.to == a);
  });
  return found == pairs.end() ? nullptr : &*found;
}

std::optional<Report::Direction> Report::direction(std::uint32_t from, std::uint32_t to) const {
  const PairResult* const p = pair(from, to);
  if (p == nullptr || !p->reached) return std::nullopt;
  const bool there = p->from == from;
  return Direction{*p, there ? p->there : p->back, there ? p->offset_s : -p->offset_s};
}

Table site_table(const Report& report) {
  Table table{{"site", "address", "came", "release", "disk", "memory", "congestion"}, {}};
  const bool with_loss = lossy(report);
  for (const SiteReport& site : report.sites) {
    std::vector<std::string> row = {site.name, site.address,
                                    site.present ? "yes" : cell("no", Grade::bad)};
    if (site.present)
      row.insert(row.end(), {cell(site.release, grade_release(site, report)),
                             cell(gigabytes(site.facts.disk_free), grade_disk(site.facts)),
                             cell(gigabytes(site.facts.memory_available), grade_memory(site.facts)),
                             cell(site.facts.congestion.empty() ? "-" : site.facts.congestion,
                                  grade_congestion(site.facts, report, with_loss))});
    table.rows.push_back(std::move(row));
  }
  return table;
}

Table pair_table(const Report& report) {
  Table table{{"from", "to", "rtt ms", "least", "loss", "Mbit/s", "goodput", "clock ms", "MTU",
               "DSCP", "queue ms"},
              {}};
  for (std::uint32_t from = 0; from < report.sites.size(); ++from)
    for (std::uint32_t to = 0; to < report.sites.size(); ++to) {
      if (from == to) continue;
      std::vector<std::string>& row = table.rows.emplace_back(2, report.sites[from].name);
      row[1] = report.sites[to].name;
      if (const auto direction = report.direction(from, to))
        add_measured(row, *direction, report);
      else
        row.push_back(report.pair(from, to) ? cell("unreachable", Grade::bad)
                                            : cell("not tried", Grade::note));
    }
  return table;
}

std::string to_json(const Report& report) {
  Json sites = Json::array(), ways = Json::array(), found = Json::array();
  for (const SiteReport& site : report.sites) sites.push_back(site_json(site));
  for (std::uint32_t from = 0; from < report.sites.size(); ++from)
    for (std::uint32_t to = 0; to < report.sites.size(); ++to)
      if (from != to) ways.push_back(direction_json(report, from, to));
  for (const Finding& one : findings(report))
    found.push_back({{"grade", one.grade == Grade::bad ? "bad" : "note"},
                     {"where", one.where},
                     {"what", one.what},
                     {"remedy", one.remedy}});
  return Json{{"name", report.job},
              {"job_hash", report.job_hash},
              {"interrupted", report.interrupted},
              {"sites", sites},
              {"pairs", ways},
              {"findings", found}}
      .dump(2);
}

}  // namespace longhaul::doctor
