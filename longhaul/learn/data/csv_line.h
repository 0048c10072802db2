#pragma once
// Internal to csv.cpp: a line of a table cut into its fields.
#include <string>
#include <string_view>
#include <vector>

#include "longhaul/learn/data/text.h"

namespace longhaul::learn {

struct FieldText {
  std::string text;
  std::size_t column = 0;  // byte in the line, from 1
};

// The first of , ; tab that the line holds outside of quotes; a comma if it holds none.
char find_separator(std::string_view line);

// Cuts lines into fields. `name` stands for the file in messages, and outlives this.
class Splitter {
 public:
  Splitter(std::string_view name, char separator) : name_(name), separator_(separator) {}
  char separator() const { return separator_; }
  Status split(std::string_view line, std::size_t number, std::vector<FieldText>& fields) const;

 private:
  // From the quote at `at` to the separator or the line's end, where `at` is left.
  Status unquote(std::string_view line, std::size_t number, std::size_t& at,
                 std::string& text) const;

  std::string_view name_;
  char separator_;
};

}  // namespace longhaul::learn
