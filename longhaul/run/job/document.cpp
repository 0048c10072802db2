#include "longhaul/run/job/document.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>
#include <toml++/toml.h>

namespace longhaul::run {
namespace {

constexpr std::uintmax_t kMaxJobFile = 128 << 20;
constexpr std::size_t kMaxArray = 65536;
constexpr std::size_t kMaxKeyParts = 100;
constexpr std::size_t kMaxTables = 1 << 20;  // of one name

Error at(const std::string& file, const toml::node& node, const std::string& what) {
  return malformed(fmt::format("{}:{}: {}", file, node.source().begin.line, what));
}

Result<Value> to_setting_value(const std::string& file, const toml::node& node,
                               const std::string& key, int depth = 0) {
  if (const auto* flag = node.as_boolean()) return Value{flag->get()};
  if (const auto* whole = node.as_integer()) return Value{std::int64_t{whole->get()}};
  if (const auto* real = node.as_floating_point()) return Value{real->get()};
  if (const auto* text = node.as_string()) return Value{text->get()};
  const auto* array = node.as_array();
  if (array && depth < 2 && array->size() <= kMaxArray) {
    std::vector<Value> list;
    for (const toml::node& element : *array) {
      LH_LET(value, to_setting_value(file, element, key, depth + 1));
      list.push_back(std::move(value));
    }
    return Value{std::move(list)};
  }
  return at(file, node, key + ": expected a number, a string, true, false or a short list of them");
}

// One TOML table as Settings, its keys in the order of the file.
Result<Settings> to_settings(const std::string& file, const toml::table& table, std::string name,
                             const std::vector<std::string_view>& skip = {}) {
  Settings settings{std::move(name), file, int(table.source().begin.line), {}};
  for (const auto& [key, node] : table) {
    if (std::find(skip.begin(), skip.end(), key.str()) != skip.end()) continue;
    const std::string where = fmt::format("[{}] {}", settings.table, key.str());
    LH_LET(value, to_setting_value(file, node, where));
    settings.entries.push_back(
        {std::string(key.str()), std::move(value), file, int(key.source().begin.line)});
  }
  std::stable_sort(settings.entries.begin(), settings.entries.end(),
                   [](const Setting& a, const Setting& b) { return a.line < b.line; });
  return settings;
}

// An array of tables. `label` names the i-th in errors and for --set.
template <class Label>
Status read_array(const std::string& file, const toml::node& node, std::string_view written,
                  std::vector<Settings>& into, Label&& label) {
  const auto* array = node.as_array();
  if (!array)
    return at(file, node,
              fmt::format("expected [[{0}]] with double brackets: there may be several "
                          "of them",
                          written));
  if (array->size() > kMaxTables)
    return at(file, node, fmt::format("at most {} of [[{}]]", kMaxTables, written));
  for (const toml::node& element : *array) {
    const auto* table = element.as_table();
    if (!table) return at(file, element, fmt::format("expected tables written as [[{}]]", written));
    LH_LET(settings, to_settings(file, *table, label(*table, into.size())));
    into.push_back(std::move(settings));
  }
  return Ok{};
}

std::string site_label(const toml::table& table, std::size_t index) {
  const auto name = table["name"].value<std::string_view>();
  return name && !name->empty() && name->size() <= 64 ? fmt::format("site.{}", *name)
                                                      : fmt::format("site[{}]", index);
}

Status unknown_table(const std::string& file, const toml::node& node, std::string_view name) {
  return at(file, node,
            fmt::format("[{}]: unknown table{}", name, suggestion(name, table_names())));
}

// [for.KIND.TABLE]
Status read_variants(Document& doc, const toml::node& node) {
  const auto* kinds = node.as_table();
  if (!kinds) return at(doc.file, node, "expected tables written as [for.KIND.TABLE]");
  for (const auto& [kind, tables] : *kinds) {
    if (!tables.is_table())
      return at(doc.file, tables,
                fmt::format("[for] {}: expected a table written as [for.{}.TABLE]", kind.str(),
                            kind.str()));
    for (const auto& [name, table] : *tables.as_table()) {
      const auto& names = table_names();
      if (name.str() == "site" || name.str() == "for" ||
          std::find(names.begin(), names.end(), name.str()) == names.end())
        return unknown_table(doc.file, table, name.str());
      if (!table.is_table())
        return at(doc.file, table,
                  fmt::format("expected a table written as [for.{}.{}]", kind.str(), name.str()));
      LH_LET(settings, to_settings(doc.file, *table.as_table(),
                                   fmt::format("for.{}.{}", kind.str(), name.str())));
      doc.variants.push_back(std::move(settings));
    }
  }
  return Ok{};
}

Status read_inner_array(Document& doc, const toml::table& table, std::string_view outer,
                        std::string_view key, std::vector<Settings>& into) {
  const std::string name = fmt::format("{}.{}", outer, key);
  const auto label = [&](const toml::table&, std::size_t index) {
    return fmt::format("{}[{}]", name, index);
  };
  if (const toml::node* array = table.get(key))
    LH_TRY(read_array(doc.file, *array, name, into, label));
  return Ok{};
}

Status read_table(Document& doc, std::string_view name, const toml::node& node) {
  const auto& names = table_names();
  if (std::find(names.begin(), names.end(), name) == names.end()) {
    if (node.is_table() || node.is_array_of_tables()) return unknown_table(doc.file, node, name);
    return at(doc.file, node,
              fmt::format("{}: a key outside of any table; write it below a [table]", name));
  }
  if (name == "site") return read_array(doc.file, node, name, doc.sites, site_label);
  if (name == "for") return read_variants(doc, node);
  if (name == "fault")
    return read_array(doc.file, node, name, doc.faults, [](const toml::table&, std::size_t index) {
      return fmt::format("fault[{}]", index);
    });
  const auto* table = node.as_table();
  if (!table) return at(doc.file, node, fmt::format("expected a table, written as [{}]", name));
  std::vector<std::string_view> read;
  if (name == "wan") {
    LH_TRY(read_inner_array(doc, *table, name, "link", doc.links));
    LH_TRY(read_inner_array(doc, *table, name, "shared", doc.shared));
    LH_TRY(read_inner_array(doc, *table, name, "trace", doc.traces));
    read = {"link", "shared", "trace"};
  }
  if (name == "focus") {
    LH_TRY(read_inner_array(doc, *table, name, "query", doc.queries));
    LH_TRY(read_inner_array(doc, *table, name, "model", doc.given));
    LH_TRY(read_inner_array(doc, *table, name, "cheap", doc.cheap));
    read = {"query", "model", "cheap"};
  }
  LH_LET(settings, to_settings(doc.file, *table, std::string(name), read));
  doc.tables.push_back(std::move(settings));
  return Ok{};
}

// Line of the first dotted key with too many parts; 0: there is none. The parser makes a table of
// each part inside the one before, which it cannot even free again if there are very many. Dots
// outside of strings and comments are counted from one delimiter to the next.
int line_of_long_key(std::string_view text) {
  std::size_t dots = 0;
  int line = 1;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"' || c == '\'') {
      const std::size_t quotes = text.substr(i, 3) == std::string(3, c) ? 3 : 1;
      std::size_t end = i + quotes;
      while (end < text.size() && text.substr(end, quotes) != std::string(quotes, c)) {
        if (text[end] == '\n' && quotes == 1) break;  // not closed: the parser says so
        line += text[end] == '\n';
        end += c == '"' && text[end] == '\\' ? 2 : 1;
      }
      i = std::min(text.size(), end + quotes) - 1;
      if (end < text.size() && text[end] == '\n' && quotes == 1) i = end - 1;
    } else if (c == '#') {
      i = std::min(text.find('\n', i), text.size()) - 1;
    } else if (c == '.') {
      if (++dots > kMaxKeyParts) return line;
    } else if (std::string_view("\n,=[]{}").find(c) != std::string_view::npos) {
      dots = 0;
      line += c == '\n';
    }
  }
  return 0;
}

