#pragma once
// Settings: one table of a job file, independent of the file's format, and the reader that fills a
// config struct from it by its fields(). Every error names file, line, key and the expected value,
// and for a misspelt name the nearest existing one.
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "longhaul/base/fields.h"
#include "longhaul/base/result.h"

namespace longhaul {

struct Value {
  std::variant<bool, std::int64_t, double, std::string, std::vector<Value>> data;
};

// Returns the value in job-file syntax: 3, 0.5, "ring", true, [1, 2].
std::string to_text(const Value&);

struct Setting {
  std::string key;
  Value value;
  std::string file = {};  // "job.toml", or "--set" for the command line
  int line = 0;           // 0: no line (command line, preset)
};

// Returns "job.toml:12", or the file alone if there is no line: "--set".
std::string source_of(const std::string& file, int line);
inline std::string source_of(const Setting& entry) { return source_of(entry.file, entry.line); }

struct Settings {
  std::string table;      // "sync"; names the table in errors
  std::string file = {};  // file with the table, or where it belongs
  int line = 0;
  std::vector<Setting> entries = {};

  const Setting* find(std::string_view key) const;
  // Returns the entry's text; empty if it is missing or no text. read_settings() reports the error.
  std::optional<std::string> text(std::string_view key) const;
  // Sets an entry; the last one wins. Used for --set and for the presets of a sync kind.
  void set(Setting);
};

// Converts `value` to the member's type, or returns an Error. One overload per member type.
Status read_value(const Settings&, const Setting&, const Field&, bool& into);
Status read_value(const Settings&, const Setting&, const Field&, std::uint32_t& into);
Status read_value(const Settings&, const Setting&, const Field&, std::uint64_t& into);
Status read_value(const Settings&, const Setting&, const Field&, double& into);
Status read_value(const Settings&, const Setting&, const Field&, std::string& into);
Status read_value(const Settings&, const Setting&, const Field&, std::vector<std::string>& into);
Status read_value(const Settings&, const Setting&, const Field&, std::vector<double>& into);
template <class T>
Status read_value(const Settings& s, const Setting& e, const Field& f, std::optional<T>& into) {
  T value{};
  LH_TRY(read_value(s, e, f, value));
  into = std::move(value);
  return Ok{};
}

// Returns an Error about one entry: "job.toml:12: [sync] steps: expected ..., found ...".
Error bad_setting(const Settings&, const Setting&, const std::string& expected);
// Returns an Error for keys that are not in `known`, with the nearest one.
Status refuse_unknown(const Settings&, const std::vector<std::string_view>& known);
// Returns the nearest of `names` by edit distance, or "" if none is near.
std::string_view nearest(std::string_view name, const std::vector<std::string_view>& names);
// Returns "; did you mean 'ring'?" or "", and the list of all names, for messages.
std::string suggestion(std::string_view name, const std::vector<std::string_view>& names);

template <Fielded Config>
std::vector<std::string_view> field_names() {
  std::vector<std::string_view> names;
  Config config{};
  Config::fields(config, [&](const Field& f, auto&) { names.push_back(f.name); });
  return names;
}

// Fills `config` from the table; missing keys keep their defaults. `also`: keys of the table that
// other code reads ("kind").
template <Fielded Config>
Status read_settings(const Settings& settings, Config& config,
                     const std::vector<std::string_view>& also = {"kind"}) {
  std::vector<std::string_view> known = field_names<Config>();
  known.insert(known.end(), also.begin(), also.end());
  LH_TRY(refuse_unknown(settings, known));
  Status status = Ok{};
  Config::fields(config, [&](const Field& field, auto& member) {
    const Setting* entry = settings.find(field.name);
    if (status && entry) status = read_value(settings, *entry, field, member);
  });
  return status;
}

// One line of a table's documentation, for `explain`, docs/job-file.md and the tests of bad input.
struct FieldDoc {
  Field field;
  std::string type = {};  // "integer", "number", "string", "flag", "list of ..."
  // Value in the given config, in job-file syntax; "" if absent.
  std::string value = {};
  Value data = {};
  bool absent = false;
};

Value to_value(bool);
Value to_value(std::uint32_t);
Value to_value(std::uint64_t);
Value to_value(double);
Value to_value(const std::string&);
Value to_value(const std::vector<std::string>&);
Value to_value(const std::vector<double>&);
std::string type_name(const Value&);

template <Fielded Config>
std::vector<FieldDoc> describe(const Config& config) {
  std::vector<FieldDoc> docs;
  Config::fields(config, [&](const Field& field, const auto& member) {
    FieldDoc doc{.field = field};
    if constexpr (requires { member.has_value(); }) {
      doc.absent = !member.has_value();
      doc.data = to_value(doc.absent ? std::decay_t<decltype(*member)>{} : *member);
    } else {
      doc.data = to_value(member);
    }
    doc.type = type_name(doc.data);
    if (!doc.absent) doc.value = to_text(doc.data);
    docs.push_back(std::move(doc));
  });
  return docs;
}

}  // namespace longhaul
