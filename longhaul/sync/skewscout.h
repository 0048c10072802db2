#pragma once
// SkewScout tunes how much another strategy communicates. Now and then the model of each site
// visits another one and is scored on that one's training data. Where it is worse there than at
// home, the replicas have drifted apart because their data differ: tighten; else loosen.
//   Hsieh, Phanishayee, Mutlu, Gibbons, "The non-IID data quagmire of decentralized machine
//   learning", ICML 2020. The objective follows summaries of the paper; the search, the protocol
//   and what a loss does are ours. Nothing of the tuner was released.
//
// The tuned strategy is a child. When one of its computations ends it is told so only after this
// node's travels begin and its visitors are scored: meanwhile it believes that it computes, and the
// parameters are nobody's. Scoring leaves the learner as it was.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <deque>

#include "longhaul/core/registry.h"
#include "longhaul/core/vector_channel.h"
#include "longhaul/sync/entry.h"
#include "longhaul/sync/fedavg.h"
#include "longhaul/sync/flat.h"
#include "longhaul/sync/gaia.h"
#include "longhaul/sync/skewscout/headers.h"
#include "longhaul/sync/skewscout/search.h"
#include "longhaul/sync/skewscout/tally.h"
#include "longhaul/sync/tunable.h"

namespace longhaul::sync {

class SkewScout final : public Strategy {
 public:
  static SyncEntry entry() {
    SyncTraits traits = Gaia::entry().traits;
    traits.bits = Bits::schedule;
    traits.lets_return = false;
    traits.asks = "score";
    return strategy_entry<SkewScout>(
        {.name = "skewscout",
         .summary = "tune gaia or fedavg by how much accuracy models lose at other sites",
         .traits = traits,
         .small = {{"travel_every", {std::int64_t(2)}}, {"announce", {std::int64_t(1)}}},
         .costs = {{.rounds = "as the tuned strategy",
                    .sent = "S in each travel (500 steps) beside it",
                    .waits_for = "as it; fedavg for the outcome of a travel",
                    .staleness = "as it",
                    .memory = "own model, a visitor of each peer at most: n S",
                    .when_lost = "as it; the travel is void"}},
         .adapt = adapt_skewscout},
        SkewScout::make);
  }

  struct Config {
    std::string strategy = "gaia";
    std::vector<std::string> with = {};
    std::uint64_t travel_every = 500;
    double tolerance = 0.05;
    double loss_weight = 50;
    double cost_weight = 1;
    std::vector<double> grid = {};
    std::uint32_t start = 0;
    std::uint64_t forget = 10;
    std::uint64_t announce = 20;
    bool watch_home = false;

    static void fields(auto& self, auto&& visit) {
      LONGHAUL_KEY(strategy, "what is tuned: the significance of gaia, the steps of fedavg",
                   .choices = {"gaia", "fedavg"});
      LONGHAUL_KEY(with, "settings of the tuned strategy, each \"key = value\"");
      LONGHAUL_KEY(travel_every, "models travel after so many local steps", .min = 1, .max = 1e12,
                   .unit = "steps");
      LONGHAUL_KEY(tolerance, "loss of accuracy, 0 to 1, that is no reason to tighten", .min = 0,
                   .max = 1);
      LONGHAUL_KEY(loss_weight, "weight of the loss of accuracy beyond it", .min = 0, .max = 1e9);
      LONGHAUL_KEY(cost_weight, "weight of what is sent, as a share of what bsp sends", .min = 0,
                   .max = 1e9);
      LONGHAUL_KEY(grid, "values from tight to loose; empty: those of the strategy", .min = 0);
      LONGHAUL_KEY(start, "index into the grid to begin with, from 0", .max = 63);
      LONGHAUL_KEY(forget, "a measurement counts for so many travels", .min = 1, .max = 1e9,
                   .unit = "travels");
      LONGHAUL_KEY(announce, "from a travel to the step that its outcome acts from", .min = 1,
                   .max = 1e9, .unit = "steps");
      LONGHAUL_KEY(watch_home,
                   "add to the loss of accuracy what models have lost at home since their best "
                   "travel (not published)");
    }
  };
  static Result<std::unique_ptr<Strategy>> make(const Settings& settings, SyncParts parts,
                                                const Place& place) {
    Config config;
    LH_TRY(read_settings(settings, config));
    LH_TRY(check_skewscout(config));
    LH_LET(own, tuned_settings(config, settings));
    FedAvg::Config fedavg;
    if (config.strategy == "fedavg") {
      LH_TRY(read_settings(own, fedavg));
      if (fedavg.fraction != 1)
        return invalid(
            "[sync] with: expected fraction = 1 of fedavg, as all sites must have the "
            "same number of steps, found " +
            std::to_string(fedavg.fraction));
    }
    auto for_travels = parts.make_transfer(), for_notes = parts.make_transfer();
    auto tuned = tuned_entry(config.strategy).make(own, std::move(parts), place);
    if (!tuned) return tuned.error();
    return std::unique_ptr<Strategy>(
        std::make_unique<SkewScout>(config, grid_of(config), *std::move(tuned),
                                    std::move(for_travels), std::move(for_notes), place));
  }

