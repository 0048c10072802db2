#pragma once
// SkewScout tunes how much another strategy communicates. From time to time the model of each site
// visits another site and is scored on the training data there. If the score is lower than at home,
// the replicas have drifted apart because their data differ: SkewScout tightens, else it loosens.
//   Hsieh, Phanishayee, Mutlu, Gibbons, "The non-IID data quagmire of decentralized machine
//   learning", ICML 2020. The objective follows summaries of the paper; the search, the protocol
//   and the handling of losses are ours. Nothing of the tuner was released.
//
// The tuned strategy is a child. Before a node reports the end of a computation to the child, it
// starts its travels and scores its visitors. Meanwhile the child acts as if it still computed, and
// no part uses the parameters. Scoring does not change the learner.
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
      LONGHAUL_KEY(strategy, "the tuned setting: the significance of gaia, the steps of fedavg",
                   .choices = {"gaia", "fedavg"});
      LONGHAUL_KEY(with, "settings of the tuned strategy, each \"key = value\"");
      LONGHAUL_KEY(travel_every, "local steps between two travels of the models", .min = 1,
                   .max = 1e12, .unit = "steps");
      LONGHAUL_KEY(tolerance, "loss of accuracy, 0 to 1, that is no reason to tighten", .min = 0,
                   .max = 1);
      LONGHAUL_KEY(loss_weight, "weight of the loss of accuracy beyond it", .min = 0, .max = 1e9);
      LONGHAUL_KEY(cost_weight, "weight of the sent bytes, as a share of those of bsp", .min = 0,
                   .max = 1e9);
      LONGHAUL_KEY(grid, "values from tight to loose; empty: those of the strategy", .min = 0);
      LONGHAUL_KEY(start, "index into the grid to begin with, from 0", .max = 63);
      LONGHAUL_KEY(forget, "travels for which a measurement counts", .min = 1, .max = 1e9,
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

  // `tuned` must be a Tunable at a worker.
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
    // A strategy that needs agreement first waits for the outcome of the previous travel (go_on).
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
    if (is_paused_) return "rank " + scout + ", which decides how travels continue in this view";
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

  // For tests.
  std::uint32_t index() const { return index_; }
  std::uint64_t steps() const { return steps_; }  // local steps of the tuned strategy
  Round travels_done() const { return answered_; }
  const Strategy& tuned() const { return *tuned_; }

 private:
  using NoteHeader = skewscout::NoteHeader;
  using TravelHeader = skewscout::TravelHeader;

  static constexpr Service kTravels{.priority = 1}, kNotes{.priority = 6};
  static constexpr std::uint32_t kHelpless = 5;  // consecutive travels before a warning

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

  // Returns the value as in a job file: true, 3, 0.5, "text". Text can be without quotes.
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

  // Returns the settings table of the tuned strategy.
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

  // Copies the traits of the tuned strategy. An outcome reaches gaia's sites at steps that depend
  // on time.
  static void adapt_skewscout(const Settings& settings, SyncTraits& traits) {
    Config config;
    if (!read_settings(settings, config)) return;  // make() reports the error
    const auto tuned = tuned_settings(config, settings);
    if (!tuned) return;
    traits = entry_with(tuned_entry(config.strategy), *tuned).traits;
    traits.lets_return = false;
    traits.asks = "score";
    if (config.strategy != "fedavg") traits.bits = Bits::schedule;
  }

  struct Probe {  // model to score on this site's data
    Rank of = 0;
    Epoch epoch = 0;
    Round travel = 0;
    Snapshot model;
    void state(Archive& ar) {
      ar(of, epoch, travel);
      archive_snapshot(ar, model);
    }
  };
  struct Theta {  // index that applies from a step on
    std::uint32_t index = 0;
    std::uint64_t from_step = 0;
    void state(Archive& ar) { ar(index, from_step); }
  };

  Result<bool> admit(Rank, const TravelHeader& header, const ContentShape& shape) const {
    if (header.epoch > epoch_) return malformed("a model of a view to come");
    if (shape.kind != ContentKind::values || shape.range != Range{0, place_.layout->size()})
      return malformed("a model of another size");
    return header.epoch == epoch_ && !is_over(header.travel);  // the model can be late
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

  // Enters a view. A travel in progress is void when the members change. All sites continue with
  // the state of the scout, which is the lowest live worker.
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
      // The travel has ended, or is too far ahead.
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

  // Sends this site's model to its host, before an exchange brings the replicas together.
  void begin_travel(Turn& turn) {
    next_at_ = (steps_ / config_.travel_every + 1) * config_.travel_every;
    const auto sites = std::uint32_t(live_.size());
    const auto x = turn.params();
    if (sites < 2 || !all_finite(x)) return;
    // The previous travel was not closed in time and is void.
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

  // Called when the learner has scored a model on its own data.
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

  // Closes the open travel when all sites have reported.
  void close_travel(Turn& turn) {
    if (!is_scout() || is_paused_ || !is_open()) return;
    const auto found = tallies_.find(answered_);
    if (found == tallies_.end() || !found->second.missing(live_).empty()) return;
    if (const auto measured = found->second.measured()) {
      // Models that visit each other do not detect a setting so loose that all sites lose equally.
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
    // All sites must start the next travel, and use the index, at the same step. In a new view
    // other sites can have computed the round that this site is in.
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
    receive(turn);  // no input follows a message to this node itself
  }

  // Scores waiting models, then reports the end of the computation to the tuned strategy.
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
  // Returns true if the travel has ended. A paused site may have begun travels that the scout had
  // not begun at the change of the view. The scout then sends it the number of the next travel.
  bool is_over(Round travel) const { return !is_paused_ && travel < answered_; }
  // Returns true if the tuned strategy must wait for an outcome. All sites must have the outcome at
  // the same step, which they know when the travel begins.
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
       is_paused_ = false;  // until the scout of a new view sends its state
  Epoch epoch_ = 0;
  std::vector<Rank> live_;  // live workers of that view

  std::uint64_t steps_ = 0;           // steps computed at this site
  std::uint64_t next_at_ = 0;         // step of the next travel
  std::uint64_t travel_step_ = 0;     // step of the last travel
  Round started_ = 0, answered_ = 0;  // travels: begun here; known to have ended
  std::uint64_t counted_steps_ = 0;   // at the last travel
  double counted_exchanges_ = 0;

  std::optional<Computed> held_;  // result that the tuned strategy has not received yet
  bool has_stepped_ = false;      // the tuned strategy must process this turn's step
  bool travel_is_due_ = false;    // this site's model travels when the previous travel is closed
  std::deque<Probe> probes_;      // at most one per site
  std::optional<Probe> probing_;
  StepResult scored_;

  std::uint32_t index_ = 0;  // index in use by the tuned strategy
  std::optional<Theta> theta_;
  skewscout::Search search_;                   // at the scout; other sites copy it
  std::map<Round, skewscout::Tally> tallies_;  // at the scout: at most two travels
  double best_home_ = 0;                       // best home accuracy of all travels of this scout
};

}  // namespace longhaul::sync
