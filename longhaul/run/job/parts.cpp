#include "longhaul/run/job/parts.h"

#include <algorithm>
#include <cmath>

#include "longhaul/base/decimal.h"
#include "longhaul/codec/registry.h"
#include "longhaul/flow/capacities.h"
#include "longhaul/learn/data/load.h"
#include "longhaul/learn/models/optimizer_config.h"

namespace longhaul::run {
namespace {

// Returns a part's setting as a whole number: the set value or the default.
std::uint64_t number_of(const Settings& settings, const std::vector<FieldDoc>& docs,
                        std::string_view key, std::uint64_t fallback) {
  const Value* value = nullptr;
  for (const FieldDoc& doc : docs)
    if (doc.field.name == key) value = &doc.data;
  if (const Setting* entry = settings.find(key)) value = &entry->value;
  const auto* number = value ? std::get_if<std::int64_t>(&value->data) : nullptr;
  return number && *number > 0 ? std::uint64_t(*number) : fallback;
}

std::uint64_t batch_of(const Job& job, const SiteTable& site) {
  return site.batch ? *site.batch : number_of(job.data, {}, "batch", 32);
}

// Returns the rate of the local optimiser, set or default; 0 if sites have rates of their own.
double rate_of(const Job& job) {
  if (std::ranges::any_of(job.sites, [](const SiteTable& site) { return site.rate.has_value(); }))
    return 0;
  const Setting* rate = job.optimizer.find("rate");
  if (!rate) return learn::OptimizerConfig{}.rate;
  if (const auto* whole = std::get_if<std::int64_t>(&rate->value.data)) return double(*whole);
  const auto* real = std::get_if<double>(&rate->value.data);
  return real ? *real : 0;
}

std::function<double(std::uint64_t step)> rate_share_of(const Job& job) {
  auto optimizer = learn::read_optimizer(job.optimizer);
  if (!optimizer || !(optimizer->rate > 0)) return {};
  return [config = *std::move(optimizer)](std::uint64_t step) {
    return learn::rate_at(config, step) / config.rate;
  };
}

bool is_plain_sgd(const Job& job) {
  const auto optimizer = learn::read_optimizer(job.optimizer);
  return optimizer && optimizer->kind == "sgd" && optimizer->momentum == 0 &&
         optimizer->decay() == 0;
}

// Returns a maker of transfers, which cannot fail, because one transfer was made before.
std::function<std::unique_ptr<Transfer>()> transfer_maker(const Job& job, const Place& place) {
  return [entry = job.transfer.entry, settings = job.transfer.settings, place] {
    auto made = entry->make(settings, place);
    LH_CHECK(made);
    return std::move(*made);
  };
}

// Returns a maker of codecs.
std::function<std::unique_ptr<Codec>(bool feedback)> codec_maker(const Job& job,
                                                                 const Place& place) {
  return [settings = job.codec.settings, place](bool feedback) {
    auto made = codec::make_codec(settings, place, feedback);
    LH_CHECK(made);
    return std::move(*made);
  };
}

// Returns the steps of all workers in a round, from the configured speeds, for a strategy whose
// fast workers continue until the slowest has taken a step; 0 for other strategies.
std::uint64_t steps_while_waiting(const Job& job) {
  if (std::string_view(job.sync.entry->name) != "esync") return 0;
  const double most =
      double(number_of(job.sync.settings, job.sync.entry->describe(), "max_steps", 1));
  double slowest = 0, steps = 0;
  for (const SiteTable& site : job.sites) slowest = std::max(slowest, site.step_ms);
  for (const SiteTable& site : job.sites)
    if (std::ranges::find(site.roles, "worker") != site.roles.end())
      steps += site.nodes * std::min(most, whole_down(slowest / site.step_ms));
  return std::uint64_t(std::max(1.0, steps));
}

}  // namespace

std::uint64_t samples_per_round(const Job& job) {
  std::uint64_t batches = 0, workers = 0;  // one step of every worker
  for (const SiteTable& site : job.sites) {
    if (std::ranges::find(site.roles, "worker") == site.roles.end()) continue;
    batches += site.nodes * batch_of(job, site);
    workers += site.nodes;
  }
  if (const std::uint64_t steps = steps_while_waiting(job); steps > 0)
    return batches * steps / std::max<std::uint64_t>(1, workers);
  const std::uint64_t steps = number_of(job.sync.settings, job.sync.entry->describe(), "steps", 1);
  return std::max<std::uint64_t>(1, batches * steps);
}

double most_samples_per_s(const Job& job) {
  double most = 0;
  for (const SiteTable& site : job.sites) {
    if (std::ranges::find(site.roles, "worker") == site.roles.end()) continue;
    double step_ms = site.step_ms;
    if (site.step_values) step_ms = std::ranges::min(*site.step_values);
    most += double(site.nodes * batch_of(job, site)) / step_ms * 1000;
  }
  return most;
}

Round report_every(const Job& job) {
  if (job.report.every_rounds) return *job.report.every_rounds;
  const double rounds = double(job.report.every_samples) / double(samples_per_round(job));
  return std::max<Round>(1, Round(std::llround(rounds)));
}

namespace {

bool is_served(const Job& job) {
  return entry_with(*job.sync.entry, job.sync.settings).traits.served;
}

}  // namespace

bool tests_at_sites(const Job& job) {
  if (job.kind("model") == "own") return job.kind("data") == "own" && !is_served(job);
  const auto data = learn::read_data(job.data);
  return data && learn::tests_at_sites(*data);
}

bool models_are_equal(const Job& job) {
  const SyncTraits sync = entry_with(*job.sync.entry, job.sync.settings).traits;
  return sync.bits != Bits::schedule && job.overlay.entry->traits.bits != Bits::schedule &&
         job.transfer.entry->traits.bits != Bits::schedule;
}

StopConfig stop_config(const Job& job, std::uint64_t training_samples, bool phantom) {
  StopConfig stop;
  stop.target_accuracy = job.stop.target_accuracy;
  stop.target_loss = job.stop.target_loss();
  stop.max_rounds = job.stop.max_rounds;
  stop.max_hours = job.stop.max_hours;
  stop.max_samples = std::uint64_t(whole_nearest(job.stop.max_epochs * double(training_samples)));
  stop.report_every = report_every(job);
  stop.lag = job.report.lag;
  stop.snapshots = !phantom;
  return stop;
}

Place place_of(const Job& job, Rank rank, SharedMembers members,
               std::shared_ptr<const Layout> layout, bool phantom) {
  Place place;
  place.self = rank;
  place.members = std::move(members);
  place.layout = std::move(layout);
  place.seed = job.job.seed;
  place.chunk_bytes = job.transfer_common.chunk_kib * 1024;
  place.phantom = phantom;
  place.chunk_run = phantom ? job.transfer_common.chunk_run : 1;
  place.own_tests = !phantom && tests_at_sites(job);
  for (const Rank member : place.members.all())
    if (!job.net.continue_with.empty() && place.member(member).site == job.net.continue_with)
      place.quorum.named.push_back(member);
  place.majority_wait = from_seconds(job.net.majority_wait_s);
  return place;
}

SharedFacts::SharedFacts(const Job& job, std::uint64_t training_samples, bool phantom,
                         double wire_scale)
    : server(job.server()),
      stop(stop_config(job, training_samples, phantom)),
      network(job.believed && wire_scale != 1
                  ? std::make_shared<const flow::Wan>(flow::divided(*job.believed, wire_scale))
                  : job.believed) {}

Result<std::unique_ptr<Overlay>> build_overlay(const Job& job, const Place& place) {
  return build_overlay(job, place, job.server(), job.believed);
}

Result<std::unique_ptr<Overlay>> build_overlay(const Job& job, const Place& place,
                                               std::optional<Rank> server,
                                               std::shared_ptr<const flow::Wan> network) {
  // Made once here, so that make_codec can promise to succeed later.
  LH_LET(codec, codec::make_codec(job.codec.settings, place, true));
  OverlayParts below;
  below.make_codec = codec_maker(job, place);
  if (entry_with(*job.sync.entry, job.sync.settings).traits.exact_means)
    below.make_codec = [make = below.make_codec](bool feedback) {
      return feedback ? make(true) : nullptr;
    };
  LH_LET(transfer, job.transfer.entry->make(job.transfer.settings, place));
  below.transfer = std::move(transfer);
  below.server = server;
  below.network = std::move(network);
  return job.overlay.entry->make(job.overlay.settings, std::move(below), place);
}

namespace {

Result<std::unique_ptr<Strategy>> build_with(const Settings& sync, const Job& job,
                                             const Place& place, const SharedFacts& shared) {
  LH_LET(overlay, build_overlay(job, place, shared.server, shared.network));
  LH_LET(outer, job.outer.entry->make(job.outer.settings, place));
  SyncParts parts{std::move(overlay), std::move(outer), shared.stop};
  parts.make_outer = [entry = job.outer.entry, settings = job.outer.settings, place] {
    auto made = entry->make(settings, place);
    LH_CHECK(made);  // like the one above
    return *std::move(made);
  };
  LH_LET(transfer, job.transfer.entry->make(job.transfer.settings, place));
  parts.transfer = std::move(transfer);
  parts.make_transfer = transfer_maker(job, place);
  parts.make_codec = codec_maker(job, place);
  parts.server = shared.server;
  parts.rate_share = rate_share_of(job);
  std::uint64_t most = 1;
  for (const SiteTable& site : job.sites) most = std::max(most, batch_of(job, site));
  parts.batch = std::uint32_t(most);
  parts.plain_sgd = is_plain_sgd(job);
  parts.codes_down = job.server_table.down_codec == "same";
  parts.standby_every = job.server_table.standby_every;
  parts.standbys = job.server_table.standbys;
  parts.rate = rate_of(job);
  parts.network = shared.network;
  return job.sync.entry->make(sync, std::move(parts), place);
}

}  // namespace

Result<std::unique_ptr<Strategy>> build_strategy(const Job& job, const Place& place,
                                                 std::uint64_t training_samples) {
  return build_strategy(job, place,
                        SharedFacts(job, training_samples, place.phantom, place.wire_scale));
}

Result<std::unique_ptr<Strategy>> build_strategy(const Job& job, const Place& place,
                                                 const SharedFacts& shared) {
  return build_with(job.sync.settings, job, place, shared);
}

std::uint32_t threads_of_lanes(const Job& job) {
  const Setting* threads = job.sync.settings.find("lane_threads");
  const bool* wanted = threads ? std::get_if<bool>(&threads->value.data) : nullptr;
  const auto lanes = std::uint32_t(number_of(job.sync.settings, {}, "lanes", 1));
  return wanted && *wanted && lanes > 1 ? lanes : 0;
}

Result<std::unique_ptr<Strategy>> build_socket_strategy(const Job& job, const Place& place,
                                                        std::uint64_t training_samples) {
  Settings sync = job.sync.settings;
  if (threads_of_lanes(job) > 0) sync.set({"lanes", {std::int64_t{1}}});
  return build_with(sync, job, place,
                    SharedFacts(job, training_samples, place.phantom, place.wire_scale));
}

}  // namespace longhaul::run
