#include "longhaul/base/settings.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "longhaul/base/overloaded.h"

namespace longhaul {
namespace {

std::string range_text(const Field& f, std::string_view noun) {
  std::string text(noun);
  const bool low = std::isfinite(f.min), high = std::isfinite(f.max);
  if (f.positive && high)
    text += fmt::format(" above 0 and at most {:g}", f.max);
  else if (f.positive)
    text += " above 0";
  else if (low && high)
    text += fmt::format(" from {:g} to {:g}", f.min, f.max);
  else if (low)
    text += fmt::format(" of at least {:g}", f.min);
  else if (high)
    text += fmt::format(" of at most {:g}", f.max);
  if (!f.unit.empty()) text += fmt::format(" ({})", f.unit);
  return text;
}

bool in_range(const Field& f, double value) {
  return std::isfinite(value) && value >= f.min && value <= f.max && !(f.positive && value <= 0);
}

std::string join(const std::vector<std::string_view>& names) {
  return fmt::format("{}", fmt::join(names, ", "));
}

template <class Unsigned>
Status read_unsigned(const Settings& s, const Setting& e, const Field& f, Unsigned& into) {
  const auto* number = std::get_if<std::int64_t>(&e.value.data);
  Field whole = f;
  whole.min = std::max(f.min, 0.0);
  if (!number || *number < 0 || std::uint64_t(*number) > std::numeric_limits<Unsigned>::max() ||
      !in_range(whole, double(*number)))
    return bad_setting(s, e, range_text(whole, "a whole number"));
  into = Unsigned(*number);
  return Ok{};
}

// What a lenient field takes for a string: a whole number, too.
std::optional<std::string> string_in(const Value& value, const Field& f) {
  if (const auto* text = std::get_if<std::string>(&value.data)) return *text;
  const auto* number = std::get_if<std::int64_t>(&value.data);
  if (f.lenient && number && *number >= 0) return std::to_string(*number);
  return std::nullopt;
}

template <class T>
Status read_list(const Settings& s, const Setting& e, const Field& f, std::vector<T>& into,
                 std::string_view noun) {
  const auto* list = std::get_if<std::vector<Value>>(&e.value.data);
  if (!list) return bad_setting(s, e, fmt::format("a list of {}", noun));
  if (double(list->size()) > kDefaultMaxElements)
    return invalid(fmt::format("{}: [{}] {}: expected at most {} elements, found {}", source_of(e),
                               s.table, e.key, kDefaultMaxElements, list->size()));
  std::vector<T> values;
  for (const Value& element : *list) {
    const Setting one{e.key, element, e.file, e.line};  // without the other elements
    LH_TRY(read_value(s, one, f, values.emplace_back()));
  }
  into = std::move(values);
  return Ok{};
}

template <class T>
Value list_of(const std::vector<T>& elements) {
  std::vector<Value> list(elements.size());
  for (std::size_t i = 0; i < elements.size(); ++i) list[i].data = elements[i];
  Value value;
  value.data = std::move(list);
  return value;
}

}  // namespace

std::string to_text(const Value& value) {
  return std::visit(
      Overloaded{[](bool b) { return std::string(b ? "true" : "false"); },
                 [](std::int64_t i) { return fmt::format("{}", i); },
                 [](double d) {
                   std::string text = fmt::format("{}", d);
                   return text.find_first_of(".einf") == std::string::npos ? text + ".0" : text;
                 },
                 [](const std::string& s) {
                   std::string text = "\"";
                   for (char c : s) {
                     if (c == '"' || c == '\\') text += '\\';
                     if (static_cast<unsigned char>(c) < 0x20)
                       text += fmt::format("\\u{:04x}", c);
                     else
                       text += c;
                   }
                   return text + '"';
                 },
                 [](const std::vector<Value>& list) {
                   std::vector<std::string> parts;
                   for (const Value& v : list) parts.push_back(to_text(v));
                   return fmt::format("[{}]", fmt::join(parts, ", "));
                 }},
      value.data);
}

std::string source_of(const std::string& file, int line) {
  return line > 0 ? fmt::format("{}:{}", file, line) : file;
}

const Setting* Settings::find(std::string_view key) const {
  for (const Setting& entry : entries)
    if (entry.key == key) return &entry;
  return nullptr;
}

std::optional<std::string> Settings::text(std::string_view key) const {
  const Setting* entry = find(key);
  const auto* text = entry ? std::get_if<std::string>(&entry->value.data) : nullptr;
  return text ? std::optional(*text) : std::nullopt;
}

void Settings::set(Setting entry) {
  for (Setting& old : entries)
    if (old.key == entry.key) return void(old = std::move(entry));
  entries.push_back(std::move(entry));
}

// The value and what is near to it come before a long list of names (suggestion()).
Error bad_setting(const Settings& s, const Setting& e, const std::string& expected) {
  const std::size_t hint = std::min(expected.find("; did you mean"), expected.find(" (known: "));
  return invalid(fmt::format("{}: [{}] {}: expected {}, found {}{}", source_of(e), s.table, e.key,
                             expected.substr(0, hint), to_text(e.value),
                             hint < expected.size() ? expected.substr(hint) : ""));
}

Status refuse_unknown(const Settings& s, const std::vector<std::string_view>& known) {
  for (const Setting& e : s.entries) {
    if (std::find(known.begin(), known.end(), e.key) != known.end()) continue;
    return invalid(fmt::format("{}: [{}] {}: unknown key{}", source_of(e), s.table, e.key,
                               suggestion(e.key, known)));
  }
  return Ok{};
}

std::string_view nearest(std::string_view name, const std::vector<std::string_view>& names) {
  std::string_view best;
  std::size_t best_distance = std::max<std::size_t>(2, name.size() / 3) + 1;
  for (std::string_view candidate : names) {
    std::vector<std::size_t> row(candidate.size() + 1);  // Levenshtein, one row at a time
    std::iota(row.begin(), row.end(), 0);
    for (std::size_t i = 1; i <= name.size(); ++i) {
      std::size_t diagonal = std::exchange(row[0], i);
      for (std::size_t j = 1; j <= candidate.size(); ++j) {
        const std::size_t replace = diagonal + (name[i - 1] != candidate[j - 1]);
        diagonal = row[j];
        row[j] = std::min({replace, row[j] + 1, row[j - 1] + 1});
      }
    }
    if (row.back() < best_distance) {
      best_distance = row.back();
      best = candidate;
    }
  }
  return best;
}

std::string suggestion(std::string_view name, const std::vector<std::string_view>& names) {
  const std::string_view near = nearest(name, names);
  std::string text = near.empty() ? "" : fmt::format("; did you mean '{}'?", near);
  return text + (names.empty() ? "" : fmt::format(" (known: {})", join(names)));
}

Status read_value(const Settings& s, const Setting& e, const Field&, bool& into) {
  const auto* flag = std::get_if<bool>(&e.value.data);
  if (!flag) return bad_setting(s, e, "true or false");
  into = *flag;
  return Ok{};
}
Status read_value(const Settings& s, const Setting& e, const Field& f, std::uint32_t& into) {
  return read_unsigned(s, e, f, into);
}
Status read_value(const Settings& s, const Setting& e, const Field& f, std::uint64_t& into) {
  return read_unsigned(s, e, f, into);
}
Status read_value(const Settings& s, const Setting& e, const Field& f, double& into) {
  const auto* whole = std::get_if<std::int64_t>(&e.value.data);
  const auto* real = std::get_if<double>(&e.value.data);
  const double number = whole ? double(*whole) : real ? *real : 0;
  if ((!whole && !real) || !in_range(f, number))
    return bad_setting(s, e, range_text(f, "a number"));
  into = number;
  return Ok{};
}
Status read_value(const Settings& s, const Setting& e, const Field& f, std::string& into) {
  const auto text = string_in(e.value, f);
  if (!text) {
    return bad_setting(
        s, e, f.choices.empty() ? "a string in quotes" : fmt::format("one of {}", join(f.choices)));
  }
  const double most = std::isfinite(f.max) ? f.max : kDefaultMaxElements;
  if (double(text->size()) > most)
    return bad_setting(s, e, fmt::format("a string of at most {} bytes", most));
  if (!f.choices.empty() && std::find(f.choices.begin(), f.choices.end(), *text) == f.choices.end())
    return bad_setting(s, e, "a known name" + suggestion(*text, f.choices));
  into = *text;
  return Ok{};
}
Status read_value(const Settings& s, const Setting& e, const Field& f,
                  std::vector<std::string>& into) {
  if (f.lenient && string_in(e.value, f)) {
    std::string one;
    LH_TRY(read_value(s, e, f, one));
    into = {std::move(one)};
    return Ok{};
  }
  return read_list(s, e, f, into, "strings");
}
Status read_value(const Settings& s, const Setting& e, const Field& f, std::vector<double>& into) {
  return read_list(s, e, f, into, "numbers");
}

Value to_value(bool v) { return {v}; }
Value to_value(std::uint32_t v) { return {std::int64_t{v}}; }
Value to_value(std::uint64_t v) { return {std::int64_t(v)}; }
Value to_value(double v) { return {v}; }
Value to_value(const std::string& v) { return {v}; }
Value to_value(const std::vector<std::string>& v) { return list_of(v); }
Value to_value(const std::vector<double>& v) { return list_of(v); }

std::string type_name(const Value& value) {
  constexpr const char* names[] = {"flag", "integer", "number", "string", "list"};
  return names[value.data.index()];
}

}  // namespace longhaul
