#include "longhaul/cli/compare_jobs.h"

#include <algorithm>

#include <fmt/format.h>

#include "longhaul/run/job/reference.h"

namespace longhaul::cli {
namespace {

using Parts = std::vector<run::PartInfo>;

std::vector<std::string_view> kinds_of(const Parts& parts, std::string_view table) {
  std::vector<std::string_view> names;
  for (const run::PartInfo& part : parts)
    if (part.table == table) names.push_back(part.name);
  return names;
}

Status check_kinds(const Parts& parts, std::string_view table,
                   const std::vector<std::string>& asked) {
  const std::vector<std::string_view> known = kinds_of(parts, table);
  for (const std::string& kind : asked)
    if (std::find(known.begin(), known.end(), kind) == known.end())
      return invalid(
          fmt::format("--{0} {1}: no such [{0}] kind{2}", table, kind, suggestion(kind, known)));
  return Ok{};
}

bool has_key(const Parts& parts, std::string_view sync, std::string_view key) {
  for (const run::PartInfo& part : parts)
    if (part.table == "sync" && part.name == sync)
      for (const FieldDoc& doc : part.keys)
        if (doc.field.name == key) return true;
  return false;
}

// A key of [sync] holds for all kinds that are compared; one that only some have belongs elsewhere.
Status check_sync_keys(const Parts& parts, const Settings& table,
                       const std::vector<std::string>& syncs) {
  for (const Setting& entry : table.entries) {
    if (entry.key == "kind") continue;
    std::string without, with;
    for (const std::string& sync : syncs) {
      const bool has = has_key(parts, sync, entry.key);
      if (has) with += fmt::format("{}[for.{}.sync]", with.empty() ? "" : " and ", sync);
      if (!has) without += (without.empty() ? "" : ", ") + sync;
    }
    if (without.empty() || with.empty()) continue;  // unknown to all: the reader says so
    return invalid(
        fmt::format("{}: [sync] {}: no such key with kind = \"{}\"; write it in the job file "
                    "under {}: [for.KIND.sync] holds settings for one strategy",
                    source_of(entry), entry.key, without, with));
  }
  return Ok{};
}

Status check(const RunOptions& options, const std::vector<std::string>& syncs,
             const std::vector<std::string>& overlays) {
  const Parts parts = run::all_parts();
  LH_TRY(check_kinds(parts, "sync", syncs));
  LH_TRY(check_kinds(parts, "overlay", overlays));
  auto doc = run::load_document(options.job, {options.sets, options.wan});
  if (!doc) return doc.error();
  return check_sync_keys(parts, doc->table("sync"), syncs);
}

}  // namespace

Result<std::vector<ComparedJob>> compared_jobs(const RunOptions& options,
                                               const std::vector<std::string>& syncs,
                                               const std::vector<std::string>& overlays) {
  LH_TRY(check(options, syncs, overlays));
  std::vector<ComparedJob> jobs;
  const std::vector<std::string> as_written = {""};
  for (const std::string& sync : syncs)
    for (const std::string& overlay : overlays.empty() ? as_written : overlays) {
      std::vector<std::string> sets = {"sync.kind=" + sync};
      if (!overlay.empty()) sets.push_back("overlay.kind=" + overlay);
      auto job = options.load(sets);
      if (!job) return invalid(fmt::format("with --sync {}: {}", sync, job.error().what));
      jobs.push_back({overlay.empty() ? sync : sync + "-" + overlay, std::move(*job)});
    }
  return jobs;
}

}  // namespace longhaul::cli
