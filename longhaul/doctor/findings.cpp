#include <algorithm>

#include <fmt/format.h>

#include "longhaul/doctor/grades.h"

namespace longhaul::doctor {
namespace {

// The sites that a measurement failed to connect with a site.
struct Tries {
  std::vector<std::string> by, of;  // sites that dialled it in vain; sites that it dialled in vain
  std::size_t reached = 0;
  std::string failure;  // the first
};

std::string list(const std::vector<std::string>& words) {
  constexpr std::size_t kMaxNames = 6;
  std::string text;
  for (std::size_t i = 0; i < words.size() && i < kMaxNames; ++i)
    text += (i == 0 ? "" : ", ") + words[i];
  return words.size() <= kMaxNames ? text
                                   : fmt::format("{} and {} more", text, words.size() - kMaxNames);
}

std::string way(const Report& report, std::uint32_t from, std::uint32_t to) {
  return report.sites[from].name + " -> " + report.sites[to].name;
}

class Judge {
 public:
  explicit Judge(const Report& report) : report_(report) {}
  std::vector<Finding> judge() {
    for (std::uint32_t site = 0; site < report_.sites.size(); ++site) reach(site);
    for (const SiteReport& site : report_.sites) machine(site);
    for (const PairResult& p : report_.pairs) pair(p);
    udp();
    std::stable_sort(found_.begin(), found_.end(),
                     [](const Finding& a, const Finding& b) { return a.grade > b.grade; });
    return std::move(found_);
  }

 private:
  void add(Grade grade, std::string where, std::string what, std::string remedy) {
    if (grade != Grade::good)
      found_.push_back({grade, std::move(where), std::move(what), std::move(remedy)});
  }
  Tries tries_of(std::uint32_t site) const {
    Tries tries;
    for (const PairResult& p : report_.pairs) {
      if (p.from != site && p.to != site) continue;
      if (p.reached) {
        ++tries.reached;
        continue;
      }
      if (tries.failure.empty()) tries.failure = p.failure;
      if (p.to == site)
        tries.by.push_back(report_.sites[p.from].name);
      else
        tries.of.push_back(report_.sites[p.to].name);
    }
    return tries;
  }

  bool isolated(std::uint32_t site) const {
    const Tries tries = tries_of(site);
    return tries.reached == 0 && !(tries.by.empty() && tries.of.empty());
  }

  // Reports a site that no other site could connect with as one finding, not one for each site.
  void reach(std::uint32_t site) {
    const SiteReport& one = report_.sites[site];
    const Tries tries = tries_of(site);
    if (isolated(site)) {
      if (tries.by.empty())
        return add(Grade::bad, one.name, "reaches none of the others: " + list(tries.of),
                   "look at its own network first: link, route, firewall for outgoing connections");
      return add(
          Grade::bad, one.name,
          fmt::format("no site reaches it; tried by {}: {}", list(tries.by),
                      one.failure.empty() ? tries.failure : one.failure),
          fmt::format("see that longhaul doctor runs there (--site {}) and that firewalls let the "
                      "others connect to {}",
                      one.name, one.address));
    }
    if (one.present) return;
    add(Grade::bad, one.name,
        fmt::format("{} does not reach it: {}", report_.sites.front().name, one.failure),
        fmt::format("let {} connect to {}; training needs every pair", report_.sites.front().name,
                    one.address));
  }

  void machine(const SiteReport& site) {
    if (!site.present) return;
    const MachineFacts& facts = site.facts;
    add(grade_release(site, report_), site.name,
        fmt::format("it runs {}, {} runs {}", site.release, report_.sites.front().name,
                    report_.sites.front().release),
        "install the same release on all sites");
    add(grade_disk(facts), site.name,
        fmt::format("{:.1f} GB are left where the run's folder will be",
                    double(facts.disk_free) / 1e9),
        "make room, or choose another folder with --out: checkpoints and the model go there");
    add(grade_memory(facts), site.name,
        fmt::format("{:.1f} GB of memory are left", double(facts.memory_available) / 1e9),
        "end other programs, or use another machine");
    if (facts.is_alone)
      add(Grade::bad, site.name, "it listens at its loopback, where no other machine reaches it",
          "leave [[site]] bind out, or name an address of its machine; /etc/hosts may say "
          "127.0.1.1 "
          "for its own name");
    else if (!facts.own_name.empty())
      add(Grade::note, site.name,
          fmt::format("on its own machine {} (/etc/hosts)", ascii(facts.own_name)),
          "nothing for this job, whose site listens at all its addresses; with a name in [[site]] "
          "bind it would listen there alone");
    add(grade_congestion(facts, report_, lossy(report_)), site.name,
        fmt::format("its kernel has no bbr{}",
                    lossy(report_) ? ", and with loss the system's congestion control is far slower"
                                   : ", which [net] congestion asks for; the system's is used"),
        "as root there: modprobe tcp_bbr; if there is no such module, more [net] streams help");
  }

