#include "tests/job_builder.h"

#include <cmath>
#include <set>

#include "longhaul/codec/registry.h"
#include "longhaul/flow/wan.h"
#include "longhaul/overlay/registry.h"
#include "longhaul/sim/phantom.h"

namespace longhaul::conformance {
namespace {

using flow::bytes_per_second;
using testing::Quadratic;
using namespace std::chrono_literals;

// Of strategies that take factors or parts: a fully connected layer of the learner.
constexpr Quadratic::Config kFactored{.out = 8, .in = 16};
constexpr float kStart = 6, kSlope = 1e-5f, kRate = 0.1f;

float target_of(Rank rank) { return float(rank) - 0.3f * float(rank * rank); }

double mean_target(std::uint32_t workers) {
  double sum = 0;
  for (Rank rank = 0; rank < workers; ++rank) sum += double(target_of(rank));
  return sum / workers;
}

template <class T>
T value_of(Result<T> result) {
  if (!result) std::fprintf(stderr, "%s\n", result.error().what.c_str());
  LH_CHECK(result);
  return *std::move(result);
}

Settings table(std::string name, std::string_view kind, std::vector<Setting> entries) {
  entries.push_back({"kind", {std::string(kind)}});
  return {std::move(name), "test.toml", 0, std::move(entries)};
}

// What they believe is not how it is: a row of sites, those of even numbers before those of odd
// ones, with thin pairs beside it.
std::shared_ptr<const flow::Wan> believed_network(const Place& place) {
  auto wan = std::make_shared<flow::Wan>();
  std::set<std::string> names;
  for (const Member& member : *place.members)
    if (names.insert(member.site).second) {
      const double rate = 1e6 * double(1 + names.size() % 3);
      wan->sites.push_back({.name = member.site, .up = rate, .down = 3e6, .lan = {}});
    }
  wan->usual = {.rate = 3e4, .delay_s = 0.02};
  std::vector<std::uint32_t> row;
  for (const std::uint32_t first : {0u, 1u})
    for (std::uint32_t site = first; site < wan->sites.size(); site += 2) row.push_back(site);
  for (std::size_t i = 0; i + 1 < row.size(); ++i)
    wan->pairs[{row[i], row[i + 1]}] =
        wan->pairs[{row[i + 1], row[i]}] = {.rate = 1e6, .delay_s = 0.03};
  return wan;
}

// What overlays and strategies that talk to a server need alike.
template <class Parts>
void add_links(const JobSpec& spec, const Place& place, Parts& parts) {
  const auto& transfer = spec.parts.transfer;
  parts.transfer = value_of(
      transfer.entry->make(table("transfer", transfer.entry->name, transfer.settings), place));
  parts.make_codec = [codec = spec.parts.codec, place](bool feedback) {
    Settings settings = table("codec", codec.entry->name, codec.settings);
    for (const Setting& small : codec.entry->small)
      if (!settings.find(small.key)) settings.set(small);
    return value_of(codec::make_codec(settings, place, feedback));
  };
  if (spec.server_apart) parts.server = spec.workers;
}

std::unique_ptr<Overlay> make_overlay(const JobSpec& spec, const Place& place) {
  OverlayParts parts;
  add_links(spec, place, parts);
  if (traits_of(spec.parts.sync).exact_means)
    parts.make_codec = [make = parts.make_codec](bool feedback) {
      return feedback ? make(true) : nullptr;
    };
  parts.network = spec.phantom ? nullptr : believed_network(place);
  const auto& overlay = spec.parts.overlay;
  return value_of(overlay.entry->make(table("overlay", overlay.entry->name, overlay.settings),
                                      std::move(parts), place));
}

}  // namespace

std::unique_ptr<Strategy> make_strategy(const JobSpec& spec, const Place& place) {
  SyncParts parts;
  parts.overlay = make_overlay(spec, place);
  const auto& outer = spec.parts.outer;
  parts.outer =
      value_of(outer.entry->make(table("outer", outer.entry->name, outer.settings), place));
  parts.make_outer = [outer, place] {
    return value_of(outer.entry->make(table("outer", outer.entry->name, outer.settings), place));
  };
  add_links(spec, place, parts);
  parts.make_transfer = [transfer = spec.parts.transfer, place] {
    const Settings settings = table("transfer", transfer.entry->name, transfer.settings);
    return value_of(transfer.entry->make(settings, place));
  };
  for (const Setting& setting : spec.parts.overlay.settings)
    parts.codes_down |= setting.key == "down_codec" && spec.parts.codec.entry->traits.close;
  parts.standby_every = spec.standby_every;
  parts.standbys = spec.standbys;
  parts.rate = kRate;
  parts.batch = std::max(kFactored.factor_rows(), 32u);
  parts.plain_sgd = spec.momentum == 0;
  parts.network = spec.phantom ? nullptr : believed_network(place);
  parts.stop = spec.stop;
  parts.stop.max_rounds = spec.rounds;
  parts.stop.snapshots = !spec.phantom;
  const auto& sync = spec.parts.sync;
  Settings settings = table("sync", sync.entry->name, sync.settings);
  for (const FieldDoc& doc : sync.entry->describe())
    if (doc.field.name == "steps") settings.set({"steps", {std::int64_t(spec.steps)}});
  for (const Setting& small : sync.entry->small)
    if (!settings.find(small.key)) settings.set(small);
  return value_of(sync.entry->make(settings, std::move(parts), place));
}

std::unique_ptr<Overlay> plain_overlay(std::string_view kind, std::vector<Setting> settings,
                                       const Place& place,
                                       std::shared_ptr<const flow::Wan> network) {
  OverlayParts parts;
  parts.transfer =
      value_of(transfer_variants().at(0).entry->make(table("transfer", "reliable", {}), place));
  parts.make_codec = [place](bool feedback) {
    return value_of(codec::make_codec(table("codec", "fp32", {}), place, feedback));
  };
  parts.network = std::move(network);
  Settings own = table("overlay", kind, std::move(settings));
  const auto* const entry = value_of(find_entry(overlay::registry(), own, kind));
  return value_of(entry->make(own, std::move(parts), place));
}

std::unique_ptr<Learner> make_learner(const JobSpec& spec, Rank rank) {
  if (spec.phantom) return std::make_unique<sim::PhantomLearner>(Layout::flat(spec.size), 32, 6400);
  const std::string_view asks = spec.parts.sync.entry->traits.asks;
  const bool in_parts = asks == "backward part";
  const bool factored = in_parts || asks == "sufficient factors";
  // A matrix where that comes out even: what factors matrices has something to do.
  constexpr std::int64_t kColumns = 16;
  const bool even = (spec.size - spec.buffers) % std::uint64_t(kColumns) == 0;
  return std::make_unique<Quadratic>(
      spec.size, Quadratic::Config{.target = spec.target.value_or(target_of(rank)),
                                   .slope = kSlope,
                                   .start = kStart,
                                   .rate = kRate,
                                   .momentum = spec.momentum,
                                   .samples = spec.equal_samples ? 4 : rank + 1,
                                   .columns = even && !factored ? kColumns : 0,
                                   .buffers = spec.buffers,
                                   .out = factored ? kFactored.out : 0,
                                   .in = factored ? kFactored.in : 0,
                                   .layer_last = in_parts});
}

Result<Evaluation> score_of(std::span<const float> x) {
  return Evaluation{.loss = double(x[0]), .accuracy = 0.5, .samples = 1};
}

Members members_of(const JobSpec& spec) {
  Members members;
  for (Rank rank = 0; rank < spec.workers; ++rank) {
    const bool shares = spec.workers == 5 && rank == 4 && !spec.one_site_each;
    const std::uint32_t site = shares ? 3 : rank / spec.nodes;
    members.push_back({"site" + std::to_string(site), shares ? 1 : rank % spec.nodes, 0,
                       std::uint8_t(Role::worker)});
  }
  if (spec.server_apart) members.push_back({"server", 0, 0, std::uint8_t(Role::server)});
  if (spec.witness) members.push_back({"witness", 0, 0, std::uint8_t(Role::witness)});
  return members;
}

Tables unequal_tables(const Members& members) {
  Tables tables;
  std::map<std::string, std::uint32_t> sites;
  for (Rank rank = 0; rank < members.size(); ++rank) {
    const auto site = sites.emplace(members[rank].site, std::uint32_t(sites.size())).first->second;
    tables.network.site_of.push_back(site);
    tables.speeds.push_back({10ms * (1 + 3 * rank), sim::JitteredSteps::Jitter::lognormal, 0.2});
  }
  tables.network.link = {bytes_per_second(200), 10ms};
  for (std::uint32_t site = 0; site < sites.size(); ++site) {
    tables.network.sites.push_back({bytes_per_second(80.0 / (site + 1)),
                                    bytes_per_second(120.0 / (site + 1)), bytes_per_second(1000),
                                    100us});
    tables.network.links[{site, (site + 1) % std::uint32_t(sites.size())}] = {
        bytes_per_second(20.0 + 7 * site), 5ms * (site + 1)};
  }
  return tables;
}

Tables equal_tables(std::uint32_t sites, double mbps, Time delay, Time step) {
  Tables tables;
  const sim::Rate rate = bytes_per_second(mbps);
  tables.network.sites.assign(sites, {rate, rate, {}, 0ms});
  for (std::uint32_t site = 0; site < sites; ++site) tables.network.site_of.push_back(site);
  tables.speeds.assign(sites, {step, sim::JitteredSteps::Jitter::none, 0});
  tables.network.link = {{}, delay};
  return tables;
}

Tables random_tables(const JobSpec& spec, Random& random, std::uint64_t step_ms, std::uint64_t mbps,
                     std::uint64_t delay_ms) {
  Tables tables = unequal_tables(members_of(spec));
  for (auto& speed : tables.speeds)
    speed.mean = std::chrono::milliseconds(1 + random.below(step_ms));
  for (Rank from = 0; from < spec.workers; ++from)
    for (Rank to = 0; to < spec.workers; ++to)
      tables.network.links[{from, to}] = {bytes_per_second(1 + double(random.below(mbps))),
                                          std::chrono::milliseconds(1 + random.below(delay_ms))};
  return tables;
}

Tables false_tables(const Members& members) {
  Tables tables = unequal_tables(members);
  std::reverse(tables.speeds.begin(), tables.speeds.end());
  std::reverse(tables.network.sites.begin(), tables.network.sites.end());
  for (auto& [way, link] : tables.network.links)
    link = {bytes_per_second(3 + 40.0 * way.second), 31ms};
  tables.network.link = {bytes_per_second(9), 1ms};
  return tables;
}

void Witness::mix(std::span<const std::byte> bytes) {
  for (std::byte b : bytes) hash_ = (hash_ ^ std::uint64_t(b)) * 1099511628211u;
}

void Witness::acted(Time now, Rank rank, const Action& action) {
  mix(now.count());
  mix(rank);
  mix(std::uint32_t(action.index()));
  if (const auto* s = std::get_if<Send>(&action)) {
    bytes_[{rank, s->to}] += frame_size(s->message);
    largest_body_ = std::max<std::uint64_t>(largest_body_, s->message.body.size());
    mix(s->to);
    mix(s->message.machine.bits());
    mix(s->message.kind);
    mix(s->message.head.view());
    mix(s->message.body.size());
    // Every eighth byte of bulk: what matters is that it is the same, and there is much of it.
    if (!s->message.body.is_phantom()) {
      const auto body = s->message.body.view();
      for (std::size_t i = 0; i + 4 <= body.size(); i += 32) mix(body.subspan(i, 4));
    }
  } else if (const auto* r = std::get_if<Record>(&action)) {
    mix(r->round);
    mix(r->value);
  } else if (const auto* t = std::get_if<SetTimer>(&action)) {
    mix(t->at.count());
  }
}

std::uint64_t Witness::bytes(Rank from, Rank to) const {
  const auto found = bytes_.find({from, to});
  return found == bytes_.end() ? 0 : found->second;
}

std::uint64_t Witness::bytes_from(Rank from) const {
  std::uint64_t sum = 0;
  for (const auto& [way, bytes] : bytes_) sum += way.first == from ? bytes : 0;
  return sum;
}

std::uint64_t Witness::bytes_to(Rank to) const {
  std::uint64_t sum = 0;
  for (const auto& [way, bytes] : bytes_) sum += way.second == to ? bytes : 0;
  return sum;
}

Job::Job(const JobSpec& spec) : spec_(spec) {
  const Members members = members_of(spec);
  const Tables tables = spec.tables ? *spec.tables : unequal_tables(members);
  std::unique_ptr<sim::Network> network = std::make_unique<sim::FifoNetwork>(tables.network);
  if (spec.wrap) network = spec.wrap(std::move(network));
  world_ = std::make_unique<sim::World>(
      spec.world, std::move(network),
      std::make_unique<sim::JitteredSteps>(spec.seed, tables.speeds),
      [](Rank, std::span<const float> model) { return score_of(model); });
  world_->watch(witness_);
  sim::Observer observer;
  observer.on_bad_message = [this](Time, Rank at, Rank from, const Error& error) {
    bad_messages.push_back("rank " + std::to_string(at) + " of " + std::to_string(from) + ": " +
                           error.what);
  };
  world_->observe(std::move(observer));
  Place place{.members = std::make_shared<const Members>(members),
              .seed = spec.seed,
              .chunk_bytes = spec.chunk_bytes,
              .phantom = spec.phantom,
              .chunk_run = spec.chunk_run};
  for (place.self = 0; place.self < members.size(); ++place.self) add_node(spec, place);
  for (const sim::Fault& fault : spec.faults) world_->inject(fault);
  start_distance_ = distance();
}

Status Job::run() {
  const auto ended = world_->run();
  if (!ended) return ended.error();
  LH_CHECK(*ended == sim::World::Ended::finished);
  return Ok{};
}

bool Job::step() {
  const auto went = world_->step();
  if (!went) failure_ = went.error();
  return went && *went;
}

void Job::kill(Rank rank, std::uint64_t events) {
  sim::Fault dies = crash(rank, world_->counters().events + events);
  dies.at = sim::kForever;
  world_->inject(dies);
}

bool Job::declared_lost(Rank lost) const {
  for (Rank rank = 0; rank < world_->size(); ++rank)
    if (rank != lost && !world_->figures(rank).crashed && world_->node(rank).view().has(lost))
      return false;
  return world_->figures(lost).crashed;
}

std::uint32_t Job::living() const {
  std::uint32_t living = 0;
  for (Rank rank = 0; rank < world_->size(); ++rank) living += !world_->figures(rank).crashed;
  return living;
}

void Job::add_node(const JobSpec& spec, const Place& like) {
  Place place = like;
  const bool worker = place.me().is(Role::worker);
  if (worker) learners_.push_back(new_learner(place.self));
  place.layout = learners_.front()->layout();
  auto strategy = make_strategy(spec, place);
  world_->add(place, std::move(strategy), worker ? learners_.back().get() : nullptr);
}

std::unique_ptr<Learner> Job::new_learner(Rank rank) const {
  auto learner = make_learner(spec_, rank);
  return spec_.watch ? spec_.watch(std::move(learner), rank) : std::move(learner);
}

void Job::restart(Rank rank, bool forgets) {
  Place place = world_->node(rank).place();
  Members members = *place.members;
  ++members[rank].incarnation;
  place.members = std::make_shared<const Members>(std::move(members));
  const bool worker = place.me().is(Role::worker);
  if (worker) learners_.at(rank) = new_learner(rank);
  world_->restart(place, make_strategy(spec_, place), worker ? learners_[rank].get() : nullptr,
                  forgets);
}

std::uint64_t events_of(const JobSpec& spec) {
  Job job(spec);
  LH_CHECK(job.run());
  return job.world().counters().events;
}

JobSpec alone(JobSpec spec) {
  spec.target = float(mean_target(spec.workers));
  spec.workers = 1;
  spec.server_apart = spec.witness = false;
  return spec;
}

std::vector<float> Job::params(Rank rank) const {
  const auto x = learners_.at(rank)->params();
  return {x.begin(), x.end()};
}

std::vector<double> Job::optimum() const {
  const double mean = spec_.target ? double(*spec_.target) : mean_target(spec_.workers);
  std::vector<double> best(spec_.size - spec_.buffers);
  for (std::size_t i = 0; i < best.size(); ++i) best[i] = mean + double(kSlope) * double(i);
  return best;
}

double Job::distance() const {
  if (spec_.phantom) return 0;
  const auto x = params(0);
  const auto best = optimum();
  double sum = 0;
  for (std::size_t i = 0; i < best.size(); ++i) sum += std::pow(double(x[i]) - best[i], 2);
  return std::sqrt(sum);
}

double Job::direction() const {
  const auto x = params(0);
  const auto best = optimum();
  double dot = 0, gone = 0, way = 0;
  for (std::size_t i = 0; i < best.size(); ++i) {
    const double a = double(x[i]) - kStart, b = best[i] - kStart;
    dot += a * b;
    gone += a * a;
    way += b * b;
  }
  return dot / std::sqrt(gone * way);
}

bool Job::all_equal() const {
  std::optional<Rank> first;
  for (Rank rank = 0; rank < spec_.workers; ++rank) {
    if (world_->figures(rank).crashed) continue;
    if (!first) first = rank;
    const auto a = learners_[*first]->params(), b = learners_[rank]->params();
    if (!std::equal(a.begin(), a.end(), b.begin(), b.end())) return false;
  }
  return true;
}

std::size_t Job::largest_node_state() const {
  std::size_t most = 0;
  for (Rank rank = 0; rank < world_->size(); ++rank) {
    Archive ar;
    const_cast<Node&>(world_->node(rank)).state(ar);  // saving changes nothing
    most = std::max(most, ar.take().size());
  }
  return most;
}

Buffer Job::save() {
  Archive ar;
  world_->state(ar);
  return ar.take();
}

void Job::load(const Buffer& bytes) {
  Archive ar(bytes);
  world_->state(ar);
  const Status status = ar.finish();
  if (!status) std::fprintf(stderr, "%s\n", status.error().what.c_str());
  LH_CHECK(status);
}

}  // namespace longhaul::conformance
