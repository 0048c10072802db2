#include "longhaul/sync/sfb/explain.h"

#include <fmt/format.h>

#include "longhaul/sync/sfb/rule.h"

namespace longhaul::sync::sfb {
namespace {

std::string how_they_spread(const Config& config, std::uint32_t workers, Spread spread) {
  switch (spread) {
    case Spread::full:
      return "each worker sends its own to all others";
    case Spread::tree:
      return "workers pass them on, in a binomial tree";
    case Spread::site:
      return "one worker of each other site passes them on there";
    case Spread::partial:
      return fmt::format(
          "each worker sends its own to {} others in a clock, to all in {} clocks; models are "
          "averaged every {} clocks",
          partial_peers(config.partial_peers, workers),
          partial_cycle(config.partial_peers, workers), config.mean_every);
  }
  return {};
}

}  // namespace

Explanation explain_layers(const Config& config, const Parts& parts, const Layout& layout,
                           std::uint32_t batch, std::uint32_t workers, Spread spread) {
  Explanation said;
  Explanation::Table table{
      .title = "Fully connected layers, bytes that a worker sends in a clock as fp32",
      .head = {"layer", "outputs", "inputs", "goes as", "factors MB", "matrix MB", "most rows"},
      .rows = {}};
  double factors = 0, matrices = 0, dense = 0;
  std::size_t factored = 0;
  for (std::uint32_t i = 0; i < layout.layers().size(); ++i) {
    const LayerRange& layer = layout.layers()[i];
    if (layer.linear != LayerRange::Linear::weight) continue;
    const LayerShape shape = shape_of(std::uint64_t(layer.shape[0]), std::uint64_t(layer.shape[1]),
                                      batch, workers, config);
    const bool as_factors = std::ranges::count(parts.layers(), i, &FactorLayer::entry) > 0;
    const double as_is = 4e-6 * factor_numbers(shape), whole = 4e-6 * matrix_numbers(shape);
    factored += as_factors ? 1 : 0;
    (as_factors ? factors : dense) += as_factors ? as_is : whole;
    matrices += whole;
    table.rows.push_back({layer.name, fmt::format("{}", shape.out), fmt::format("{}", shape.in),
                          as_factors ? "factors" : "matrix", fmt::format("{:.3g}", as_is),
                          fmt::format("{:.3g}", whole), fmt::format("{:.0f}", most_rows(shape))});
  }
  if (table.rows.empty()) {
    said.lines.push_back(
        "No fully connected layer of this model is known: the whole gradient goes as a mean.");
    return said;
  }
  said.lines.push_back(fmt::format(
      "{} of {} fully connected layers go as factors of {} rows (rule = \"{}\", {} workers): "
      "{:.3g} MB in place of {:.3g} MB from each worker in a clock.",
      factored, table.rows.size(), batch, config.rule, workers, factors + dense, matrices));
  if (factored > 0)
    said.lines.push_back(fmt::format("Factors: {}.", how_they_spread(config, workers, spread)));
  if (config.wait_free)
    said.lines.push_back(
        "wait_free: a layer leaves when the backward pass has reached it, the output's first.");
  said.tables.push_back(std::move(table));
  return said;
}

}  // namespace longhaul::sync::sfb