  // `tuned` is a Tunable at a worker.
  SkewScout(const Config& config, std::vector<double> grid, std::unique_ptr<Strategy> tuned,
            std::unique_ptr<Transfer> for_travels, std::unique_ptr<Transfer> for_notes,
            const Place& place)
      : config_(config),
        grid_(std::move(grid)),
        place_(place),
        tuned_(std::move(tuned)),
        tunable_(dynamic_cast<Tunable*>(tuned_.get())),
        travels_(place,
                 {.stream = "travels",
                  .limits = ChannelLimits::models(1, *place.layout),
                  .service = kTravels},
                 std::move(for_travels), nullptr, nullptr,
                 [this](Rank from, const TravelHeader& header, const ContentShape& shape) {
                   return admit(from, header, shape);
                 }),
        notes_(place,
               {.stream = "scout", .limits = {.vectors = 16, .bytes = 1 << 16}, .service = kNotes},
               std::move(for_notes), nullptr, nullptr,
               [this](Rank from, const NoteHeader& header, const ContentShape& shape) {
                 return admit(from, header, shape);
               }),
        next_at_(config.travel_every),
        index_(config.start),
        search_(std::uint32_t(grid_.size()), config.start, config.forget,
                {config.tolerance, config.loss_weight, config.cost_weight}) {
    own(*tuned_, {0, "tuned"});
    own(notes_, {1, "notes"});
    own(travels_, {2, "travels"});
    LH_CHECK(tunable_ || !place.me().is(Role::worker));
    if (tunable_) tunable_->tune(grid_[index_]);
  }

  void on_step(const StepResult& result, Turn& turn) override {
    if (probing_) {
      scored_ = result;
      return;
    }
    if (result.samples > 0) ++steps_;
    has_stepped_ = true;
    tuned_->on_step(result, within(*tuned_, turn));
  }

  void on_computed(const Computed& computed, Turn& turn) override {
    if (probing_) return end_probe(turn);
    held_ = computed;
    has_stepped_ = false;
    travel_is_due_ = computed.samples > 0 && !is_paused_ && steps_ >= next_at_;
    // A strategy that must agree waits for the outcome of the travel before (go_on).
    if (!tunable_->needs_agreement() && std::exchange(travel_is_due_, false)) begin_travel(turn);
  }

  void on_progress(Turn& turn) override {
    if (!tunable_) return;
    if (!has_entered_ || epoch_ != turn.view().epoch) enter_view(turn);
    receive(turn);
    close_travel(turn);
    if (std::exchange(has_stepped_, false)) {
      tuned_->on_progress(within(*tuned_, turn));
    }
    go_on(turn);
  }

  Round rounds_done() const override { return tuned_->rounds_done(); }
  std::string waiting_for() const override {
    if (!held_) return tuned_->waiting_for();
    if (!tunable_ || !must_wait()) return "";
    const std::string scout = std::to_string(live_.front());
    if (is_paused_) return "rank " + scout + ", which decides how travels go on in this view";
    const std::string travel = "travel " + std::to_string(answered_);
    if (!is_scout()) return travel + ": its outcome from rank " + scout;
    std::string text = travel + ": the scores of the models of ranks";
    const auto found = tallies_.find(answered_);
    for (const Rank rank : found == tallies_.end() ? live_ : found->second.missing(live_))
      text += " " + std::to_string(rank);
    return text;
  }

