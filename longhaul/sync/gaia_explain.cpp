// What gaia would send, to whom, and why: `longhaul explain JOB`.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "longhaul/base/decimal.h"
#include "longhaul/sync/gaia.h"

namespace longhaul::sync {
namespace {

constexpr double kShares[] = {0.01, 0.05, 0.1, 0.5, 1};

std::string form_name(gaia::Form form) {
  if (form == gaia::Form::sparse) return "sparse";
  return form == gaia::Form::bitmap ? "bitmap" : "dense";
}

std::string node_text(const Member& member) {
  return member.rank_in_site == 0 ? member.site
                                  : fmt::format("{}/{}", member.site, member.rank_in_site);
}

std::string significance_text(const gaia::Config& config, gaia::Threshold threshold) {
  std::string text;
  if (config.abs_threshold > 0)
    text = fmt::format("A value is sent when its update is larger than {:g}", config.abs_threshold);
  else if (config.threshold == "bandwidth")
    text = fmt::format(
        "A value is sent when its update is larger than T times its parameter; T begins at {:g} "
        "and rises to {:g} at most while more than {:g} Mbit/s leave a site",
        config.significance, config.max_significance, config.limit_mbps);
  else
    text = fmt::format(
        "A value is sent when its update is larger than T times its parameter: T = {:.3g} at clock "
        "1, {:.3g} at 10, {:.3g} at 100, {:.3g} at 1000 ({})",
        threshold.next(1, 0), threshold.next(10, 0), threshold.next(100, 0),
        threshold.next(1000, 0), config.threshold);
  if (config.flush_every > 0)
    text += fmt::format("; every {} clocks all is sent", config.flush_every);
  return text + ". The rest adds up until it is.";
}

}  // namespace

Explanation Gaia::explain() const {
  Explanation said;
  said.lines.push_back(significance_text(config_, threshold_));
  said.lines.push_back(
      config_.staleness == 0
          ? "Lock-step: a site begins a clock when the updates of all others of the clock before "
            "are there."
          : fmt::format("A site may lead the slowest one by {} clock{}.", config_.staleness,
                        config_.staleness == 1 ? "" : "s"));
  if (config_.staleness > 0 && config_.barrier != "off")
    said.lines.push_back(fmt::format(
        "Selective barrier{}: updates that need more than {:g} ms to leave are announced, and a "
        "step that reads one of them waits for it.",
        config_.barrier == "auto" ? " (of models that look up rows of tables)" : "",
        config_.barrier_ms));
  std::vector<Rank> workers;
  for (Rank rank = 0; rank < place_.size(); ++rank)
    if (place_.member(rank).is(Role::worker)) workers.push_back(rank);
  explain_flows(workers, said);
  explain_sizes(said);
  return said;
}

// A row for each flow: what a site sends to whom.
void Gaia::explain_flows(const std::vector<Rank>& workers, Explanation& said) const {
  std::size_t flows = 0;
  Explanation::Table table{
      .title = "Who sends what to whom, each clock", .head = {"site", "sends", "to"}, .rows = {}};
  for (const Rank rank : workers) {
    const gaia::Routes all = routes(workers, rank);
    for (const gaia::Flow& flow : all.flows) {
      if (flow.to.empty()) continue;
      flows += flow.to.size();
      const bool is_own = flow.from == std::vector<gaia::Slot>{rank};
      // Slots behind the ranks are sums of other groups.
      const bool is_relayed = flow.from.front() >= place_.size();
      std::vector<std::string> to;
      for (const Rank receiver : flow.to) to.push_back(node_text(place_.member(receiver)));
      table.rows.push_back({node_text(place_.member(rank)),
                            is_own       ? "its own updates"
                            : is_relayed ? "sums of other groups"
                                         : "the sum of its group",
                            fmt::format("{}", fmt::join(to, " "))});
    }
  }
  said.lines.push_back(fmt::format(
      "exchange = \"{}\": {} directed flows a clock{}.", config_.exchange, flows,
      groups_ ? fmt::format(", direct would have {}", workers.size() * (workers.size() - 1)) : ""));
  if (groups_) said.tables.push_back(std::move(table));
}

// Bytes of one clock to one receiver, by how much is significant.
void Gaia::explain_sizes(Explanation& said) const {
  Explanation::Table table{
      .title = "kB of a clock to one receiver, by the share of values that are significant",
      .head = {"layer", "values"},
      .rows = {}};
  for (const double share : kShares) table.head.push_back(fmt::format("{:g} %", 100 * share));
  std::vector<std::uint64_t> sums(std::size(kShares));
  std::size_t range = 0;
  for (const LayerRange& layer : place_.layout->layers()) {
    if (layer.role != LayerRange::Role::parameter) continue;
    const std::uint64_t length = ranges_.at(range++).length;
    std::vector<std::string> row = {layer.name.empty() ? "the model" : layer.name,
                                    fmt::format("{}", length)};
    for (std::size_t i = 0; i < std::size(kShares); ++i) {
      const auto count = std::uint64_t(whole_up(kShares[i] * double(length)));
      const gaia::Form form = gaia::smallest_form(count, length, coder_, Coding::up);
      const std::uint64_t bytes = gaia::bytes_of(form, count, length, coder_, Coding::up);
      sums[i] += bytes;
      row.push_back(fmt::format("{:.4g} {}", double(bytes) / 1e3, form_name(form)));
    }
    table.rows.push_back(std::move(row));
  }
  if (range > 1) {
    std::vector<std::string> row = {"all", fmt::format("{}", place_.layout->parameters().length)};
    for (const std::uint64_t sum : sums) row.push_back(fmt::format("{:.4g}", double(sum) / 1e3));
    table.rows.insert(table.rows.begin(), std::move(row));
  }
  said.tables.push_back(std::move(table));
}

}  // namespace longhaul::sync
