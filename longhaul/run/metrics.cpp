#include "longhaul/run/metrics.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>

#include "longhaul/run/atomic_file.h"

namespace longhaul::run {
namespace {

std::string number(double value) {  // JSON has neither NaN nor infinity
  return std::isfinite(value) ? fmt::format("{}", value) : "null";
}

constexpr std::size_t kBlock = 64 << 10;  // so much is written at once

}  // namespace

std::uint64_t Thinning::next(Rank rank, std::string_view kind) {
  const std::uint64_t number = ++seen_[{rank, std::string(kind)}];
  std::uint64_t stride = 1;
  while (number > kWhole * stride) stride *= 2;
  return number % stride == 0 ? stride : 0;
}

void Thinning::state(Archive& ar) { ar(seen_); }

std::string to_json_line(const MetricsEvent& event) {
  std::string line = fmt::format(
      R"({{"time_s":{},"site":"{}","rank":{},"round":{},"kind":"{}","values":{{)",
      number(exact_seconds(event.time)), event.site, event.rank, event.round, event.kind);
  bool first = true;
  for (const auto& [name, value] : event.values) {
    line += fmt::format(R"({}"{}":{})", first ? "" : ",", name, number(value));
    first = false;
  }
  if (event.stands_for == 1) return line + "}}\n";
  return line + fmt::format(R"(}},"stands_for":{}}})", event.stands_for) + "\n";
}

std::uint64_t whole_lines(const std::string& path) {
  std::uint64_t whole = 0;
  std::ifstream in(path, std::ios::binary);
  for (std::string line; std::getline(in, line) && !in.eof();) whole += line.size() + 1;
  return whole;
}

MetricsFile::Descriptor::~Descriptor() {
  if (number_ >= 0) ::close(number_);
}

Result<MetricsFile> MetricsFile::open(const std::string& path, std::uint64_t keep) {
  const int flags = O_WRONLY | O_CLOEXEC | (keep > 0 ? 0 : O_CREAT | O_TRUNC);
  Descriptor file(::open(path.c_str(), flags, 0644));
  if (file.number() < 0) return io_failed(path, "opening it for writing");
  std::error_code code;
  const auto size = std::filesystem::file_size(path, code);
  if (code || size < keep)
    return malformed(
        fmt::format("{}: shorter than its checkpoint says; start again with --force", path));
  if (::ftruncate(file.number(), off_t(keep)) != 0 || ::lseek(file.number(), 0, SEEK_END) < 0)
    return io_failed(path, "truncating it");
  return MetricsFile(path, std::move(file), keep);
}

void MetricsFile::write(const MetricsEvent& event) {
  const std::string line = to_json_line(event);
  if (pending_.size() >= kBlock) (void)flush();
  if (pending_.size() + line.size() > kMostPending) {
    ++dropped_;
  } else {
    pending_ += line;
  }
}

Status MetricsFile::flush() {
  std::size_t done = 0;
  while (done < pending_.size()) {
    const ssize_t wrote = ::write(file_.number(), pending_.data() + done, pending_.size() - done);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) break;
    done += std::size_t(wrote);
  }
  const Status flushed = done == pending_.size() ? Status(Ok{}) : io_failed(path_, "writing it");
  pending_.erase(0, done);
  written_ += done;
  return flushed;
}

Status MetricsFile::sync() {
  LH_TRY(flush());
  if (::fsync(file_.number()) != 0) return io_failed(path_, "forcing it to disk");
  return Ok{};
}

}  // namespace longhaul::run