  void state(Archive& ar) override {
    ar.expect("skewscout");
    ar(has_entered_, is_paused_, epoch_, live_, steps_, next_at_, travel_step_, started_,
       answered_);
    ar(counted_steps_, counted_exchanges_, held_, has_stepped_, travel_is_due_, probes_, probing_,
       scored_);
    ar(index_, theta_, search_, tallies_, best_home_);
  }

  // For tests, from outside.
  std::uint32_t index() const { return index_; }
  std::uint64_t steps() const { return steps_; }  // of the tuned strategy, here
  Round travels_done() const { return answered_; }
  const Strategy& tuned() const { return *tuned_; }

 private:
  using NoteHeader = skewscout::NoteHeader;
  using TravelHeader = skewscout::TravelHeader;

  static constexpr Service kTravels{.priority = 1}, kNotes{.priority = 6};
  static constexpr std::uint32_t kHelpless = 5;  // travels in a row, before it is said

  static SyncEntry tuned_entry(const std::string& name) {
    return name == "fedavg" ? FedAvg::entry() : Gaia::entry();
  }
  static std::string_view knob_of(const std::string& name) {
    return name == "fedavg" ? "steps" : "significance";
  }

  static std::vector<double> grid_of(const Config& config) {
    if (!config.grid.empty()) return config.grid;
    if (config.strategy == "fedavg") return {5, 10, 20, 50, 100, 200, 500};
    return {0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5};
  }

  static std::string_view trimmed(std::string_view text) {
    const auto first = text.find_first_not_of(" \t"), last = text.find_last_not_of(" \t");
    return first == text.npos ? std::string_view() : text.substr(first, last - first + 1);
  }

  // As a job file has it: true, 3, 0.5, "text"; a text may stand without quotes.
  static Value value_of(std::string_view text) {
    if (text == "true" || text == "false") return {text == "true"};
    const char* end = text.data() + text.size();
    std::int64_t whole = 0;
    if (const auto read = std::from_chars(text.data(), end, whole);
        read.ec == std::errc() && read.ptr == end)
      return {whole};
    double number = 0;
    if (const auto read = std::from_chars(text.data(), end, number);
        read.ec == std::errc() && read.ptr == end)
      return {number};
    if (text.size() >= 2 && text.front() == '"' && text.back() == '"')
      text = text.substr(1, text.size() - 2);
    return {std::string(text)};
  }

  // The table of the tuned strategy.
  static Result<Settings> tuned_settings(const Config& config, const Settings& own) {
    const Setting* said = own.find("with");
    Settings settings{own.table, own.file, own.line, {}};
    settings.entries.push_back({"kind", {config.strategy}, own.file, own.line});
    for (const std::string& text : config.with) {
      const auto equals = text.find('=');
      const std::string key(trimmed(std::string_view(text).substr(0, equals)));
      if (equals == std::string::npos || key.empty() || key == "kind" ||
          key == knob_of(config.strategy))
        return bad_setting(own, *said,
                           "settings \"key = value\" of " + config.strategy +
                               " other than kind and " + std::string(knob_of(config.strategy)) +
                               " (which `grid` has)");
      settings.set({key, value_of(trimmed(std::string_view(text).substr(equals + 1))), said->file,
                    said->line});
    }
    return settings;
  }

  static Status check_skewscout(const Config& config) {
    const std::vector<double> grid = grid_of(config);
    if (grid.size() > skewscout::kMostGrid)
      return invalid("[sync] grid: expected " + std::to_string(skewscout::kMostGrid) +
                     " values at most, found " + std::to_string(grid.size()));
    for (const double value : grid)
      if (config.strategy == "fedavg" && (value < 1 || value > 1e9 || value != std::floor(value)))
        return invalid("[sync] grid: expected whole numbers of steps from 1, found " +
                       std::to_string(value));
    if (config.start >= grid.size())
      return invalid("[sync] start: expected an index of the grid, below " +
                     std::to_string(grid.size()) + ", found " + std::to_string(config.start));
    return Ok{};
  }

