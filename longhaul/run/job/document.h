#pragma once
// A job file as it was written: TOML text cut into tables of settings that know their file and
// line. Nothing is interpreted here; longhaul/run/job/job.h does that.
//
// Tables are named as a user would address them with --set:
//   [sync]                        sync
//   [[site]] name = "tokyo"       site.tokyo      (site[2] while it has no name)
//   [[wan.link]], the first       wan.link[0]     (so are wan.shared, wan.trace, focus.query,
//                                                  focus.model, focus.cheap and fault)
//   [for.diloco.outer]            for.diloco.outer
//                                 (settings that hold for one sync kind only)
#include <string>
#include <string_view>
#include <vector>

#include "longhaul/base/settings.h"

namespace longhaul::run {

struct Document {
  std::string file;                // as it is named in errors
  std::vector<Settings> tables;    // every [table] that was written, in the order of the file
  std::vector<Settings> sites;     // every [[site]]
  std::vector<Settings> links;     // every [[wan.link]]
  std::vector<Settings> shared;    // every [[wan.shared]]
  std::vector<Settings> traces;    // every [[wan.trace]]
  std::vector<Settings> queries;   // every [[focus.query]]
  std::vector<Settings> given;     // every [[focus.model]]
  std::vector<Settings> cheap;     // every [[focus.cheap]]
  std::vector<Settings> faults;    // every [[fault]]
  std::vector<Settings> variants;  // every [for.KIND.TABLE], table = "for.KIND.TABLE"
  std::vector<Error> mistakes;     // in tables that could not be read at all: see load_document()

  // The table of that name; an empty one is made if it was not written.
  Settings& table(std::string_view name);
  const Settings* find(std::string_view name) const;
};

// The tables a job file may hold, in the order in which they are printed.
const std::vector<std::string_view>& table_names();

// Any text gives a Document or an Error with file and line: the first. `collects`: a bad table is
// left out, and its error is in Document::mistakes.
Result<Document> parse_document(std::string_view text, std::string file, bool collects = false);
// Reads the file; a directory, a missing or an oversized file is an Error.
Result<Document> read_document(const std::string& path, bool collects = false);
// Applies one `table.key=value` of the command line. The value is TOML; a bare word is a string.
// `site.*.key` means every site.
Status override_setting(Document&, std::string_view assignment);

// The whole of a small text file, or an Error that says what is wrong with the path.
Result<std::string> read_text_file(const std::string& path, const std::string& what);

}  // namespace longhaul::run
