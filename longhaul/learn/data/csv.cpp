#include "longhaul/learn/data/csv.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include <fmt/format.h>

#include "longhaul/base/settings.h"
#include "longhaul/learn/data/errors.h"

namespace longhaul::learn {
namespace {

struct FieldText {
  std::string text;
  std::size_t column = 0;  // byte in the line, from 1
};

// Returns the first of , ; tab that the line holds outside of quotes; a comma if it holds none.
char find_separator(std::string_view line) {
  std::string bare;  // part outside of quotes
  bool quoted = false;
  for (const char c : line) {
    if (c == '"') quoted = !quoted;
    if (!quoted) bare += c;
  }
  for (const char candidate : {',', ';', '\t'})
    if (bare.find(candidate) != std::string::npos) return candidate;
  return ',';
}

// A cutter of lines into fields. `name` is the file's name in messages, and must outlive this.
class Splitter {
 public:
  Splitter(std::string_view name, char separator) : name_(name), separator_(separator) {}
  char separator() const { return separator_; }
  Status split(std::string_view line, std::size_t number, std::vector<FieldText>& fields) const {
    fields.clear();
    for (std::size_t at = 0;;) {
      const std::size_t first = line.find_first_not_of(separator_ == '\t' ? " " : " \t", at);
      FieldText field{{}, std::min(first, line.size()) + 1};
      if (first != std::string_view::npos && line[first] == '"') {
        at = first;
        LH_TRY(unquote(line, number, at, field.text));
      } else {
        const std::size_t end = std::min(line.find(separator_, at), line.size());
        field.text = trimmed(line.substr(at, end - at));
        at = end;
      }
      fields.push_back(std::move(field));
      if (at >= line.size()) return Ok{};
      ++at;  // the separator
    }
  }

 private:
  // Reads from the quote at `at` to the separator or the line's end, and moves `at` there.
  Status unquote(std::string_view line, std::size_t number, std::size_t& at,
                 std::string& text) const {
    const std::size_t begin = at++;
    for (;; ++at) {
      if (at == line.size())
        return bad_text({name_, number, begin + 1}, "a quote that ends on its line",
                        line.substr(begin));
      if (line[at] != '"') {
        text += line[at];
      } else if (at + 1 < line.size() && line[at + 1] == '"') {
        text += line[at++];
      } else {
        break;
      }
    }
    const std::size_t after = line.find_first_not_of(" ", at + 1);
    at = std::min(after, line.size());
    if (at < line.size() && line[at] != separator_)
      return bad_text({name_, number, at + 1}, "a separator after the quote", line.substr(at));
    return Ok{};
  }

  std::string_view name_;
  char separator_;
};

constexpr float kMissing = std::numeric_limits<float>::quiet_NaN();

bool is_missing(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(),
                         [](unsigned char c) { return char(c < 0x80 ? std::tolower(c) : c); });
  for (const std::string_view known : {"", "na", "n/a", "nan", "null", "none", "?"})
    if (lower == known) return true;
  return false;
}

// A column of the file that the model reads.
struct Source {
  std::size_t field = 0;
  std::string title;
  bool categorical = false, open = false;  // open: the values are those found in the file
  std::map<std::string, std::size_t, std::less<>> values = {};  // by value: order in the file
  // Unreadable cells, and the first of them.
  std::size_t missing = 0, bad = 0;
  std::size_t line = 0, column = 0;
  std::string text = {};
};

// Splits "colour = red | green" into name and values.
std::pair<std::string, std::vector<std::string>> category(const std::string& text) {
  const std::size_t equals = text.find('=');
  const std::string_view name = std::string_view(text).substr(0, equals);
  std::pair<std::string, std::vector<std::string>> parsed{std::string(trimmed(name)), {}};
  if (equals == std::string::npos) return parsed;
  std::string_view rest = std::string_view(text).substr(equals + 1);
  for (;;) {
    const std::size_t bar = rest.find('|');
    parsed.second.emplace_back(trimmed(rest.substr(0, bar)));
    if (bar == std::string_view::npos) return parsed;
    rest.remove_prefix(bar + 1);
  }
}

std::string list_of(const std::vector<std::string>& names) {
  constexpr std::size_t kMost = 12;
  std::string list;
  for (std::size_t i = 0; i < std::min(names.size(), kMost); ++i)
    list += (i ? ", " : "") + in_quotes(names[i]);
  return list + (names.size() > kMost ? ", ..." : "");
}

class CsvReader {
 public:
  CsvReader(std::string_view name, const CsvOptions& options)
      : name_(name),
        options_(options),
        targets_(target_options_of(options)),
        splitter_(name, ',') {}