  void unreached(const PairResult& p) {
    add(Grade::bad, way(report_, p.from, p.to), p.failure,
        fmt::format("let {} connect to {} (firewall, address); of two sites the one that the job "
                    "lists first dials",
                    report_.sites[p.from].name, report_.sites[p.to].address));
  }

  void pair(const PairResult& p) {
    if (!p.reached) {
      if (!isolated(p.from) && !isolated(p.to)) unreached(p);
      return;
    }
    if (!p.failure.empty())
      add(Grade::bad, way(report_, p.from, p.to), p.failure,
          "small messages pass but bulk does not: likely an unreported path MTU; lower the "
          "interface's MTU, or as root: sysctl net.ipv4.tcp_mtu_probing=1");
    add(grade_rtt(p, report_), way(report_, p.from, p.to),
        fmt::format("a round trip takes {:.1f} s", p.rtt_median_s),
        "raise [net] silence_s to ten round trips, or peers count as gone");
    add(grade_clock(p.offset_s), way(report_, p.from, p.to),
        fmt::format("clocks are {:.1f} s apart", std::abs(p.offset_s)),
        "run an NTP client at both (chrony, systemd-timesyncd); training does not need it, logs "
        "do");
    direction(p.from, p.to, p.there);
    direction(p.to, p.from, p.back);
  }

  void direction(std::uint32_t from, std::uint32_t to, const DirectionResult& w) {
    const std::string where = way(report_, from, to);
    const PairResult& p = *report_.pair(from, to);
    if (p.failure.empty())
      add(grade_bulk(w), where, "no rate was measured", "measure again, for longer: --seconds 10");
    add(grade_loss(w), where,
        fmt::format("{:.1f} % of {} datagrams are lost", 100 * w.loss(), w.sent),
        "let connections use bbr ([net] congestion, which stands loss where cubic does not), more "
        "[net] streams; ask the carrier");
    add(grade_mtu(w), where, fmt::format("the path takes packets of {} bytes only", w.path.mtu),
        "look for tunnels within tunnels; headers cost more than they need");
    if (report_.plan.datagrams == 0 || !p.failure.empty()) return;
    if (!w.udp_passes()) no_udp_.push_back(where);
    if (grade_dscp(w, report_) != Grade::good) unmarked_.push_back(where);
  }

  void udp() {
    if (!no_udp_.empty())
      add(Grade::note, fmt::format("{} ways", no_udp_.size()),
          "no UDP passes, so loss and DSCP were not measured: " + list(no_udp_),
          "training does not need UDP; to measure, open the port of [[site]] address for UDP, too");
    if (!unmarked_.empty())
      add(Grade::note, fmt::format("{} ways", unmarked_.size()),
          "DSCP marks do not survive: " + list(unmarked_),
          "control messages then wait behind bulk in the network's queues; ask the carrier to keep "
          "class selector 5, or say [net] dscp = false");
  }

  const Report& report_;
  std::vector<Finding> found_;
  std::vector<std::string> unmarked_, no_udp_;  // ways
};

}  // namespace

bool lossy(const Report& report) {
  if (report.expected_loss > 0) return true;
  return std::any_of(report.pairs.begin(), report.pairs.end(), [](const PairResult& p) {
    return grade_loss(p.there) != Grade::good || grade_loss(p.back) != Grade::good;
  });
}

std::vector<Finding> findings(const Report& report) { return Judge(report).judge(); }

Grade worst(const std::vector<Finding>& found) {
  Grade grade = Grade::good;
  for (const Finding& one : found) grade = std::max(grade, one.grade);
  return grade;
}

}  // namespace longhaul::doctor
