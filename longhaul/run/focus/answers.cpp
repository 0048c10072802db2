#include "longhaul/run/focus/answers.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "longhaul/run/nodes.h"

namespace longhaul::run {
namespace {

using Json = nlohmann::ordered_json;

double in_seconds(std::int64_t ns) { return double(ns) / 1e9; }

Json in_seconds(const std::vector<focus::Interval>& intervals) {
  Json list = Json::array();
  for (const focus::Interval& one : intervals)
    list.push_back({in_seconds(one.from_ns), in_seconds(one.to_ns)});
  return list;
}

std::string_view name_of(focus::Answer::Kind kind) {
  constexpr std::string_view names[] = {"found", "caught_up", "ended", "refused", "taken", "given"};
  return names[std::size_t(kind)];
}

std::string intervals_text(const Json& intervals) {
  std::string text;
  for (const Json& one : intervals)
    text += fmt::format("{}{:.1f}-{:.1f} s", text.empty() ? "" : ", ", one.at(0).get<double>(),
                        one.at(1).get<double>());
  return text;
}

// 0: a part of a cluster whose last part says how many there are.
std::string objects_text(std::uint64_t objects) {
  return objects > 0 ? fmt::format("{} objects", objects) : "part of it";
}

std::string found_text(const Json& answer) {
  std::string text;
  for (const Json& cluster : answer.at("clusters"))
    text += fmt::format("{} cluster {}: {}, {}\n", answer.at("site").get<std::string>(),
                        cluster.at("cluster").get<std::uint64_t>(),
                        objects_text(cluster.at("objects").get<std::uint64_t>()),
                        intervals_text(cluster.at("intervals_s")));
  return text;
}

std::string end_text(const Json& answer) {
  std::string text = answer.at("kind") == "ended" ? "ended" : "up to date";
  if (answer.at("limited").get<bool>()) text += " at the limit";
  std::uint64_t checked = 0, cached = 0;
  for (const Json& site : answer.at("sites")) {
    checked += site.at("checked").get<std::uint64_t>();
    cached += site.at("cached").get<std::uint64_t>();
  }
  text += fmt::format(": {} sites, {} clusters checked, {} known before", answer.at("sites").size(),
                      checked, cached);
  for (const Json& site : answer.at("sites"))
    if (const Json& gaps = site.at("gaps_s"); !gaps.empty())
      text += fmt::format("\n  {} has gaps: {}", site.at("site").get<std::string>(),
                          intervals_text(gaps));
  for (const Json& site : answer.at("missing"))
    text += fmt::format("\n  PARTIAL: {} is missing; last known of it: object {}, {:.1f} s",
                        site.at("site").get<std::string>(), site.at("asof").get<std::uint64_t>(),
                        site.at("asof_s").get<double>());
  return text + "\n";
}

}  // namespace

Json to_json(const focus::Answer& answer, const Members& members) {
  using Kind = focus::Answer::Kind;
  Json json = {{"kind", name_of(answer.kind)}};
  if (answer.kind == Kind::refused) {
    json["why"] = answer.why;
    return json;
  }
  if (answer.kind == Kind::taken) {
    json["site"] = node_name(members.at(answer.site));
    json["model"] = answer.model;
    json["why"] = answer.why;
    return json;
  }
  if (answer.kind == Kind::given) {
    json["model"] = answer.model;
    json["partial"] = !answer.missing.empty() || !answer.why.empty();
    json["missing"] = Json::array();
    for (const focus::MissingSite& site : answer.missing)
      json["missing"].push_back(node_name(members.at(site.site)));
    return json;
  }
  if (answer.kind == Kind::found) {
    json["site"] = node_name(members.at(answer.site));
    json["clusters"] = Json::array();
    for (const focus::FoundCluster& one : answer.clusters)
      json["clusters"].push_back({{"cluster", one.cluster},
                                  {"objects", one.count},
                                  {"intervals_s", in_seconds(one.intervals)}});
    return json;
  }
  json["partial"] = !answer.missing.empty();
  json["limited"] = answer.limited;
  json["sites"] = Json::array();
  for (const focus::SiteEnd& end : answer.ends)
    json["sites"].push_back({{"site", node_name(members.at(end.site))},
                             {"asof", end.asof},
                             {"asof_s", in_seconds(end.asof_ns)},
                             {"checked", end.checked},
                             {"cached", end.cached},
                             {"gaps_s", in_seconds(end.gaps)}});
  json["missing"] = Json::array();
  for (const focus::MissingSite& site : answer.missing)
    json["missing"].push_back({{"site", node_name(members.at(site.site))},
                               {"asof", site.asof},
                               {"asof_s", in_seconds(site.asof_ns)}});
  return json;
}

std::string answer_text(const Json& answer) {
  if (answer.at("kind") == "found") return found_text(answer);
  if (answer.at("kind") == "taken") {
    const auto why = answer.at("why").get<std::string>();
    return fmt::format("{} {} model {}{}\n", answer.at("site").get<std::string>(),
                       why.empty() ? "has" : "REFUSES", answer.at("model").get<std::uint64_t>(),
                       why.empty() ? "" : ": " + why);
  }
  if (answer.at("kind") == "given") {
    std::string text = fmt::format("model {} was given\n", answer.at("model").get<std::uint64_t>());
    for (const Json& site : answer.at("missing"))
      text += fmt::format("  PARTIAL: {} is missing; it asks for the model when it comes back\n",
                          site.get<std::string>());
    return text;
  }
  if (answer.at("kind") == "refused")
    return fmt::format("refused: {}\n", answer.at("why").get<std::string>());
  return end_text(answer);
}

}  // namespace longhaul::run