  Result<DataSet> read(std::string_view text) && {
    Lines lines(text);
    std::string_view line;
    std::vector<FieldText> first;
    std::size_t first_number = 0;
    while (lines.next(line)) {
      if (trimmed(line).empty()) continue;
      if (first_number == 0) {
        splitter_ = {name_, options_.separator ? options_.separator : find_separator(line)};
        LH_TRY(splitter_.split(line, first_number = lines.number(), first));
        continue;
      }
      LH_TRY(splitter_.split(line, lines.number(), fields_));
      if (width_ == 0) LH_TRY(begin(first, first_number, &fields_));
      LH_TRY(sample(lines.number()));
    }
    if (first_number > 0 && width_ == 0) LH_TRY(begin(first, first_number, nullptr));
    LH_TRY(bad_cells());
    return finish();
  }

 private:
  static TargetOptions target_options_of(const CsvOptions& options) {
    TargetOptions target = options.target;
    target.columns = std::max<std::size_t>(1, options.columns.size());
    return target;
  }

  // Reads the first line, and the one below it if there is one.
  Status begin(std::vector<FieldText>& first, std::size_t number,
               const std::vector<FieldText>* second) {
    width_ = first.size();
    const bool header = options_.header.value_or(names_columns(first, second));
    if (header)
      for (const FieldText& field : first) header_.push_back(field.text);
    LH_TRY(choose_columns(number));
    if (header) return Ok{};
    std::vector<FieldText> kept;  // `second` is fields_
    if (second) kept = std::move(fields_);
    fields_ = std::move(first);
    LH_TRY(sample(number));
    fields_ = std::move(kept);
    return Ok{};
  }

  bool names_columns(const std::vector<FieldText>& first,
                     const std::vector<FieldText>* second) const {
    if (std::ranges::none_of(first, [](const auto& f) { return bool(parse_number(f.text)); }))
      return true;
    for (std::size_t i = 0; second && i < std::min(first.size(), second->size()); ++i)
      if (!is_missing(first[i].text) && !parse_number(first[i].text) &&
          parse_number((*second)[i].text) && !looks_like_number(first[i].text))
        return true;
    return false;
  }

  // Returns true for "12,5" and "1 000", which are not names.
  static bool looks_like_number(const std::string& text) {
    return !text.empty() && text.find_first_not_of("0123456789.,+- '") == std::string::npos;
  }

  std::optional<std::size_t> place_of(const std::string& wanted) const {
    const auto found = std::ranges::find(header_, wanted);
    if (found != header_.end()) return std::size_t(found - header_.begin());
    const auto place = parse_whole(wanted);
    if (place && *place >= 1 && *place <= width_) return std::size_t(*place - 1);
    return std::nullopt;
  }

  // Returns the column of a name or number. The Error names `key` and the nearest column.
  Result<std::size_t> column(const std::string& wanted, std::string_view key,
                             std::size_t number) const {
    if (const auto place = place_of(wanted)) return *place;
    std::string known = fmt::format(" (columns: 1 to {}; no header)", width_);
    if (!header_.empty()) known = suggestion(wanted, {header_.begin(), header_.end()});
    return invalid("{}:{}: [data] {}: no column {}{}", name_, number, key, in_quotes(wanted),
                   known);
  }

