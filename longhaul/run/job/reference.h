#pragma once
// The reference of the job file, made from the same fields() that read it: the generated half of
// docs/job-file.md, and what `longhaul explain NAME` prints.
#include <string>
#include <vector>

#include "longhaul/run/job/job.h"

namespace longhaul::run {

// A Markdown list of keys: type, default, what is allowed, meaning; lines of 100 columns.
std::string key_list(const std::vector<FieldDoc>&);
// The tables that have a key of that name, with any kind: "[stop]", "[[site]]".
std::vector<std::string> tables_with(std::string_view key);
// All tables of the job file, as Markdown.
std::string job_file_reference();

// One kind of one table, for `longhaul list` and `longhaul explain`.
struct PartInfo {
  std::string table;  // "overlay"
  std::string name, summary;
  std::vector<FieldDoc> keys;
  std::vector<std::pair<std::string, std::string>> facts;  // "bits": "rank", "when lost": ...
  std::vector<Preset> presets;
};
// Every kind of every table that has kinds, in the order of table_names().
std::vector<PartInfo> all_parts();

// The keys of `docs` that can be written beside the settings as they stand: tables whose kinds
// share one struct refuse the keys of other kinds.
template <class Reads>
std::vector<FieldDoc> keys_in_use(Settings settings, const std::vector<FieldDoc>& docs,
                                  Reads&& reads) {
  std::vector<FieldDoc> used;
  for (const FieldDoc& doc : docs) {
    if (doc.field.name == "kind") continue;
    Settings with = settings;
    if (!settings.find(doc.field.name))
      with.set({std::string(doc.field.name), doc.data, "default", 0});
    if (!reads(with)) continue;
    used.push_back(doc);
    if (!doc.absent) settings = std::move(with);
  }
  return used;
}

// Checks the three tables and fills in their documentation (Job::model_docs ...).
Status read_learning(Job&);

// The kinds of the three tables.
std::vector<PartInfo> learning_parts();
// The keys of [data] that hold for every kind, as a Markdown list.
std::string data_keys();

}  // namespace longhaul::run