// The value of a --set: TOML if it is that, else the text itself.
Value command_line_value(std::string_view text) {
  if (text.find_first_of("\n\r") == std::string_view::npos && line_of_long_key(text) == 0) {
    try {
      const toml::table table = toml::parse(fmt::format("value = {}", text));
      const toml::node* node = table.size() == 1 ? table.get("value") : nullptr;
      if (node)
        if (auto value = to_setting_value("--set", *node, "value")) return *value;
    } catch (const toml::parse_error&) {
      // a bare word
    }
  }
  return Value{std::string(text)};
}

}  // namespace

const std::vector<std::string_view>& table_names() {
  static const std::vector<std::string_view> names = {
      "job",    "stop",   "report",   "model", "data",  "optimizer", "sync", "overlay",
      "roles",  "server", "transfer", "codec", "outer", "net",       "cost", "wan",
      "hetero", "focus",  "run",      "fault", "site",  "for"};
  return names;
}

Settings& Document::table(std::string_view name) {
  for (Settings& settings : tables)
    if (settings.table == name) return settings;
  tables.push_back({std::string(name), file, 0, {}});
  return tables.back();
}

const Settings* Document::find(std::string_view name) const {
  for (const Settings& settings : tables)
    if (settings.table == name) return &settings;
  return nullptr;
}

