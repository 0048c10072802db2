#include "longhaul/doctor/coordinate.h"

#include <algorithm>
#include <thread>

#include <fmt/format.h>

#include "longhaul/doctor/probe.h"

namespace longhaul::doctor {
namespace {

using namespace std::chrono_literals;

constexpr Time kAttemptTimeout = 5s;  // one call of a site that may not be up yet
constexpr auto kPause = 200ms;
constexpr Time kAnswerTimeout = 15s;  // for the message that says what was measured

// The line to one other site.
struct Line {
  std::optional<Channel> channel;  // none: it did not come
  std::string failure;
  std::string release;
  MachineFacts facts;
};

// Makes one attempt. An unfit site that answers is not tried again: a person must fix it.
Result<Line> connect_once(const LocalSite& self, std::uint32_t site, const Deadline& deadline) {
  LH_LET(session, connect_to(self, site, Purpose::control, deadline));
  auto facts = session.channel.receive<MachineFacts>(Kind::facts, deadline);
  if (!facts) return facts.error();
  return Line{std::move(session.channel), "", session.hello.release, *std::move(facts)};
}

Line connect_until(const LocalSite& self, std::uint32_t site, const Deadline& deadline) {
  for (;;) {
    auto line = connect_once(self, site, deadline.at_most(kAttemptTimeout));
    if (line) return *std::move(line);
    if (line.error().kind == Error::Kind::malformed || Clock::now() >= deadline.end ||
        deadline.stopped())
      return Line{std::nullopt, line.error().what, "", {}};
    std::this_thread::sleep_for(kPause);
    // An attempt without time left would hide the reason why the others failed.
    if (Clock::now() >= deadline.end) return Line{std::nullopt, line.error().what, "", {}};
  }
}

std::vector<Line> connect_all(const LocalSite& self, Time arrival_timeout) {
  const Deadline deadline = Deadline::within(arrival_timeout, self.stop);
  std::vector<Line> lines(self.names.size());
  std::vector<std::thread> threads;
  for (std::uint32_t site = 1; site < lines.size(); ++site)
    threads.emplace_back([&, site] { lines[site] = connect_until(self, site, deadline); });
  for (std::thread& thread : threads) thread.join();
  return lines;
}

// Has `line`'s site measure the way to another.
PairResult request_probe(const LocalSite& self, Line& line, Pair who, const MeasurementPlan& plan) {
  const Deadline deadline = Deadline::within(longest_probe(plan) + kAnswerTimeout, self.stop);
  PairResult none{.from = who.first, .to = who.second};
  const Status asked = line.channel->send(Kind::probe, ProbeRequest{who.second, plan}, deadline);
  auto result = asked ? line.channel->receive<PairResult>(Kind::result, deadline)
                      : Result<PairResult>(asked.error());
  if (result && (result->from != who.first || result->to != who.second))
    result = line.channel->wrong(Kind::result, "of another pair");
  if (result) {
    result->failure = ascii(result->failure);
    return *std::move(result);
  }
  line.channel.reset();  // later messages could belong to this pair
  none.failure = line.failure = result.error().what;
  return none;
}

std::string names_of(const Slot& slot, const std::vector<std::string>& names) {
  std::string text;
  for (const auto& [a, b] : slot)
    text += fmt::format("{}{} - {}", text.empty() ? "" : ", ", names[a], names[b]);
  return text;
}

void measure_slot(const LocalSite& self, const Slot& slot, std::vector<Line>& lines,
                  const MeasurementPlan& plan, Report& report) {
  std::vector<bool> present(lines.size());
  for (std::size_t i = 0; i < lines.size(); ++i) present[i] = i == 0 || lines[i].channel;
  std::vector<PairResult> results;
  std::vector<Pair> pairs;
  for (const Pair& pair : slot)
    if (const auto who = measuring_site(pair, present)) pairs.push_back(*who);
  results.resize(pairs.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < pairs.size(); ++i)
    threads.emplace_back([&, i] {
      results[i] = pairs[i].first == 0 ? probe(self, pairs[i].second, plan)
                                       : request_probe(self, lines[pairs[i].first], pairs[i], plan);
    });
  for (std::thread& thread : threads) thread.join();
  report.pairs.insert(report.pairs.end(), results.begin(), results.end());
}

}  // namespace

double expected_seconds(const MeasurementPlan& plan, std::size_t sites, bool one_by_one) {
  const double pair = 2 * plan.seconds + double(plan.datagrams) * 0.005 + 1;
  const std::size_t slots =
      one_by_one ? sites * (sites - 1) / 2 : round_robin_schedule(std::uint32_t(sites)).size();
  return pair * double(slots);
}

std::optional<Pair> measuring_site(Pair pair, const std::vector<bool>& present) {
  if (present[pair.first]) return pair;
  if (present[pair.second]) return Pair{pair.second, pair.first};
  return std::nullopt;
}

void run_coordinator(const LocalSite& self, const CoordinatorOptions& options, Report& report) {
  const auto sites = std::uint32_t(self.names.size());
  options.on_progress(fmt::format(
      "calling {} other sites, for {:.0f} s at most; then it takes about {:.0f} s", sites - 1,
      seconds(options.arrival_timeout), expected_seconds(options.plan, sites, options.one_by_one)));
  std::vector<Line> lines = connect_all(self, options.arrival_timeout);
  lines[0].release = self.release;
  lines[0].facts = options.facts;
  for (std::uint32_t site = 0; site < sites; ++site) {
    const bool came = site == 0 || lines[site].channel;
    report.sites.push_back({self.names[site], net::to_string(self.addresses[site]), came,
                            lines[site].failure, ascii(lines[site].release), lines[site].facts});
    report.sites.back().facts.congestion = ascii(lines[site].facts.congestion);
    if (!came)
      options.on_progress(
          fmt::format("{} did not connect: {}", self.names[site], lines[site].failure));
  }
  const auto slots = options.one_by_one ? one_by_one(sites) : round_robin_schedule(sites);
  for (std::size_t i = 0; i < slots.size() && !(self.stop && self.stop()); ++i) {
    options.on_progress(
        fmt::format("slot {} of {}: {}", i + 1, slots.size(), names_of(slots[i], self.names)));
    measure_slot(self, slots[i], lines, options.plan, report);
  }
  std::sort(report.pairs.begin(), report.pairs.end(), [](const auto& a, const auto& b) {
    return std::minmax(a.from, a.to) < std::minmax(b.from, b.to);
  });
  report.interrupted = self.stop && self.stop();
  for (Line& line : lines)
    if (line.channel) (void)line.channel->send(Kind::bye, Empty{}, Deadline::within(1s, nullptr));
}

}  // namespace longhaul::doctor
