#include "longhaul/run/metrics.h"

#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>

namespace longhaul::run {
namespace {

std::string number(double value) {  // JSON has neither NaN nor infinity
  return std::isfinite(value) ? fmt::format("{}", value) : "null";
}

Error write_failed(const std::string& path, std::string_view doing) {
  return {Error::Kind::io, fmt::format("{}: {} failed; is the disk full?", path, doing)};
}

}  // namespace

std::string to_json_line(const MetricsEvent& event) {
  std::string line = fmt::format(
      R"({{"time_s":{},"site":"{}","rank":{},"round":{},"kind":"{}","values":{{)",
      number(exact_seconds(event.time)), event.site, event.rank, event.round, event.kind);
  bool first = true;
  for (const auto& [name, value] : event.values) {
    line += fmt::format(R"({}"{}":{})", first ? "" : ",", name, number(value));
    first = false;
  }
  return line + "}}\n";
}

std::uint64_t whole_lines(const std::string& path) {
  std::uint64_t whole = 0;
  std::ifstream in(path, std::ios::binary);
  for (std::string line; std::getline(in, line) && !in.eof();) whole += line.size() + 1;
  return whole;
}

Result<MetricsFile> MetricsFile::open(const std::string& path, std::uint64_t keep) {
  std::FILE* file = std::fopen(path.c_str(), keep > 0 ? "r+b" : "w+b");
  if (!file) return Error{Error::Kind::io, fmt::format("{}: cannot be opened for writing", path)};
  MetricsFile metrics(path, file, keep);
  std::error_code code;
  const auto size = std::filesystem::file_size(path, code);
  if (code || size < keep)
    return malformed(
        fmt::format("{}: shorter than its checkpoint says; start again with --force", path));
  if (::ftruncate(::fileno(file), off_t(keep)) != 0 || std::fseek(file, 0, SEEK_END) != 0)
    return write_failed(path, "truncating it");
  return metrics;
}

void MetricsFile::write(const MetricsEvent& event) {
  const std::string line = to_json_line(event);
  failed_ |= std::fwrite(line.data(), 1, line.size(), file_.get()) != line.size();
  bytes_ += line.size();
}

Status MetricsFile::sync() {
  failed_ |= std::fflush(file_.get()) != 0 || ::fsync(::fileno(file_.get())) != 0;
  if (failed_) return write_failed(path_, "writing it");
  return Ok{};
}

}  // namespace longhaul::run