  Status choose_columns(std::size_t number) {
    std::vector<bool> used(width_, false);
    for (const std::string& name : options_.ignore) {
      if (options_.like && !place_of(name)) continue;  // in the other file
      LH_LET(place, column(name, "ignore", number));
      used[place] = true;
    }
    const bool by_name = options_.like && !options_.like->target_columns.empty();
    if (options_.like && by_name == header_.empty()) return unlike_headers(number);
    if (options_.to_predict)
      pass_over_targets(used);
    else
      LH_TRY(
          choose_targets(by_name ? options_.like->target_columns : options_.columns, number, used));
    if (std::ranges::count(used, false) == 0)
      return malformed("{}:{}: expected at least one column beside the target, found {}", name_,
                       number, width_);
    for (std::size_t i = 0; i < width_; ++i)
      if (!used[i]) sources_.push_back({.field = i, .title = title(i)});
    std::set<std::string> titles;
    for (const Source& source : sources_)
      if (!titles.insert(source.title).second)
        return malformed("{}:{}: two columns are called {}; rename one", name_, number,
                         in_quotes(source.title));
    return options_.like ? order_like(number) : choose_categories(number);
  }

  // Skips targets. Without a header: the last column, if there is one more than the model reads.
  void pass_over_targets(std::vector<bool>& used) const {
    for (const std::string& name : options_.like->target_columns)
      if (const auto place = place_of(name)) used[*place] = true;
    const auto left = std::size_t(std::ranges::count(used, false));
    if (header_.empty() && left == sources_of(*options_.like).size() + 1) used.back() = true;
  }

  Status choose_targets(const std::vector<std::string>& wanted, std::size_t number,
                        std::vector<bool>& used) {
    if (wanted.empty()) target_fields_.push_back(width_ - 1);
    for (const std::string& name : wanted) {
      LH_LET(place, column(name, "target", number));
      if (std::ranges::count(target_fields_, place))
        return invalid("{}:{}: column {} is twice in [data] target", name_, number, place + 1);
      target_fields_.push_back(place);
    }
    for (const std::size_t place : target_fields_) {
      if (used[place])
        return invalid(
            "{}:{}: column {} is both the [data] target and in `ignore`; name another target",
            name_, number, place + 1);
      used[place] = true;
    }
    return Ok{};
  }

  Status choose_categories(std::size_t number) {
    for (const std::string& text : options_.categorical) {
      const auto [name, values] = category(text);
      LH_LET(place, column(name, "categorical", number));
      const auto source = std::ranges::find(sources_, place, &Source::field);
      if (source == sources_.end())
        return invalid(
            "{}:{}: [data] categorical: column {} is the target, or left out by `ignore`", name_,
            number, in_quotes(name));
      source->categorical = true;
      source->open = values.empty();
      for (const std::string& value : values) source->values.emplace(value, source->values.size());
    }
    return Ok{};
  }

  Error unlike_headers(std::size_t number) const {
    const bool here = !header_.empty();
    return malformed("{}:{}: {} header, and {} {}: columns are matched by name; {}", name_, number,
                     here ? "has a" : "has no", options_.like_name, here ? "has none" : "has one",
                     here ? "give both files one, or say [data] header = false where it is none"
                          : fmt::format("expected the columns {}", list_of(names_of_like())));
  }

  std::vector<std::string> names_of_like() const {
    std::vector<std::string> names;
    for (const Source& source : sources_of(*options_.like)) names.push_back(source.title);
    const auto& targets = options_.like->target_columns;
    names.insert(names.end(), targets.begin(), targets.end());
    return names;
  }

  // Returns the sources of `data`: one for each number, and one for each category.
  static std::vector<Source> sources_of(const DataSet& data) {
    std::vector<Source> sources;
    std::size_t next = 0;
    for (std::size_t i = 0; i < data.columns.size(); ++i) {
      if (next == data.categories.size() || i != data.categories[next].first) {
        sources.push_back({.title = data.columns[i]});
        continue;
      }
      const Categories& one = data.categories[next++];
      sources.push_back({.title = one.column, .categorical = true});
      for (const std::string& value : one.values)
        sources.back().values.emplace(value, sources.back().values.size());
      i += one.values.size() - 1;
    }
    return sources;
  }

