#pragma once
// SiteRates finds the sites whose links have become slow, from the times of DS-Sync's exchanges
// between sites: setting `sense`. The rule is our reconstruction; the paper's second version senses
// contention, by a rule that we do not have.
//   Wang et al., "DS-Sync: Addressing network bottlenecks with divide-and-shuffle synchronization
//   for distributed DNN training", arXiv 2007.03298.
//
// Both workers of a pair tell the planner (the lowest live worker) how long their mean took from
// their own beginning on. The one that began last did not wait for the other, so the shorter time
// is that of the exchange, whatever the two clocks say and whichever worker was late. Its inverse
// is a measurement of both sites; while one of them is known to be slow, of that one alone.
//
// A site's reference is the median of its first ten measurements, its rate a moving average of
// weight 0.2. It is slow while its rate is below half of its reference. Two sites that met one slow
// site look alike at first: so the slowest alone is taken, and the others are judged again by what
// they measure afterwards.
#include <map>
#include <optional>
#include <vector>

#include "longhaul/core/machine.h"

namespace longhaul::sync::shuffle {

struct SlowSite {
  Rank site = 0;                   // by its first worker in the job
  double reference = 0, rate = 0;  // exchanges a second
  friend bool operator==(const SlowSite&, const SlowSite&) = default;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit(Field{.name = "site"}, self.site);
    visit(Field{.name = "reference", .min = 0, .max = 1e12}, self.reference);
    visit(Field{.name = "rate", .min = 0, .max = 1e12}, self.rate);
  }
};
using SlowSites = std::vector<SlowSite>;  // ascending in the site

// The first worker of the site that a worker belongs to.
Rank first_worker_of_site(Rank worker, const Place&);

class SiteRates final : public Machine {
 public:
  struct CrossTime {
    static constexpr std::uint16_t kKind = 1;
    static constexpr std::string_view kName = "cross_time";
    Round round = 0;
    Rank partner = 0;  // at the other site
    double seconds = 0;
    template <class Self, class Visit>
    static void fields(Self& self, Visit&& visit) {
      visit(Field{.name = "round", .max = 0x1p50}, self.round);
      visit(Field{.name = "partner"}, self.partner);
      visit(Field{.name = "seconds", .min = 0, .max = 1e9}, self.seconds);
    }
  };
  using Messages = MessageList<CrossTime>;

  // This worker's mean with `partner`, of another site, took so long.
  void crossed(Round, Rank partner, Time took, Turn&);
  // At the planner: which sites are slow now, if those are others than `known`, which are the sites
  // that all treat as slow. It is called in every turn, so that `known` is what measurements are
  // of; what it answers is taken for known from then on.
  std::optional<SlowSites> change(const SlowSites& known, const Turn&);

  Status on_message(Rank from, const Message&, Turn&) override;
  void on_view(const View& before, Turn&) override;
  void state(Archive& ar) override { ar(half_, sites_, known_); }

 private:
  struct Site {
    std::vector<double> first;       // measurements, until there is a reference
    double reference = 0, rate = 0;  // exchanges a second; 0: none yet
    std::optional<double> last;      // measured since the last change
    LONGHAUL_FIELDS(first, reference, rate, last)
    bool is_slow(double measured) const { return measured < reference / 2; }
  };
  struct Half {  // what one of a pair has said, until the other does
    Round round = 0;
    Rank partner = 0;
    double seconds = 0;
    LONGHAUL_FIELDS(round, partner, seconds)
  };

  void hear(Rank from, const CrossTime&, const Place&);
  void measure(Rank site, double rate);
  void learn(const SlowSites&);
  bool is_known(Rank site) const;

  std::map<Rank, std::vector<Half>> half_;  // by sender, a few each
  std::map<Rank, Site> sites_;              // by first_worker_of_site
  SlowSites known_;
};

}  // namespace longhaul::sync::shuffle
