#pragma once
// What a user of a node asks (Strategy::on_requested) and is answered (Turn::reply), as bytes of
// base/wire.h. One request is one query; answers come as clusters are confirmed.
#include "longhaul/focus/messages.h"

namespace longhaul::focus {

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
    caught_up,  // a query that follows: all sites have decided what there was; more may come
    ended,      // the last one
    refused     // the last one: `why`
  };
  Kind kind = Kind::found;
  Rank site = 0;
  std::vector<FoundCluster> clusters = {};
  std::vector<SiteEnd> ends = {};
  std::vector<MissingSite> missing = {};  // not empty: a partial answer
  bool limited = false;                   // ended by the limit
  std::string why = {};
  LONGHAUL_FIELDS(kind, site, clusters, ends, missing, limited, why)
};

}  // namespace longhaul::focus