  // Orders the columns like those of the training set.
  Status order_like(std::size_t number) {
    std::vector<Source> wanted = sources_of(*options_.like);
    std::vector<std::string> lacking, strange;
    for (Source& source : wanted) {
      const auto found = std::ranges::find(sources_, source.title, &Source::title);
      if (found == sources_.end())
        lacking.push_back(source.title);
      else
        source.field = found->field;
    }
    for (const Source& source : sources_)
      if (std::ranges::count(wanted, source.title, &Source::title) == 0)
        strange.push_back(source.title);
    if (!lacking.empty() || !strange.empty())
      return malformed(
          "{}:{}: expected the columns of {}{}{}{}", name_, number, options_.like_name,
          lacking.empty() ? "" : "; missing: " + list_of(lacking),
          strange.empty() ? "" : "; not there: " + list_of(strange),
          strange.empty() || header_.empty() ? "" : " (leave them out with [data] ignore)");
    sources_ = std::move(wanted);
    return Ok{};
  }

  void note_bad(Source& source, std::size_t number, const FieldText& field, bool missing) {
    if (source.line == 0) {
      source.line = number;
      source.column = field.column;
      source.text = field.text;
    }
    ++(missing ? source.missing : source.bad);
  }

  Status sample(std::size_t number) {
    if (fields_.size() != width_)
      return malformed("{}:{}: expected {} columns as in the first line, found {}", name_, number,
                       width_, fields_.size());
    if (options_.missing == Missing::drop && has_gap()) {
      ++dropped_;
      return Ok{};
    }
    for (Source& source : sources_) cells_.push_back(cell(source, number));
    for (const std::size_t place : target_fields_) {
      const FieldText& target = fields_[place];
      LH_TRY(targets_.add(target.text, {name_, number, target.column}));
    }
    return Ok{};
  }

  // Returns true for a missing cell, except a value of a category that the job names.
  bool is_gap(const Source& source) const {
    const std::string& text = fields_[source.field].text;
    return is_missing(text) && !source.values.contains(text);
  }

  // Returns true if a cell of the line is missing. A label may be called "none".
  bool has_gap() const {
    for (const std::size_t place : target_fields_) {
      const std::string& target = fields_[place].text;
      if (has_targets(options_.target.task) ? is_missing(target) : target.empty()) return true;
    }
    return std::ranges::any_of(sources_, [this](const Source& one) { return is_gap(one); });
  }

  float cell(Source& source, std::size_t number) {
    const FieldText& field = fields_[source.field];
    if (is_gap(source)) {
      if (options_.missing == Missing::refuse) note_bad(source, number, field, true);
      return kMissing;
    }
    if (source.categorical) {
      const auto found = source.values.find(field.text);
      if (found != source.values.end()) return float(found->second);
      if (source.open && source.values.size() < kMaxClasses) {
        const auto added = source.values.emplace(field.text, source.values.size());
        return float(added.first->second);
      }
    } else if (const auto value = parse_float(field.text)) {
      return *value;
    }
    note_bad(source, number, field, false);
    return kMissing;
  }

  std::string expected_in(const Source& source) const {
    const std::string named = header_.empty() ? source.title : in_quotes(source.title);
    if (!source.categorical) return fmt::format("a number in column {}", named);
    if (source.open) return fmt::format("at most {} values in column {}", kMaxClasses, named);
    std::vector<std::string> values(source.values.size());
    for (const auto& [value, place] : source.values) values[place] = value;
    return fmt::format("one of {} in column {}", list_of(values), named);
  }

