#pragma once
// Pages of docs/ that the code writes, wholly or between two lines. A test expects the page to be
// what the code says; with LONGHAUL_REWRITE=1 in the environment it writes the page first, which
// is what `scripts/generate-docs` does.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>

namespace longhaul {

// Of the file at `path`, all behind `after` and before `before` is `text`; "" is the file's end.
inline void expect_generated(const std::string& path, std::string_view after,
                             std::string_view before, const std::string& text) {
  std::stringstream found;
  found << std::ifstream(path).rdbuf();
  const std::string page = found.str();
  std::size_t begin = page.find(after);
  ASSERT_NE(begin, std::string::npos) << path << " has no line " << after;
  begin += after.size();
  const std::size_t end = before.empty() ? page.size() : page.find(before, begin);
  ASSERT_NE(end, std::string::npos) << path << " has no line " << before;
  const std::string old = page.substr(begin, end - begin);
  if (std::getenv("LONGHAUL_REWRITE")) {
    if (old != text) std::ofstream(path) << page.substr(0, begin) << text << page.substr(end);
    return;
  }
  std::istringstream old_lines(old), new_lines(text);
  std::string old_line, new_line;
  while (std::getline(new_lines, new_line)) {
    ASSERT_TRUE(std::getline(old_lines, old_line)) << path << " lacks: " << new_line;
    ASSERT_EQ(old_line, new_line) << path << " is old: run scripts/generate-docs";
  }
  EXPECT_FALSE(std::getline(old_lines, old_line)) << path << " has too much: " << old_line;
}

}  // namespace longhaul
