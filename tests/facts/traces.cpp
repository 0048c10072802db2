#include <fmt/format.h>
#include <xxhash.h>

#include "longhaul/record/entries.h"
#include "tests/facts/facts.h"
#include "tests/job_builder.h"

namespace longhaul::facts {
namespace {

using namespace conformance;
using namespace std::chrono_literals;

constexpr Rank kLost = 1;

class TraceHash final : public sim::Watcher {
 public:
  void acted(Time now, Rank rank, const Action& action) override {
    const auto* fail = std::get_if<Fail>(&action);  // without the words of its error
    mix(now.count(), rank,
        fail ? std::uint64_t(fail->error.kind) : record::answer_of(action, nullptr).hash);
  }
  void state(Archive& ar) override { ar(hash_); }

  std::uint64_t with_models(const Job& job, std::uint32_t workers) const {
    std::uint64_t hash = hash_;
    for (Rank rank = 0; rank < workers; ++rank) {
      const std::vector<float> params = job.params(rank);
      hash = XXH3_64bits_withSeed(params.data(), params.size() * sizeof(float), hash);
    }
    return hash;
  }

 private:
  template <class... Number>
  void mix(Number... numbers) {
    ((hash_ = XXH3_64bits_withSeed(&numbers, sizeof numbers, hash_)), ...);
  }
  std::uint64_t hash_ = 0;
};

struct Run {
  explicit Run(const JobSpec& wanted) : spec(wanted), job(wanted) { job.world().watch(hash); }
  // Until `holds` or the end; false: the end.
  template <class Holds>
  bool until(const Holds& holds) {
    while (!holds()) {
      const Result<bool> more = job.world().step();
      if (!more) failure = more.error().kind;
      if (!more || !*more) return false;
    }
    return true;
  }
  bool until_event(std::uint64_t event) {
    return until([&] { return job.world().counters().events >= event; });
  }
  bool until_loss_is_agreed() {
    return until([&] {
      bool agreed = job.world().figures(kLost).crashed;
      for (Rank rank = 0; rank < job.world().size(); ++rank)
        agreed = agreed && (rank == kLost || !job.world().node(rank).view().has(kLost));
      return agreed;
    });
  }
  std::string end() {
    until([] { return false; });
    return fmt::format("{}, {} events, {} refused messages, {}, {:016x}",
                       failure ? fmt::format("error {}", int(*failure)) : "finished",
                       job.world().counters().events, job.bad_messages.size(),
                       record::describe(job.world().now()), hash.with_models(job, spec.workers));
  }

  JobSpec spec;
  TraceHash hash;
  Job job;
  std::optional<Error::Kind> failure;
};

void print_case(const Combination& parts, const char* what, const std::string& value) {
  fmt::print("{} {} {} {} {} {}: {}\n", parts.sync.name(), parts.overlay.name(),
             parts.transfer.name(), parts.codec.name() + (parts.codec.feedback ? "+feedback" : ""),
             parts.outer.name(), what, value);
}

// Five workers at four sites and what happens in the run:
//   whole    nothing
//   apart    nothing; one more site serves and does not train
//   loss     worker 1 is lost after a third of the events
//   resume   that, and after half of them a new world loads the state of the old one
//   return   that worker is lost, and returns when all others have agreed on the loss
//   standby  worker 0, which serves, is lost; another one follows it
void print_cases(const Combination& parts) {
  JobSpec spec{
      .parts = parts, .workers = 5, .size = 4 * 128 + 69, .equal_samples = false, .rounds = 3};
  spec.world.detect = 20ms;
  spec.world.patience = 60s;
  JobSpec apart = spec;
  apart.server_apart = true;
  print_case(parts, "apart", Run(apart).end());
  Run whole(spec);
  print_case(parts, "whole", whole.end());
  const std::uint64_t events = whole.job.world().counters().events;
  const auto lose = [&](Rank rank) {
    spec.faults = {{.kind = sim::Fault::Kind::crash, .rank = rank, .at_event = events / 3}};
  };
  lose(kLost);
  print_case(parts, "loss", Run(spec).end());

  Run first(spec), second(spec);
  if (first.until_event(events / 2)) second.job.load(first.job.save());
  print_case(parts, "resume", second.end());

  if (traits_of(parts.sync).lets_return) {
    Run returning(spec);
    if (returning.until_loss_is_agreed() &&
        returning.until_event(returning.job.world().counters().events + 7))
      returning.job.restart(kLost);
    print_case(parts, "return", returning.end());
  }
  if (traits_of(parts.sync).served) {
    spec.standby_every = 1;
    lose(0);
    print_case(parts, "standby", Run(spec).end());
  }
}

// Every strategy with every overlay; every other setting of a part, and every other part, with the
// first that it can be combined with.
std::vector<Combination> combinations() {
  std::vector<Combination> all;
  const auto add_first_legal = [&](auto&& make) {
    for (const auto& overlay : overlay_variants()) {
      const Combination one = make(overlay);
      if (refusal(one)) continue;
      all.push_back(one);
      return;
    }
  };
  const auto fedavg = variant_named(sync_variants(), "fedavg");
  for (const auto& sync : sync_variants()) {
    for (const auto& overlay : overlay_variants())
      if (sync.number == 0 && overlay.number == 0) all.push_back(plain(sync, overlay));
    if (sync.number > 0) add_first_legal([&](const auto& overlay) { return plain(sync, overlay); });
  }
  for (const auto& overlay : overlay_variants())
    if (overlay.number > 0) all.push_back(plain(fedavg, overlay));
  const auto add_each = [&](const auto& variants, auto Combination::*part) {
    for (std::size_t i = 1; i < variants.size(); ++i)
      add_first_legal([&](const auto& overlay) {
        Combination one = plain(fedavg, overlay);
        one.*part = variants[i];
        return one;
      });
  };
  add_each(transfer_variants(), &Combination::transfer);
  add_each(codec_variants(), &Combination::codec);
  add_each(outer_variants(), &Combination::outer);
  return all;
}

}  // namespace

void print_traces(unsigned index, unsigned shares) {
  const std::vector<Combination> all = combinations();
  for (std::size_t i = index; i < all.size(); i += shares) {
    if (const auto illegal = refusal(all[i]))
      print_case(all[i], "refused",
                 illegal->table.empty() ? "settings" : std::string(illegal->table));
    else
      print_cases(all[i]);
  }
}

}  // namespace longhaul::facts