  // Returns an Error with all unreadable cells by column, and the place of the first one.
  Status bad_cells() const {
    const Source* first = nullptr;
    std::string counts;
    std::size_t columns = 0, missing = 0, bad = 0;
    bool comma = false, only_first_line = true;
    for (const Source& source : sources_) {
      if (source.line == 0) continue;
      if (!first || std::pair(source.line, source.column) < std::pair(first->line, first->column))
        first = &source;
      constexpr std::size_t kMost = 8;
      if (columns++ < kMost)
        counts += fmt::format("{}{} {}", counts.empty() ? "" : ", ", source.missing + source.bad,
                              in_quotes(source.title));
      missing += source.missing;
      bad += source.bad;
      only_first_line &= source.bad == 1 && source.line == 1;
      comma |= !source.categorical && splitter_.separator() != ',' &&
               looks_like_number(source.text) && source.text.find(',') != std::string::npos;
    }
    if (!first) return Ok{};
    Error error = bad_text({name_, first->line, first->column}, expected_in(*first), first->text);
    if (missing + bad > 1) error.what += fmt::format("; cells like it by column: {}", counts);
    if (missing > 0)
      error.what += "; [data] missing = \"drop\" leaves such samples out, \"mean\" fills them";
    if (comma)
      error.what += "; a decimal comma? Write 12.5 for 12,5";
    else if (bad > 0 && only_first_line && header_.empty())
      error.what += "; if the first line names the columns: [data] header = true";
    else if (bad > 0 && !first->categorical)
      error.what += "; [data] ignore leaves a column out, categorical reads names";
    return error;
  }

  // Sorts the values found, so that their order does not depend on the lines.
  static std::vector<std::size_t> places_of(Source& source) {
    std::vector<std::size_t> places(source.values.size());
    std::size_t next = 0;
    for (auto& [value, met] : source.values) places[met] = source.open ? next++ : met;
    return places;
  }

  Result<DataSet> finish() {
    DataSet data;
    if (options_.to_predict) {
      data.shape = options_.like->shape;
      data.names = options_.like->names;
      const std::size_t samples = cells_.size() / sources_.size();
      if (has_targets(data.shape.task))
        data.targets.assign(samples * std::size_t(data.shape.outputs), 0);
      else
        data.labels.assign(samples, 0);
    } else if (const Status good = std::move(targets_).finish(name_, data); !good) {
      if (dropped_ == 0) return good.error();
      return malformed("{}; {} lines were left out by [data] missing = \"drop\"", good.error().what,
                       dropped_);
    }
    data.dropped = dropped_;
    for (const std::size_t place : target_fields_)
      if (!header_.empty()) data.target_columns.push_back(header_[place]);
    std::vector<std::vector<std::size_t>> places;
    for (Source& source : sources_) {
      places.push_back(places_of(source));
      if (!source.categorical) {
        data.columns.push_back(source.title);
        continue;
      }
      std::vector<std::string> values(source.values.size());
      for (const auto& [value, met] : source.values) values[places.back()[met]] = value;
      data.categories.push_back({source.title, values, data.columns.size()});
      for (const std::string& value : values) data.columns.push_back(source.title + " = " + value);
    }
    data.shape.sample = {std::int64_t(data.columns.size())};
    if (data.categories.empty()) {
      data.features = std::move(cells_);
      return data;
    }
    data.features.reserve(data.size() * data.columns.size());
    for (std::size_t i = 0; i < cells_.size(); ++i) {
      const Source& source = sources_[i % sources_.size()];
      if (!source.categorical) {
        data.features.push_back(cells_[i]);
        continue;
      }
      const bool gap = std::isnan(cells_[i]);
      const std::size_t place = gap ? 0 : places[i % sources_.size()][std::size_t(cells_[i])];
      for (std::size_t value = 0; value < source.values.size(); ++value)
        data.features.push_back(gap ? kMissing : float(value == place));
    }
    return data;
  }

  std::string title(std::size_t column) const {
    return header_.empty() ? std::to_string(column + 1) : header_[column];
  }

  std::string_view name_;
  const CsvOptions& options_;
  Targets targets_;
  Splitter splitter_;
  std::vector<FieldText> fields_;  // fields of the current line
  std::vector<std::string> header_;
  std::size_t width_ = 0, dropped_ = 0;
  std::vector<std::size_t> target_fields_;
  std::vector<Source> sources_;  // in feature order
  std::vector<float> cells_;     // all lines, one cell per source; for a category the value's place
};

}  // namespace

Result<DataSet> read_csv(std::string_view text, std::string_view name, const CsvOptions& options) {
  return CsvReader(name, options).read(text);
}

}  // namespace longhaul::learn
