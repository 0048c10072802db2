#include "longhaul/cli/wan_text.h"

#include <algorithm>

#include <fmt/format.h>

#include "longhaul/cli/output.h"

namespace longhaul::cli {
namespace {

using flow::Rate;
using flow::Wan;

constexpr std::size_t kMaxTableRows = 20;

std::string number(double value) {
  return value < 10 ? fmt::format("{:.3g}", value) : fmt::format("{:.0f}", value);
}
std::string mbps(const Rate& rate) { return rate ? number(flow::in_mbps(*rate)) : "-"; }
std::string ms(double s) { return number(s * 1e3); }

std::string range(const std::vector<double>& values) {
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  return *low == *high ? number(*low) : fmt::format("{} to {}", number(*low), number(*high));
}

std::string sites_text(const Wan& wan) {
  std::vector<std::vector<std::string>> rows;
  for (std::size_t i = 0; i < wan.sites.size();) {
    const Wan::Site& site = wan.sites[i];
    std::size_t same = i + 1;  // a run of sites alike is one row
    while (same < wan.sites.size() && wan.sites[same].up == site.up &&
           wan.sites[same].down == site.down && wan.sites[same].nodes == site.nodes)
      ++same;
    const std::string name =
        same == i + 1 ? site.name : fmt::format("{} .. {}", site.name, wan.sites[same - 1].name);
    rows.push_back({name, mbps(site.up), mbps(site.down), fmt::format("{}", site.nodes)});
    i = same;
  }
  return text_table({"site", "up Mbit/s", "down Mbit/s", "nodes"}, rows);
}

template <class Cell>
std::string table(const Wan& wan, const std::string& title, Cell&& cell) {
  std::vector<std::string> head = {title};
  std::vector<std::vector<std::string>> rows;
  for (std::uint32_t from = 0; from < wan.sites.size(); ++from) {
    head.push_back(wan.sites[from].name);
    std::vector<std::string>& row = rows.emplace_back(1, wan.sites[from].name);
    for (std::uint32_t to = 0; to < wan.sites.size(); ++to)
      row.push_back(from == to ? "" : cell(from, to));
  }
  return text_table(head, rows);
}

std::string pair_text(const Wan::Pair& pair) {
  return fmt::format("{} Mbit/s, {} ms one way{}", pair.rate ? mbps(pair.rate) : "unlimited",
                     ms(pair.delay_s),
                     pair.flow ? fmt::format(", {} Mbit/s a connection", mbps(pair.flow)) : "");
}

std::string summary(const Wan& wan) {
  std::vector<double> delays, rates;
  for (const auto& [way, pair] : wan.pairs) {
    delays.push_back(pair.delay_s * 1e3);
    if (pair.rate) rates.push_back(flow::in_mbps(*pair.rate));
  }
  return fmt::format("{} pairs have {} Mbit/s, {} ms one way; the others {}\n", wan.pairs.size(),
                     rates.empty() ? "unlimited" : range(rates), range(delays),
                     pair_text(wan.usual));
}

}  // namespace

std::string wan_text(const Wan& wan) {
  std::string text = sites_text(wan);
  if (wan.sites.size() > 1) {
    if (wan.pairs.empty())
      text += fmt::format("\nEvery pair: {}\n", pair_text(wan.usual));
    else if (wan.sites.size() > kMaxTableRows)
      text += "\n" + summary(wan);
    else {
      auto pairs = [&](auto&& get) {
        return
            [&wan, get](std::uint32_t from, std::uint32_t to) { return get(wan.pair(from, to)); };
      };
      const bool flows = std::any_of(wan.pairs.begin(), wan.pairs.end(),
                                     [](const auto& entry) { return bool(entry.second.flow); });
      text += "\n" + table(wan, "Mbit/s", pairs([](const Wan::Pair& p) { return mbps(p.rate); }));
      if (flows)
        text += "\n" + table(wan, "Mbit/s a connection",
                             pairs([](const Wan::Pair& p) { return mbps(p.flow); }));
      text +=
          "\n" + table(wan, "ms one way", pairs([](const Wan::Pair& p) { return ms(p.delay_s); }));
    }
  }
  for (const auto& [pair, link] : wan.pairs)
    if (link.relay)
      text += fmt::format("\n{} to {}: through {}, as neither can be dialled\n",
                          wan.sites[pair.first].name, wan.sites[pair.second].name,
                          wan.sites[*link.relay].name);
  for (const Wan::Shared& shared : wan.shared)
    text += fmt::format("\n{}: {} Mbit/s for {} pairs together\n", shared.name,
                        number(flow::in_mbps(shared.rate)), shared.pairs.size());
  return text;
}

}  // namespace longhaul::cli