  // What holds of the tuned strategy. An outcome reaches gaia's sites at steps that depend on time.
  static void adapt_skewscout(const Settings& settings, SyncTraits& traits) {
    Config config;
    if (!read_settings(settings, config)) return;  // make() says why
    const auto tuned = tuned_settings(config, settings);
    if (!tuned) return;
    traits = entry_with(tuned_entry(config.strategy), *tuned).traits;
    traits.lets_return = false;
    traits.asks = "score";
    if (config.strategy != "fedavg") traits.bits = Bits::schedule;
  }

  struct Probe {  // a model to score on the own data
    Rank of = 0;
    Epoch epoch = 0;
    Round travel = 0;
    Snapshot model;
    void state(Archive& ar) {
      ar(of, epoch, travel);
      archive_snapshot(ar, model);
    }
  };
  struct Theta {  // acts from that step on
    std::uint32_t index = 0;
    std::uint64_t from_step = 0;
    void state(Archive& ar) { ar(index, from_step); }
  };

  Result<bool> admit(Rank, const TravelHeader& header, const ContentShape& shape) const {
    if (header.epoch > epoch_) return malformed("a model of a view to come");
    if (shape.kind != ContentKind::values || shape.range != Range{0, place_.layout->size()})
      return malformed("a model of another size");
    return header.epoch == epoch_ && !is_over(header.travel);  // it may be late
  }

  Result<bool> admit(Rank from, const NoteHeader& header, const ContentShape& shape) const {
    if (header.epoch > epoch_) return malformed("a report of a view to come");
    if (shape.kind != ContentKind::none) return malformed("a report with a vector");
    if (header.epoch < epoch_) return false;
    if (header.kind == NoteHeader::Kind::home || header.kind == NoteHeader::Kind::visit) {
      if (header.correct > header.samples || !std::isfinite(header.exchanges))
        return malformed("a score that cannot be");
      const bool is_home = header.kind == NoteHeader::Kind::home;
      if (is_home != (header.model_of == from) ||
          !std::ranges::binary_search(live_, header.model_of))
        return malformed("the score of a model of rank " + std::to_string(header.model_of));
      return is_scout();
    }
    if (live_.empty() || from != live_.front()) return malformed("a decision of who is no scout");
    if (header.index >= grid_.size() || header.objectives.size() != grid_.size() ||
        header.travels.size() != grid_.size())
      return malformed("a decision for another grid");
    return true;
  }

  // A travel that runs while the membership changes is void. All go on where the scout, which is
  // the
  // lowest live worker, says.
  void enter_view(Turn& turn) {
    const bool is_first = !std::exchange(has_entered_, true) && turn.view().epoch == 0;
    epoch_ = turn.view().epoch;
    live_ = live_with(Role::worker, place_, turn.view());
    if (is_first) return;
    probes_.clear();
    tallies_.clear();
    answered_ = started_;
    is_paused_ = true;
    travel_is_due_ = false;
    if (is_scout()) send_theta(NoteHeader::Kind::resume, turn);
  }

  void receive(Turn& turn) {
    Turn models = within(travels_, turn), notes = within(notes_, turn);
    travels_.drop_lost();
    notes_.drop_lost();
    while (auto one = travels_.poll(models)) {
      if (one->header.epoch != epoch_ || is_over(one->header.travel)) continue;
      std::erase_if(probes_, [&](const Probe& probe) { return probe.of == one->from; });
      probes_.push_back({one->from, epoch_, one->header.travel, one->content.values()});
    }
    while (auto one = notes_.poll(notes))
      if (one->header.epoch == epoch_) take(one->from, one->header);
  }

  void take(Rank, const NoteHeader& header) {
    using Kind = NoteHeader::Kind;
    const skewscout::Score score{header.correct, header.samples, header.is_finite};
    if (header.kind == Kind::home || header.kind == Kind::visit) {
      // Of a travel that is over, or of one that is too far ahead to be waited for.
      if (!is_scout() || is_paused_ || header.travel < answered_ || header.travel > started_)
        return;
      skewscout::Tally& tally = tallies_[header.travel];
      if (header.kind == Kind::home)
        tally.home(header.model_of, score, header.exchanges, header.steps);
      else
        tally.visit(header.model_of, score);
      return;
    }
    theta_ = Theta{header.index, header.from_step};
    if (!is_scout()) search_.follow(header.index, header.objectives, header.travels);
    if (header.kind == Kind::resume) {
      is_paused_ = false;
      started_ = answered_ = header.travel;
      next_at_ = header.next_at;
    } else {
      answered_ = std::max(answered_, header.travel + 1);
      started_ = std::max(started_, answered_);
    }
    drop_answered();
  }