Result<Document> parse_document(std::string_view text, std::string file, bool collects) {
  Document doc;
  doc.file = std::move(file);
  if (const int line = line_of_long_key(text); line > 0)
    return malformed(fmt::format("{}:{}: a dotted key of more than {} parts; expected TABLE.KEY",
                                 doc.file, line, kMaxKeyParts));
  try {
    const toml::table root = toml::parse(text, std::string_view(doc.file));
    for (const auto& [name, node] : root) {
      const Status read = read_table(doc, name.str(), node);
      if (!read && !collects) return read.error();
      if (!read) doc.mistakes.push_back(read.error());
    }
  } catch (const toml::parse_error& error) {
    return malformed(fmt::format("{}:{}: not valid TOML: {}", doc.file, error.source().begin.line,
                                 error.description()));
  }
  std::stable_sort(doc.tables.begin(), doc.tables.end(),
                   [](const Settings& a, const Settings& b) { return a.line < b.line; });
  return doc;
}

Result<std::string> read_text_file(const std::string& path, const std::string& what) {
  std::error_code code;
  const auto status = std::filesystem::status(path, code);
  if (!std::filesystem::exists(status))
    return unavailable(fmt::format("{}: no such {}; check the path", path, what));
  if (std::filesystem::is_directory(status))
    return invalid(fmt::format("{}: is a directory; expected a {}", path, what));
  std::ifstream in(path, std::ios::binary);
  if (!in) return unavailable(fmt::format("{}: cannot be opened for reading", path));
  const auto size = std::filesystem::is_regular_file(status)
                        ? std::min(std::filesystem::file_size(path, code), kMaxJobFile)
                        : kMaxJobFile;
  std::string text(size + 1, '\0');
  in.read(text.data(), std::streamsize(text.size()));
  if (in.bad()) return unavailable(fmt::format("{}: reading it failed", path));
  text.resize(std::size_t(in.gcount()));
  if (text.size() > kMaxJobFile)
    return invalid(
        fmt::format("{}: larger than {} MiB; expected a {}", path, kMaxJobFile >> 20, what));
  return text;
}

Result<Document> read_document(const std::string& path, bool collects) {
  LH_LET(text, read_text_file(path, "job file (TOML)"));
  return parse_document(text, path, collects);
}

Status override_setting(Document& doc, std::string_view assignment) {
  const std::size_t equals = assignment.find('=');
  const std::string_view name = assignment.substr(0, equals);
  const std::size_t dot = name.rfind('.');
  if (equals != std::string_view::npos && dot == std::string_view::npos &&
      std::ranges::find(table_names(), name) != table_names().end())
    return invalid(
        fmt::format("--set {}: {} is a table; its keys are set one by one: --set {}.KEY=VALUE, "
                    "for example --set {}.kind=...",
                    assignment, name, name, name));
  if (equals == std::string_view::npos || dot == std::string_view::npos || dot == 0 ||
      dot + 1 == name.size())
    return invalid(fmt::format(
        "--set {}: expected table.key=value, for example --set sync.steps=20", assignment));
  const std::string_view table = name.substr(0, dot);
  const Setting entry{std::string(name.substr(dot + 1)),
                      command_line_value(assignment.substr(equals + 1)), "--set", 0};
  if (table == "site.*") {
    for (Settings& site : doc.sites) site.set(entry);
    return Ok{};
  }
  const bool listed = table.starts_with("site") || table.starts_with("wan.") ||
                      table.starts_with("focus.") || table.starts_with("fault");
  if (listed) {
    std::vector<std::string_view> known;
    for (auto* list : {&doc.sites, &doc.links, &doc.shared, &doc.traces, &doc.queries, &doc.given,
                       &doc.cheap, &doc.faults})
      for (Settings& settings : *list) {
        if (settings.table == table) return settings.set(entry), Ok{};
        known.push_back(settings.table);
      }
    return invalid(
        fmt::format("--set {}: the job has no {}{}", assignment, table, suggestion(table, known)));
  }
  const auto& names = table_names();
  if (std::find(names.begin(), names.end(), table) == names.end())
    return invalid(fmt::format("--set {}: [{}]: unknown table{}", assignment, table,
                               suggestion(table, names)));
  doc.table(table).set(entry);
  return Ok{};
}

}  // namespace longhaul::run
