#include "longhaul/learn/data/csv_line.h"

#include <algorithm>

namespace longhaul::learn {

char find_separator(std::string_view line) {
  std::string bare;  // what is outside of quotes
  bool quoted = false;
  for (const char c : line) {
    if (c == '"') quoted = !quoted;
    if (!quoted) bare += c;
  }
  for (const char candidate : {',', ';', '\t'})
    if (bare.find(candidate) != std::string::npos) return candidate;
  return ',';
}

Status Splitter::split(std::string_view line, std::size_t number,
                       std::vector<FieldText>& fields) const {
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

Status Splitter::unquote(std::string_view line, std::size_t number, std::size_t& at,
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

}  // namespace longhaul::learn