  // The own model as it is, before an exchange brings the replicas together.
  void begin_travel(Turn& turn) {
    next_at_ = (steps_ / config_.travel_every + 1) * config_.travel_every;
    const auto sites = std::uint32_t(live_.size());
    const auto x = turn.params();
    if (sites < 2 || !all_finite(x)) return;
    // The one before has not been closed in time: void.
    if (is_scout() && is_open()) send_theta(NoteHeader::Kind::theta, turn);
    travel_step_ = steps_;
    const Round m = started_++;
    const Snapshot model = copied(x);
    const auto k = std::uint32_t(std::ranges::lower_bound(live_, place_.self) - live_.begin());
    const Rank host = live_[skewscout::host_of(k, m, sites)];
    travels_.send({host}, {epoch_, m}, VectorContent::values(model, {0, place_.layout->size()}),
                  {.coding = Coding::exact}, within(travels_, turn));
    turn.record("travel_bytes", m, double(sizeof(float) * place_.layout->size()));
    std::erase_if(probes_, [&](const Probe& probe) { return probe.of == place_.self; });
    probes_.push_front({place_.self, epoch_, m, model});
  }

  // The learner has scored a model on its own data.
  void end_probe(Turn& turn) {
    const Probe probe = *std::exchange(probing_, std::nullopt);
    const StepResult scored = std::exchange(scored_, {});
    const bool is_own = probe.of == place_.self;
    double exchanges = 0;
    std::uint64_t steps = 0;
    if (is_own) {
      exchanges = tunable_->exchanges() - std::exchange(counted_exchanges_, tunable_->exchanges());
      steps = steps_ - std::exchange(counted_steps_, steps_);
    }
    if (probe.epoch != epoch_ || is_over(probe.travel)) return;
    send_note({live_.front()},
              {.kind = is_own ? NoteHeader::Kind::home : NoteHeader::Kind::visit,
               .epoch = epoch_,
               .travel = probe.travel,
               .model_of = probe.of,
               .correct = std::uint64_t(std::llround(scored.accuracy * double(scored.samples))),
               .samples = scored.samples,
               .is_finite = std::isfinite(scored.loss),
               .exchanges = exchanges,
               .steps = steps},
              turn);
  }

  // Of the travel that is open: all have reported.
  void close_travel(Turn& turn) {
    if (!is_scout() || is_paused_ || !is_open()) return;
    const auto found = tallies_.find(answered_);
    if (found == tallies_.end() || !found->second.missing(live_).empty()) return;
    if (const auto measured = found->second.measured()) {
      // A setting so loose that it costs all sites alike is not seen by models that visit each
      // other.
      best_home_ = std::max(best_home_, measured->home);
      const double at_home = config_.watch_home ? best_home_ - measured->home : 0;
      const double j = search_.measured(answered_, std::min(1.0, measured->accuracy_loss + at_home),
                                        measured->cost);
      turn.record("accuracy_loss", answered_, measured->accuracy_loss);
      turn.record("home_accuracy", answered_, measured->home);
      turn.record("cost", answered_, measured->cost);
      turn.record("objective", answered_, j);
      if (search_.helpless() >= kHelpless)
        turn.record("tightest_is_too_loose", answered_, search_.helpless());
    }
    send_theta(NoteHeader::Kind::theta, turn);
  }

