#include "longhaul/learn/data/csv.h"

#include <algorithm>

#include <fmt/format.h>

#include "longhaul/base/settings.h"

namespace longhaul::learn {
namespace {

struct FieldText {
  std::string text;
  std::size_t column = 0;  // byte in the line, from 1
};

class CsvReader {
 public:
  CsvReader(std::string_view name, const CsvOptions& options)
      : name_(name), options_(options), targets_(options.target) {}

  Status line(std::string_view text, std::size_t number) {
    if (trimmed(text).empty()) return Ok{};
    if (width_ == 0) separator_ = find_separator(text);
    LH_TRY(split(text, number));
    if (width_ == 0) {
      width_ = fields_.size();
      const bool header = options_.header.value_or(std::ranges::none_of(
          fields_, [](const FieldText& f) { return bool(parse_number(f.text)); }));
      if (header)
        for (const FieldText& field : fields_) header_.push_back(field.text);
      LH_TRY(choose_columns(number));
      if (header) return Ok{};
    }
    return sample(number);
  }

  Result<DataSet> finish() && {
    DataSet data;
    LH_TRY(std::move(targets_).finish(name_, data));
    data.shape.sample = {std::int64_t(std::ranges::count(used_, Use::feature))};
    data.features = std::move(features_);
    for (std::size_t i = 0; i < width_; ++i)
      if (used_[i] == Use::feature) data.columns.push_back(title(i));
    return data;
  }

 private:
  enum class Use { feature, target, ignored };

  static char find_separator(std::string_view line) {
    for (const char candidate : {',', ';', '\t'})
      if (line.find(candidate) != std::string_view::npos) return candidate;
    return ',';
  }

  // The fields of one line, into fields_.
  Status split(std::string_view line, std::size_t number) {
    fields_.clear();
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
      fields_.push_back(std::move(field));
      if (at >= line.size()) return Ok{};
      ++at;  // the separator
    }
  }

  // From the quote at `at` to the separator or the line's end, where `at` is left.
  Status unquote(std::string_view line, std::size_t number, std::size_t& at, std::string& text) {
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

  // Which column a name or number means, or an Error that names `key` and the nearest column.
  Result<std::size_t> column(const std::string& wanted, std::string_view key, std::size_t number) {
    const auto found = std::ranges::find(header_, wanted);
    if (found != header_.end()) return std::size_t(found - header_.begin());
    const auto place = parse_whole(wanted);
    if (place && *place >= 1 && *place <= width_) return std::size_t(*place - 1);
    std::string known = fmt::format(" (columns: 1 to {}; no header)", width_);
    if (!header_.empty()) known = suggestion(wanted, {header_.begin(), header_.end()});
    return invalid(fmt::format("{}:{}: [data] {}: no column {}{}", name_, number, key,
                               in_quotes(wanted), known));
  }

  Status choose_columns(std::size_t number) {
    used_.assign(width_, Use::feature);
    for (const std::string& name : options_.ignore) {
      auto place = column(name, "ignore", number);
      if (!place) return place.error();
      used_[*place] = Use::ignored;
    }
    auto target = options_.column.empty() ? Result<std::size_t>(width_ - 1)
                                          : column(options_.column, "target", number);
    if (!target) return target.error();
    if (used_[*target] == Use::ignored)
      return invalid(
          fmt::format("{}:{}: column {} is both the [data] target and in `ignore`; name "
                      "another target",
                      name_, number, *target + 1));
    used_[*target] = Use::target;
    if (std::ranges::count(used_, Use::feature) == 0)
      return malformed(
          fmt::format("{}:{}: expected at least one column beside the target, found {}", name_,
                      number, width_));
    return Ok{};
  }

  Status sample(std::size_t number) {
    if (fields_.size() != width_)
      return malformed(fmt::format("{}:{}: expected {} columns as in the first line, found {}",
                                   name_, number, width_, fields_.size()));
    for (std::size_t i = 0; i < width_; ++i) {
      const FieldText& field = fields_[i];
      const TextPlace at{name_, number, field.column};
      if (used_[i] == Use::target) LH_TRY(targets_.add(field.text, at));
      if (used_[i] != Use::feature) continue;
      const auto value = parse_float(field.text);
      if (!value) {
        const std::string named = header_.empty() ? title(i) : in_quotes(title(i));
        return bad_text(
            at, fmt::format("a number in column {} (or leave it out: [data] ignore)", named),
            field.text);
      }
      features_.push_back(*value);
    }
    return Ok{};
  }

  std::string title(std::size_t column) const {
    return header_.empty() ? std::to_string(column + 1) : header_[column];
  }

  std::string_view name_;
  const CsvOptions& options_;
  Targets targets_;
  char separator_ = ',';
  std::vector<FieldText> fields_;
  std::vector<std::string> header_;
  std::size_t width_ = 0;
  std::vector<Use> used_;
  std::vector<float> features_;
};

}  // namespace

Result<DataSet> read_csv(std::string_view text, std::string_view name, const CsvOptions& options) {
  CsvReader reader(name, options);
  Lines lines(text);
  std::string_view line;
  while (lines.next(line)) LH_TRY(reader.line(line, lines.number()));
  return std::move(reader).finish();
}

}  // namespace longhaul::learn
