#include "longhaul/run/job/every_error.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "longhaul/base/settings.h"
#include "longhaul/run/job/reference.h"
#include "longhaul/sync/registry.h"

namespace longhaul::run {
namespace {

constexpr std::size_t kMostErrors = 20;

// What an error is about: "job.toml:12: [sync] steps: ...".
struct Subject {
  std::string table, key;
};

Subject subject_of(const std::string& what) {
  Subject subject;
  const std::size_t open = what.find('['), close = what.find("] ", open);
  if (open == std::string::npos || close == std::string::npos) return subject;
  subject.table = what.substr(open + 1, close - open - 1);
  const std::size_t end = what.find_first_of(": ", close + 2);
  subject.key = what.substr(close + 2, end == std::string::npos ? end : end - close - 2);
  return subject;
}

int line_of(const std::string& file, const std::string& what) {
  int line = 0;
  if (what.starts_with(file + ":"))
    std::from_chars(what.data() + file.size() + 1, what.data() + what.size(), line);
  return line;
}

// In the place of a bad kind of a table that has no default: the one that was meant, if that can
// be told, so that what is said of other tables fits it.
std::string stand_in(const Settings& table, const Subject& subject) {
  if (subject.table == "model") return "phantom";
  std::vector<std::string_view> names;
  for (const SyncEntry& entry : sync::registry()) names.push_back(entry.name);
  const std::string_view near = nearest(table.text("kind").value_or(""), names);
  return std::string(near.empty() ? names.front() : near);
}

// Parts that exist and cannot be combined: "[sync] kind = "fedasync" talks to its server ...".
bool is_combination(const std::string& what) {
  const Subject subject = subject_of(what);
  return subject.key == "kind" &&
         what.find(fmt::format("[{}] kind = ", subject.table)) != std::string::npos;
}

// Of a bad kind the keys of the table cannot be judged either: the table is taken out.
bool take_out(Document& doc, const Subject& subject) {
  for (auto* list : {&doc.tables, &doc.sites, &doc.links, &doc.shared, &doc.traces, &doc.queries,
                     &doc.given, &doc.cheap, &doc.faults, &doc.variants}) {
    const auto table = std::find_if(list->begin(), list->end(), [&](const Settings& one) {
      return one.table == subject.table && one.find(subject.key);
    });
    if (table == list->end()) continue;
    if (subject.key != "kind") {
      std::erase_if(table->entries, [&](const Setting& one) { return one.key == subject.key; });
      return true;
    }
    const std::string kind = stand_in(*table, subject);
    table->entries.clear();
    if (subject.table == "sync" || subject.table == "model")
      table->set({"kind", {kind}, doc.file, 0});
    return true;
  }
  return false;
}

// An unknown key that other tables have: says which.
std::string with_right_table(const std::string& what) {
  constexpr std::string_view kUnknown = ": unknown key";
  if (what.find(kUnknown) == std::string::npos) return what;
  const Subject subject = subject_of(what);
  const std::vector<std::string> tables = tables_with(subject.key);
  constexpr std::size_t kMost = 4;  // more are no hint
  if (tables.empty() || tables.size() > kMost ||
      std::ranges::count(tables, "[" + subject.table + "]") > 0)
    return what;
  const std::size_t at = what.find(kUnknown) + kUnknown.size();
  return what.substr(0, at) +
         fmt::format("; '{}' belongs in {}", subject.key, fmt::join(tables, ", ")) +
         what.substr(at);
}

}  // namespace

Error every_error(Document doc, const Error& first,
                  const std::function<Result<Job>(Document)>& resolve) {
  std::vector<Error> errors = std::exchange(doc.mistakes, {});
  const bool lacks_tables = !errors.empty();
  std::set<std::pair<std::string, std::string>> taken;  // table and key; "": all of the table
  Result<Job> job = lacks_tables ? resolve(doc) : Result<Job>(first);
  while (!job && errors.size() < kMostErrors) {
    const std::string& what = job.error().what;
    const Subject subject = subject_of(what);
    const bool changed =
        lacks_tables || std::any_of(taken.begin(), taken.end(),
                                    [&](const auto& one) { return one.first == subject.table; });
    const bool follows = taken.contains({subject.table, subject.key}) ||
                         taken.contains({subject.table, ""}) ||
                         (changed && what.find(": missing") != std::string::npos);
    if (follows) break;
    errors.push_back(job.error());
    // Which of the parts is the mistake is not known: none can be taken out.
    if (is_combination(what) || !take_out(doc, subject)) break;
    taken.insert({subject.table, subject.key == "kind" ? "" : subject.key});
    job = resolve(doc);
  }
  std::stable_sort(errors.begin(), errors.end(), [&](const Error& a, const Error& b) {
    return line_of(doc.file, a.what) < line_of(doc.file, b.what);
  });
  std::string text;
  for (const Error& error : errors)
    text += (text.empty() ? "" : "\n") + with_right_table(error.what);
  return {first.kind, text};
}

}  // namespace longhaul::run
