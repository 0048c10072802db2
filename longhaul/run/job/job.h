#pragma once
// A Job is a resolved job file, with all defaults, the presets of the sync kind, and checked
// cross-references. Reading any text returns a Job, or an Error that has a line for each mistake:
// file, line, key, expected value and the nearest valid name or the remedy.
//
// Precedence for one key, strongest first: --set, [for.KIND.TABLE], [TABLE], the sync kind's
// preset, the default. A preset of a table's kind and of its other keys counts only while the file
// does not choose another kind for that table.
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "longhaul/core/place.h"
#include "longhaul/core/registry.h"
#include "longhaul/flow/wan.h"
#include "longhaul/focus/config.h"
#include "longhaul/run/job/document.h"
#include "longhaul/run/job/tables.h"

namespace longhaul::run {

// A part chosen from a registry, with its settings. `settings` holds "kind" and the set keys, but
// not the keys that every kind has (TransferCommon).
template <class Entry>
struct Choice {
  const Entry* entry = nullptr;
  Settings settings;
};

struct AppliedPreset {  // for explain: set by the sync kind, unless `overruled`
  std::string table, key;
  Value value;
  bool overruled = false;
};

struct Job {
  std::string file;
  JobTable job;
  StopTable stop;
  ReportTable report;
  RunTable run;
  std::vector<FaultTable> faults;  // in the simulator
  RolesTable roles;
  ServerTable server_table;
  CostTable cost;
  NetTable net;
  WanTable wan;
  std::vector<LinkTable> links;
  std::vector<SharedTable> shared;
  std::vector<TraceTable> traces;
  std::vector<SiteTable> sites;
  // For a job that indexes growing data and trains nothing. The settings of training then have
  // their defaults and no meaning.
  std::optional<focus::Config> focus;
  std::vector<focus::QueryConfig> queries;
  std::vector<focus::ModelConfig> given;  // [[focus.model]]
  std::vector<focus::CheapConfig> cheap;  // by number; empty: one, from [focus] cheap_ms
  flow::Wan network;                      // result of wan, links and sites
  // The same with named sites, for overlays that plan with it; null while the job is read.
  std::shared_ptr<const flow::Wan> believed;
  Settings model, data, optimizer;  // read by learn/; "kind" is always set
  Choice<SyncEntry> sync;
  Choice<OverlayEntry> overlay;
  Choice<TransferEntry> transfer;
  Choice<CodecEntry> codec;
  Choice<OuterEntry> outer;
  bool error_feedback = false;  // [codec] error_feedback
  TransferCommon transfer_common;
  std::vector<AppliedPreset> presets;
  // The documentation of the keys of model, data and optimizer, for their kinds.
  std::vector<FieldDoc> model_docs, data_docs, optimizer_docs;
  std::vector<Settings> written;  // all tables as written: for sources, and for later errors

  std::string kind(std::string_view table) const;  // "lenet" for "model"
  // Returns the members in rank order: every site's nodes, then the server of [roles], if any.
  Members members() const;
  // Returns the server of [roles]: the first node with that role at the site, or an added one.
  std::optional<Rank> server() const;
  bool adds_server(const SiteTable&) const;
  bool leaves_out(const std::string& site) const;  // [run] without
  std::size_t workers() const;
};

Result<Job> resolve_job(Document);

// The changes that the command line makes to a job file.
struct Overrides {
  std::vector<std::string> sets;  // --set, in order
  std::string wan;   // --wan: a preset or a file with [wan], replaces the network; "": none
  bool own = false;  // [model] and [data] are of kind "own" unless the file sets another kind
};
// Returns the file with all changes. A job without [[site]] tables gets its preset's sites first,
// so that --set can name them.
Result<Document> load_document(const std::string& path, const Overrides& = {});
Result<Job> load_job(const std::string& path, const Overrides& = {});

}  // namespace longhaul::run
