#pragma once
// FocusNode is the strategy of a node of `longhaul serve`: it indexes the objects of its site with
// a cheap model as they come, and answers queries over all sites, for which the accurate model
// looks at one object of each candidate cluster. It trains nothing. One node at each site.
//
// Source: Hsieh et al., OSDI 2018; one machine there. Messages, sites and failures are ours.
// When a peer is lost it goes on: answers are partial and name the missing site.
#include <functional>

#include "longhaul/core/cheap_models.h"
#include "longhaul/core/strategy.h"
#include "longhaul/focus/config.h"
#include "longhaul/focus/ingest.h"
#include "longhaul/focus/models.h"
#include "longhaul/focus/querier.h"
#include "longhaul/focus/resampler.h"
#include "longhaul/focus/site_queries.h"
#include "longhaul/focus/verifier.h"

namespace longhaul::focus {

// Config with everything decided.
struct NodeConfig {
  enum class AtIngest : std::uint8_t { cheap, accurate, nothing };
  enum class Place : std::uint8_t { site, querier, hub };
  IndexConfig index;
  AtIngest at_ingest = AtIngest::cheap;
  bool uses_known_verdicts = true;
  Place gt_place = Place::site;
  Rank hub = 0;
  std::uint32_t gt_batch = 32, gt_version = 1, object_bytes = 12000;
  std::size_t queue_items = 10000;
  Time patience = std::chrono::seconds(30);
  std::optional<Time> duration = {};            // absent: it never finishes
  std::optional<ResampleConfig> resample = {};  // absent: parameters stay
  // Into which models are put that the site is given while it runs, of these numbers and the next;
  // nullptr: they are refused. Lives as long as the node's learner.
  using PutModel = std::function<Status(std::uint32_t number, const GivenModel&)>;
  PutModel put_model = nullptr;
  // Tries such a model first, elsewhere: this node goes on meanwhile. Nothing: it is not known yet;
  // asked again at the next input, and there is one when it is. nullptr: none is tried.
  using TryModel = std::function<std::optional<Status>(const std::shared_ptr<const GivenModel>&)>;
  TryModel try_model = nullptr;
  bool no_clusters = false;      // T stays 0
  std::uint32_t length = 0;      // values of an object; 0: peers may send any
  std::uint32_t own_models = 1;  // of the job: numbers below are theirs
};
// What the baseline changes is applied. `hub`: the rank of the node that Config::hub names.
// Config::T must be there.
NodeConfig node_config(const Config&, std::uint32_t classes, Rank hub);

class FocusNode final : public Strategy {
 public:
  using Messages = focus::Messages;
  explicit FocusNode(const NodeConfig&);

  // Before the start: the index that the log of this node says. Appending goes on after it.
  Status restore(std::span<const Bytes> log, Rank self);
  // The same one by one: a checkpoint, then the records behind it. Error: it is of another index.
  Status restore_checkpoint(std::span<const std::byte>);
  Status restore_record(std::uint64_t number, std::span<const std::byte>, Rank self);
  // Index and verdicts, in place of all records up to appended().
  Buffer checkpoint();
  std::uint64_t appended() const { return appended_; }

  void on_start(Turn&) override;
  void on_arrived(std::vector<Item>, Turn&) override;
  void on_requested(std::uint64_t client, const Bytes& request, Turn&) override;
  void on_stored(std::uint64_t number, Turn&) override;
  Status on_message(Rank from, const Message&, Turn&) override;
  void on_timer(TimerId, Turn&) override;
  void on_writable(Rank, Turn&) override;
  void on_view(const View& before, Turn&) override;
  void on_step(const StepResult&, Turn&) override;
  void on_progress(Turn&) override;
  void state(Archive&) override;
  Round rounds_done() const override { return index_.objects(); }
  bool lets_return() const override { return true; }
  std::string waiting_for() const override;

  const Index& index() const { return index_; }
  const Verdicts& verdicts() const { return verdicts_; }
  const Models& models() const { return models_; }
  // The source sends again what comes after this seq if the node crashes now.
  std::uint64_t acknowledged() const { return acknowledged_; }
  struct Counters {
    std::uint64_t cheap = 0, accurate = 0;  // objects that the models have seen
    void state(auto& ar) { ar(cheap, accurate); }
  };
  const Counters& counters() const { return counters_; }
  std::uint64_t samples() const { return resampler_ ? resampler_->samples() : 0; }
  std::uint64_t dropped() const { return ingest_.dropped(); }
  std::size_t open_queries() const { return site_queries_.open(); }  // of all sites, here

 private:
  enum class Running : std::uint8_t { nothing, ingest, check, resample };
  Status take(Rank from, const Query&, Turn&);
  Status take(Rank from, const Verdict&, Turn&);
  void compute(Turn&);
  void resample(const StepResult&, Turn&);
  Status check_given(const GivenModel&) const;
  void check_candidate(Turn&);
  void keep(const std::shared_ptr<const GivenModel>&, std::uint32_t number, Turn&);
  std::uint32_t free_number() const;
  Status put_kept();
  void index_batch(std::span<const float> outputs, Turn&);
  Seen seen(const Item&, std::size_t at, std::span<const float> outputs) const;
  void restored();
  void append(const LogRecord&, Turn&);
  Rank verifier_for(Rank querier, const Turn&) const;
  void advance(Turn&);

  const NodeConfig config_;
  Index index_;
  Verdicts verdicts_;
  Ingest ingest_;
  Checks checks_;
  Verifier verifier_;
  SiteQueries site_queries_;
  Querier querier_;
  std::optional<Resampler> resampler_;
  Models models_;
  KeptModels kept_;
  std::uint64_t kept_in_ = 0;  // the record that holds the newest of them; 0: it is stored

  Running running_ = Running::nothing;
  Running last_ = Running::nothing;  // the two take turns
  Ingest::Batch batch_;              // that runs
  std::uint64_t appended_ = 0, acknowledged_ = 0;
  std::map<std::uint64_t, std::uint64_t> acknowledges_;  // by record: the seq
  bool over_ = false, finished_ = false;
  Counters counters_;
};

}  // namespace longhaul::focus
