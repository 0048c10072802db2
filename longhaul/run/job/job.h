#pragma once
// A Job is a job file with everything decided: defaults filled in, what the sync kind presets
// applied, every cross-reference checked. Reading it answers any text with a Job or an Error that
// has a line for each mistake: file, line, key, what was expected and the nearest valid name or the
// remedy.
//
// Who wins for one key, strongest first: --set, [for.KIND.TABLE], [TABLE], the sync kind's preset,
// the default. A preset of a table's kind and of its other keys counts only while the file does
// not choose another kind for that table.
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

// A part chosen from a registry, with its settings; `settings` holds "kind" and what was set, but
// not the keys that hold for every kind (TransferCommon).
template <class Entry>
struct Choice {
  const Entry* entry = nullptr;
  Settings settings;
};

struct AppliedPreset {  // for explain: the sync kind set this, unless `overruled`
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
  // A job that indexes growing data and trains nothing: what belongs to training then stands at
  // its defaults and means nothing.
  std::optional<focus::Config> focus;
  std::vector<focus::QueryConfig> queries;
  std::vector<focus::ModelConfig> given;  // [[focus.model]]
  std::vector<focus::CheapConfig> cheap;  // by number; empty: one, of [focus] cheap_ms
  flow::Wan network;                      // what wan, links and sites come to
  // That, its sites named, for overlays that plan by it; null while the job is read.
  std::shared_ptr<const flow::Wan> believed;
  Settings model, data, optimizer;  // read by learn/; "kind" is always there
  Choice<SyncEntry> sync;
  Choice<OverlayEntry> overlay;
  Choice<TransferEntry> transfer;
  Choice<CodecEntry> codec;
  Choice<OuterEntry> outer;
  bool error_feedback = false;  // [codec] error_feedback
  TransferCommon transfer_common;
  std::vector<AppliedPreset> presets;
  // How the keys of model, data and optimizer are documented, given their kinds.
  std::vector<FieldDoc> model_docs, data_docs, optimizer_docs;
  std::vector<Settings> written;  // all tables as written: for sources, and errors that come later

  std::string kind(std::string_view table) const;  // "lenet" for "model"
  // The members in rank order: every site's nodes, then the server of [roles], if any.
  Members members() const;
  // That of [roles]: the first node with that role at the site, or one that is added there.
  std::optional<Rank> server() const;
  bool adds_server(const SiteTable&) const;
  bool leaves_out(const std::string& site) const;  // [run] without
  std::size_t workers() const;
};

Result<Job> resolve_job(Document);

// What the command line lays over a job file.
struct Overrides {
  std::vector<std::string> sets;  // --set, in their order
  std::string wan;   // --wan: a preset, or a file with a [wan], in place of the network; "": none
  bool own = false;  // [model] and [data] are of kind "own" unless the file says otherwise
};
// The file with all of it applied. A job without [[site]] tables has its preset's sites by then,
// so that --set can name them.
Result<Document> load_document(const std::string& path, const Overrides& = {});
Result<Job> load_job(const std::string& path, const Overrides& = {});

}  // namespace longhaul::run
