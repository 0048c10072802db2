#pragma once
// The reference of the job file, generated from the same fields() that read it: the generated half
// of docs/job-file.md, and the output of `longhaul explain NAME`.
#include <string>
#include <vector>

#include "longhaul/run/job/job.h"

namespace longhaul::run {

// Returns lines of at most 100 columns, broken at spaces; all but the first begin with `indent`.
std::string wrapped(const std::string& text, const std::string& indent);
// Returns a Markdown list of keys: type, default, allowed values, meaning. Lines have at most 100
// columns.
std::string key_list(const std::vector<FieldDoc>&);
// Returns the tables that have a key of this name, with any kind: "[stop]", "[[site]]".
std::vector<std::string> tables_with(std::string_view key);
// Returns all tables of the job file as Markdown. `with_pages`: for docs/, where each kind of a
// part has a page with its settings and a line with a link to it.
std::string job_file_reference(bool with_pages = false);

// One kind of one table, for `longhaul list` and `longhaul explain`.
struct PartInfo {
  std::string table;  // "overlay"
  std::string name, summary;
  std::vector<FieldDoc> keys;
  std::vector<std::pair<std::string, std::string>> facts;  // "bits": "rank", "when lost": ...
  std::vector<Preset> presets;
};
// Returns every kind of every table that has kinds, in the order of table_names().
std::vector<PartInfo> all_parts();
// Returns the part's presets and keys; "": none. `as_page`: as on its page between two marks, where
// keys of error feedback, and of [sync] those that fedavg has too, are one line that links a page.
std::string settings_text(const PartInfo&, bool as_page = false);
// Returns true if the part has a page: docs/TABLE/NAME.md.
bool has_page(const PartInfo&);

// Returns the keys of `docs` that can be added to these settings. Tables whose kinds share one
// struct refuse the keys of other kinds.
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

// Checks [model], [data] and [optimizer], and fills in their documentation (Job::model_docs ...).
Status read_learning(Job&);

// Returns the kinds of these three tables.
std::vector<PartInfo> learning_parts();

}  // namespace longhaul::run
