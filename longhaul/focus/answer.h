#pragma once
// What a user of a node asks (Strategy::on_requested) and is answered (Turn::reply), as bytes of
// base/wire.h. One request is one query, or a cheap model for all sites; answers come as clusters
// are confirmed, or as sites take the model.
#include "longhaul/focus/messages.h"

namespace longhaul::focus {

struct Request {  // one of either
  std::vector<Wanted> query;
  std::vector<GivenModel> model;  // `version` is not looked at
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    LONGHAUL_FIELD(query, .max = 1);
    LONGHAUL_FIELD(model, .max = 1);
  }
};
inline Bytes request_of(const Wanted& wanted) {
  return share(to_wire(Request{.query = {wanted}, .model = {}}));
}

struct SiteEnd {  // a site whose candidates are all decided
  Rank site = 0;
  std::uint64_t asof = 0;
  std::int64_t asof_ns = 0;
  std::uint64_t checked = 0, cached = 0;
  std::vector<Interval> gaps;
  LONGHAUL_FIELDS(site, asof, asof_ns, checked, cached, gaps)
};
struct MissingSite {  // whose answer is not complete
  Rank site = 0;
  std::uint64_t asof = 0;  // the last known of it; 0: none
  std::int64_t asof_ns = 0;
  LONGHAUL_FIELDS(site, asof, asof_ns)
};
struct Answer {
  enum class Kind : std::uint8_t {
    found,      // clusters of one site
    caught_up,  // a query that follows: all sites have decided what there was; more may come. Said
                // again when a site is lost
    ended,      // the last one
    refused,    // the last one: `why`
    taken,      // a site has the model now; or it refused it, and says why
    given       // the last one: all sites have said so, but those missing; `why` one refused it
  };
  Kind kind = Kind::found;
  Rank site = 0;
  std::vector<FoundCluster> clusters = {};
  std::vector<SiteEnd> ends = {};
  std::vector<MissingSite> missing = {};  // not empty: a partial answer
  bool limited = false;                   // ended by the limit
  std::string why = {};
  std::uint64_t model = 0;  // taken, given: the number of its version
  LONGHAUL_FIELDS(kind, site, clusters, ends, missing, limited, why, model)
};

}  // namespace longhaul::focus
