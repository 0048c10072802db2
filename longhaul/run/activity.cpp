#include "longhaul/run/activity.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include <nlohmann/json.hpp>

#include "longhaul/run/metrics.h"
#include "longhaul/sim/world.h"

namespace longhaul::run {
namespace {

constexpr std::size_t kMaxLosses = 10000;

nlohmann::ordered_json rounded(const std::vector<double>& values, std::size_t count,
                               double precision) {
  nlohmann::ordered_json list = nlohmann::json::array();
  if (std::all_of(values.begin(), values.end(), [](double value) { return value == 0; }))
    return list;
  for (std::size_t i = 0; i < count; ++i) {
    const double value = std::round(values[i] * precision) / precision;
    if (value == std::floor(value))
      list.push_back(std::int64_t(value));
    else
      list.push_back(value);
  }
  return list;
}

}  // namespace

ActivityLog::ActivityLog(const Members& members, double wire_scale) : wire_scale_(wire_scale) {
  std::map<std::string_view, std::uint32_t> known;
  for (const Member& member : members) {
    const auto [at, is_new] = known.try_emplace(member.site, std::uint32_t(names_.size()));
    if (is_new) names_.push_back(member.site);
    site_of_.push_back(at->second);
  }
  computed_.resize(members.size());
  if (names_.size() > kMaxSites) return;
  sites_.resize(names_.size());
  links_.resize(names_.size() * names_.size());
}

void ActivityLog::cover(double time_s) {
  while (time_s >= bin_s_ * double(kBins)) {
    for (Site& site : sites_)
      for (std::vector<double>* bins : {&site.computing, &site.sent}) {
        for (std::size_t i = 0; i < kBins / 2; ++i)
          (*bins)[i] = (*bins)[2 * i] + (*bins)[2 * i + 1];
        std::fill(bins->begin() + std::ptrdiff_t(kBins / 2), bins->end(), 0.0);
      }
    bin_s_ *= 2;
  }
}

void ActivityLog::acted(Time at, Rank rank, const Action& action) {
  const auto* send = std::get_if<Send>(&action);
  if (!send || !kept()) return;
  const std::uint32_t from = site_of_[rank], to = site_of_[send->to];
  if (from == to) return;
  const double time = exact_seconds(at);
  cover(time);
  const double bytes =
      double(send->message.head.size()) + double(send->message.body.size()) * wire_scale_;
  sites_[from].sent[std::size_t(time / bin_s_)] += bytes;
  links_[from * names_.size() + to] += bytes;
}

// A step that has ended took the time before now.
Status ActivityLog::after(const sim::World& world, Rank rank) {
  if (!kept()) return Ok{};
  const double all = exact_seconds(world.figures(rank).computing);
  if (all <= computed_[rank]) return Ok{};
  const double end = exact_seconds(world.now());
  computed(rank, end - (all - computed_[rank]), end);
  computed_[rank] = all;
  return Ok{};
}

void ActivityLog::computed(Rank rank, double begin, double end) {
  if (!kept()) return;
  cover(end);
  std::vector<double>& bins = sites_[site_of_[rank]].computing;
  for (auto bin = std::size_t(std::max(begin, 0.0) / bin_s_);
       bin < kBins && double(bin) * bin_s_ < end; ++bin)
    bins[bin] += std::max(
        0.0, std::min(end, double(bin + 1) * bin_s_) - std::max(begin, double(bin) * bin_s_));
}

void ActivityLog::crashed(Time at, Rank rank) {
  if (losses_.size() < kMaxLosses) losses_.push_back({site_of_[rank], rank, exact_seconds(at), -1});
}

void ActivityLog::restarted(Time at, Rank rank) {
  for (Loss& loss : losses_)
    if (loss.rank == rank && loss.to < 0) loss.to = exact_seconds(at);
}

// The job may have got sites since, behind all others.
void ActivityLog::state(Archive& ar) {
  ar(bin_s_, sites_, computed_, links_, losses_);
  if (!ar.loading() || ar.failed()) return;
  computed_.resize(site_of_.size());
  const std::size_t before = sites_.size(), now = names_.size();
  if (!kept() || before >= now || links_.size() != before * before) return;
  std::vector<double> links(now * now);
  for (std::size_t from = 0; from < before; ++from)
    for (std::size_t to = 0; to < before; ++to) links[from * now + to] = links_[from * before + to];
  links_ = std::move(links);
  sites_.resize(now);
}

namespace {

bool is_list(const nlohmann::ordered_json& object, const char* key) {
  return object.is_object() && object.contains(key) && object[key].is_array();
}

void read_bins(const nlohmann::ordered_json& site, const char* key, std::vector<double>& bins) {
  if (!is_list(site, key)) return;
  for (std::size_t i = 0; i < std::min(bins.size(), site[key].size()); ++i)
    if (site[key][i].is_number()) bins[i] = site[key][i].get<double>();
}

}  // namespace

void ActivityLog::take_up(const nlohmann::ordered_json& before) {
  if (!is_list(before, "sites") || !is_list(before, "links") || !before.contains("bin_s")) return;
  const auto& bin = before["bin_s"];
  if (before["sites"].size() != sites_.size() || !bin.is_number() || !(bin >= bin_s_)) return;
  bin_s_ = bin.get<double>();
  for (std::uint32_t i = 0; i < sites_.size(); ++i) {
    const auto& site = before["sites"][i];
    read_bins(site, "computing", sites_[i].computing);
    read_bins(site, "sent", sites_[i].sent);
    if (!is_list(site, "lost")) continue;
    const auto first = Rank(std::ranges::find(site_of_, i) - site_of_.begin());
    for (const auto& loss : site["lost"])
      if (loss.is_array() && loss.size() == 2 && loss[0].is_number() && loss[1].is_number())
        losses_.push_back({i, first, loss[0].get<double>(), loss[1].get<double>()});
  }
  for (const auto& link : before["links"]) {
    if (!link.is_array() || link.size() != 3 || !link[2].is_number()) continue;
    if (!link[0].is_number_unsigned() || !link[1].is_number_unsigned()) continue;
    const auto from = link[0].get<std::size_t>(), to = link[1].get<std::size_t>();
    if (from < names_.size() && to < names_.size())
      links_[from * names_.size() + to] = link[2].get<double>();
  }
}

nlohmann::ordered_json ActivityLog::to_json(Time end) const {
  nlohmann::ordered_json json = {
      {"bin_s", bin_s_}, {"sites", nlohmann::json::array()}, {"links", nlohmann::json::array()}};
  const auto count = std::min(kBins, std::size_t(exact_seconds(end) / bin_s_) + 1);
  for (std::size_t i = 0; i < sites_.size(); ++i) {
    nlohmann::ordered_json lost = nlohmann::json::array();
    for (const Loss& loss : losses_)
      if (loss.site == i)
        lost.push_back({loss.from, loss.to < 0 ? nlohmann::ordered_json(nullptr)
                                               : nlohmann::ordered_json(loss.to)});
    json["sites"].push_back({{"name", names_[i]},
                             {"nodes", std::count(site_of_.begin(), site_of_.end(), i)},
                             {"computing", rounded(sites_[i].computing, count, 1e6)},
                             {"sent", rounded(sites_[i].sent, count, 1)},
                             {"lost", std::move(lost)}});
  }
  for (std::size_t i = 0; i < links_.size(); ++i)
    if (links_[i] > 0)
      json["links"].push_back(
          {i / names_.size(), i % names_.size(), std::int64_t(std::llround(links_[i]))});
  return json;
}

}  // namespace longhaul::run
