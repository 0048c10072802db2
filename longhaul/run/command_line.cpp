#include "longhaul/run/command_line.h"

#include <linux/prctl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <fstream>
#include <sstream>

namespace longhaul::run {
namespace {

// Fields of /proc/self/stat, counted from 1 as in proc(5).
enum StatField : std::size_t {
  kStartCode = 26,
  kEndCode = 27,
  kStartStack = 28,
  kStartData = 45,
  kEndData = 46,
  kStartBreak = 47,
  kEnvironmentStart = 50,
  kEnvironmentEnd = 51,
  kFields = 53
};

// False: not there, or shorter.
bool read_addresses(std::array<std::uint64_t, kFields>& fields) {
  std::ifstream file("/proc/self/stat");
  std::string text;
  std::getline(file, text);
  const std::size_t name_end = text.rfind(')');  // the name may hold blanks and parentheses
  if (name_end == std::string::npos) return false;
  std::istringstream rest(text.substr(name_end + 1));
  std::string word;
  rest >> word;  // the third: the state, a letter
  for (std::size_t field = 4; field < kFields; ++field) {
    if (!(rest >> word)) return false;
    fields[field] = std::strtoull(word.c_str(), nullptr, 10);
  }
  return true;
}

}  // namespace

bool show_command_line(const std::vector<std::string>& words) {
  std::array<std::uint64_t, kFields> at{};
  if (!read_addresses(at)) return false;
  static std::vector<char> shown;  // the kernel reads it for as long as this process lives
  std::vector<char> text;
  for (const std::string& word : words)
    text.insert(text.end(), word.c_str(), word.c_str() + word.size() + 1);
  const auto begin = reinterpret_cast<std::uintptr_t>(text.data());
  // Everything but the words stays as it is: the call sets all or nothing.
  prctl_mm_map map = {};
  map.start_code = at[kStartCode];
  map.end_code = at[kEndCode];
  map.start_data = at[kStartData];
  map.end_data = at[kEndData];
  map.start_brk = at[kStartBreak];
  map.brk = reinterpret_cast<std::uintptr_t>(sbrk(0));
  map.start_stack = at[kStartStack];
  map.arg_start = begin;
  map.arg_end = begin + text.size();
  map.env_start = at[kEnvironmentStart];
  map.env_end = at[kEnvironmentEnd];
  map.exe_fd = std::uint32_t(-1);
  if (prctl(PR_SET_MM, PR_SET_MM_MAP, &map, sizeof map, 0) != 0) return false;
  shown.swap(text);  // a vector's elements stay where they are
  return true;
}

}  // namespace longhaul::run
