#pragma once
// The messages between sites about queries and models, and the requests and answers between a user
// and a site (Strategy::on_requested, Turn::reply). Encoded by base/wire.h (docs/focus.md). All
// messages are reliable.
#include <algorithm>
#include <compare>
#include <map>
#include <memory>
#include <string>

#include "longhaul/base/wire.h"
#include "longhaul/core/message.h"
#include "longhaul/core/turn.h"
#include "longhaul/core/types.h"

namespace longhaul::focus {

// A closed interval in the time of the objects.
struct Interval {
  std::int64_t from_ns = 0, to_ns = 0;
  bool meets(const Interval& other) const {
    return from_ns <= other.to_ns && other.from_ns <= to_ns;
  }
  friend bool operator==(const Interval&, const Interval&) = default;
  LONGHAUL_FIELDS(from_ns, to_ns)
};

// The version of a cheap model. The later one wins at all sites, whichever arrives first. Number 0:
// no model was given.
struct ModelVersion {
  std::uint64_t number = 0;
  Rank origin = 0;  // the site that received it from a user; breaks ties of equal numbers
  friend auto operator<=>(const ModelVersion&, const ModelVersion&) = default;
  static void fields(auto& self, auto&& visit) {
    LONGHAUL_FIELD(number, .max = 0x1p50);  // so that a successor always fits
    LONGHAUL_FIELD(origin);
  }
};

// A specialised cheap model that a user gives to running sites; also in a log.
struct GivenModel {
  static constexpr std::size_t kMostFile = 64 << 20;  // bytes
  ModelVersion version;
  // The classes that it distinguishes, in the order of its scores, before OTHER; empty: all.
  std::vector<std::uint32_t> classes;
  double seconds = 0;   // per object, for hosts that model the time
  std::uint32_t K = 0;  // 0: unchanged
  double T = -1;        // below 0: unchanged, or chosen on a sample if the job sets none
  std::string file;     // bytes of a TorchScript file; "noise = N" for the stream tracks
  LONGHAUL_FIELDS(version, (classes, .max = 1000), (seconds, .min = 0, .max = 1000),
                  (K, .max = 1000), (T, .min = -1, .max = 1e12), (file, .max = double(kMostFile)))
};

// The models that a site keeps, by their number in its learner: the indexing one and the newest.
using KeptModels = std::map<std::uint32_t, std::shared_ptr<const GivenModel>>;

inline constexpr double kMaxListed = 1000;

// A user's query: objects of a class within a window.
struct Wanted {
  std::uint32_t cls = 0;
  Interval window = {};
  std::uint32_t limit = 0;  // clusters to return; 0: all
  bool follow = false;      // continues with clusters that appear later, until it is cancelled
  LONGHAUL_FIELDS(cls, window, limit, follow)
};

struct Query {  // querier -> every site
  LONGHAUL_MESSAGE(1, "query");
  std::uint64_t query = 0;  // number at the querier
  Wanted wanted;
  LONGHAUL_FIELDS(query, wanted)
};

struct FoundCluster {
  std::uint64_t cluster = 0;  // number at its site
  std::uint64_t count = 0;    // objects, also outside the window; 0: more parts of it follow
  std::vector<Interval> intervals;
  LONGHAUL_FIELDS(cluster, count, (intervals, .max = kMaxListed))
};
// Site -> querier, after each batch of verdicts. An empty one every still_after(): still at work.
struct Found {
  LONGHAUL_MESSAGE(2, "result");
  std::uint64_t query = 0;
  std::uint64_t number = 0;  // among this site's results to the query, from 0
  std::vector<FoundCluster> clusters;
  LONGHAUL_FIELDS(query, number, (clusters, .max = kMaxListed))
};
struct End {  // site -> querier: all candidates at `asof` are decided
  LONGHAUL_MESSAGE(3, "end");
  std::uint64_t query = 0;
  std::uint64_t results = 0;              // results sent before it
  std::uint64_t asof = 0;                 // last object included
  std::int64_t asof_ns = 0;               // time of that object
  std::uint64_t checked = 0, cached = 0;  // clusters: checked now, known before
  std::vector<Interval> gaps;             // in the window
  LONGHAUL_FIELDS(query, results, asof, asof_ns, checked, cached, (gaps, .max = kMaxListed))
};
struct Cancel {  // querier -> site: the limit is reached, or the user wants no more
  LONGHAUL_MESSAGE(4, "cancel");
  std::uint64_t query = 0;
  LONGHAUL_FIELDS(query)
};

struct CheckItem {
  std::uint64_t cluster = 0, seq = 0;
  std::int64_t at_ns = 0;
  LONGHAUL_FIELDS(cluster, seq, at_ns)
};
struct Check {  // site -> verifier; the body holds the representatives, `stride` bytes each
  LONGHAUL_MESSAGE(5, "check");
  std::uint64_t batch = 0;   // number at the site
  std::uint32_t length = 0;  // fp32 values at the start of each representative
  std::uint32_t stride = 4;
  std::vector<CheckItem> items;
  LONGHAUL_FIELDS(batch, (length, .max = 1 << 20), (stride, .min = 1, .max = 1 << 22),
                  (items, .max = 4096))
};
struct Verdict {  // verifier -> site
  LONGHAUL_MESSAGE(6, "verdict");
  std::uint64_t batch = 0;
  std::uint32_t version = 0;           // version of the accurate model
  std::vector<std::uint32_t> classes;  // in the order of the batch's items
  LONGHAUL_FIELDS(batch, version, (classes, .max = 4096))
};
struct StillChecking {  // verifier -> site, every still_after(): the batch waits or runs
  LONGHAUL_MESSAGE(11, "still_checking");
  std::uint64_t batch = 0;
  LONGHAUL_FIELDS(batch)
};

struct NewestModel {  // site -> site: the newest cheap model at the sender
  LONGHAUL_MESSAGE(7, "newest_model");
  ModelVersion version;
  LONGHAUL_FIELDS(version)
};
struct FetchModel {  // site with an older model -> sender of NewestModel
  LONGHAUL_MESSAGE(8, "fetch_model");
  ModelVersion version;
  std::uint64_t offset = 0;  // start of the next piece
  LONGHAUL_FIELDS(version, offset)
};
struct ModelPart {  // reply to FetchModel; the body is the piece
  LONGHAUL_MESSAGE(9, "model");
  ModelVersion version;
  std::uint64_t offset = 0, size = 0;  // size: whole model
  LONGHAUL_FIELDS(version, offset, size)
};
struct ModelTaken {  // site -> the site whose user gave the model
  LONGHAUL_MESSAGE(10, "model_taken");
  ModelVersion version;
  std::string why;  // reason for a refusal; empty: the site's log holds it
  LONGHAUL_FIELDS(version, (why, .max = kMaxListed))
};

using Messages = MessageList<Query, Found, End, Cancel, Check, Verdict, NewestModel, FetchModel,
                             ModelPart, ModelTaken, StillChecking>;

// Returns the interval of notices from a busy node, so that long work is not taken for silence.
// `patience`: time that the other node waits ([focus] answer_timeout_s).
inline Time still_after(Time patience) {
  return std::max<Time>(patience / 4, std::chrono::milliseconds(20));
}

inline constexpr Service kAsk{.priority = 7};      // query, cancel
inline constexpr Service kAnswer{.priority = 6};   // result, end, verdict
inline constexpr Service kObjects{.priority = 4};  // check
inline constexpr Service kModel{.priority = 1};    // the models

// A user's request: one query, or one cheap model for all sites. Answers arrive as clusters are
// confirmed, or as sites take the model.
struct Request {
  std::vector<Wanted> query;
  std::vector<GivenModel> model;  // `version` is ignored
  LONGHAUL_FIELDS((query, .max = 1), (model, .max = 1))
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
struct MissingSite {  // a site with an incomplete answer
  Rank site = 0;
  std::uint64_t asof = 0;  // newest known; 0: none
  std::int64_t asof_ns = 0;
  LONGHAUL_FIELDS(site, asof, asof_ns)
};
struct Answer {
  enum class Kind : std::uint8_t {
    found,      // clusters of one site
    caught_up,  // following query: all sites have decided their candidates; more may come. Sent
                // again when a site is lost
    ended,      // last answer
    refused,    // last answer, with `why`
    taken,      // a site has taken the model, or refused it with `why`
    given       // last answer: all sites but those missing have replied; `why`: a refusal
  };
  Kind kind = Kind::found;
  Rank site = 0;
  std::vector<FoundCluster> clusters = {};
  std::vector<SiteEnd> ends = {};
  std::vector<MissingSite> missing = {};  // not empty: a partial answer
  bool limited = false;                   // ended by the limit
  std::string why = {};
  std::uint64_t model = 0;  // taken, given: version number
  LONGHAUL_FIELDS(kind, site, clusters, ends, missing, limited, why, model)
};

inline void refuse(std::uint64_t client, std::string why, Turn& turn) {
  turn.reply(client, to_wire(Answer{.kind = Answer::Kind::refused, .why = std::move(why)}), true);
}

}  // namespace longhaul::focus