  void send_theta(NoteHeader::Kind kind, Turn& turn) {
    const bool resumes = kind == NoteHeader::Kind::resume;
    // All are to begin the next travel, and to use the index, at one step: in a new view others may
    // have computed the round that this site is in.
    double round = 0;
    if (resumes && tunable_->needs_agreement())
      round = std::max(grid_[index_], theta_ ? grid_[theta_->index] : 0);
    const std::uint64_t newest = steps_ + std::uint64_t(std::ceil(round));
    const std::uint64_t from = resumes ? newest : travel_step_;
    send_note(live_,
              {.kind = kind,
               .epoch = epoch_,
               .travel = resumes ? started_ : answered_,
               .index = search_.index(),
               .from_step = from + config_.announce,
               .next_at = (newest / config_.travel_every + 2) * config_.travel_every,
               .objectives = search_.objectives(),
               .travels = search_.travels()},
              turn);
  }

  void send_note(const std::vector<Rank>& to, NoteHeader header, Turn& turn) {
    notes_.send(to, header, {}, {}, within(notes_, turn));
    receive(turn);  // no input follows what a node tells itself
  }

  // The tuned strategy believes that it computes. Models are scored now, then it goes on.
  void go_on(Turn& turn) {
    while (held_ && !probing_ && !turn.learner_is_busy()) {
      if (!probes_.empty()) {
        probing_ = std::move(probes_.front());
        probes_.pop_front();
        turn.compute(Score{place_.phantom ? nullptr : probing_->model});
        return;
      }
      if (must_wait()) return;
      if (std::exchange(travel_is_due_, false)) {
        begin_travel(turn);
        continue;
      }
      if (theta_ && steps_ >= theta_->from_step) tune(std::exchange(theta_, {})->index, turn);
      const Computed computed = *std::exchange(held_, std::nullopt);
      Turn below = within(*tuned_, turn);
      tuned_->on_computed(computed, below);
      tuned_->on_progress(below);
      return;
    }
  }

  void tune(std::uint32_t index, Turn& turn) {
    index_ = index;
    tunable_->tune(grid_[index]);
    turn.record("theta", answered_, grid_[index]);
  }

  bool is_scout() const { return !live_.empty() && live_.front() == place_.self; }
  bool is_open() const { return answered_ < started_; }
  // A paused site may have begun travels that the scout had not when the view changed: which one is
  // next it learns from the scout.
  bool is_over(Round travel) const { return !is_paused_ && travel < answered_; }
  // All sites must have the outcome at the same step, which all know when the travel begins.
  bool must_wait() const {
    if (!tunable_->needs_agreement()) return false;
    return is_paused_ ||
           (is_open() && (travel_is_due_ || steps_ >= travel_step_ + config_.announce));
  }

  void drop_answered() {
    std::erase_if(probes_, [&](const Probe& probe) { return probe.travel < answered_; });
    std::erase_if(tallies_, [&](const auto& one) { return one.first < answered_; });
  }

  const Config config_;
  const std::vector<double> grid_;
  const Place place_;
  const std::unique_ptr<Strategy> tuned_;
  Tunable* const tunable_;
  VectorChannel<TravelHeader> travels_;
  VectorChannel<NoteHeader> notes_;

  bool has_entered_ = false,
       is_paused_ = false;  // until the scout of a new view says how it goes on
  Epoch epoch_ = 0;
  std::vector<Rank> live_;  // workers of that view

  std::uint64_t steps_ = 0;           // computed here
  std::uint64_t next_at_ = 0;         // the step of the next travel
  std::uint64_t travel_step_ = 0;     // at which the last one began
  Round started_ = 0, answered_ = 0;  // travels: begun here; over, as far as this site knows
  std::uint64_t counted_steps_ = 0;   // at the last travel
  double counted_exchanges_ = 0;

  std::optional<Computed> held_;  // what the tuned strategy has not been told
  bool has_stepped_ = false;      // in this turn; the tuned strategy is to look at it
  bool travel_is_due_ = false;    // of this site's model, once the travel before is closed
  std::deque<Probe> probes_;      // of each site one at most
  std::optional<Probe> probing_;
  StepResult scored_;

  std::uint32_t index_ = 0;  // that the tuned strategy has
  std::optional<Theta> theta_;
  skewscout::Search search_;                   // at the scout; the others follow
  std::map<Round, skewscout::Tally> tallies_;  // at the scout: of two travels at most
  double best_home_ = 0;                       // accuracy at home, of all travels of this scout
};

}  // namespace longhaul::sync
