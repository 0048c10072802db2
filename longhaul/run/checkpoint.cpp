#include "longhaul/run/checkpoint.h"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>
#include <xxhash.h>

#include "longhaul/run/atomic_file.h"

namespace longhaul::run {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTag = "longhaul checkpoint 6";

void archive(Archive& ar, Checkpoint& checkpoint) {
  ar.expect(kTag);
  ar(checkpoint.job_hash, checkpoint.round, checkpoint.metrics_bytes, checkpoint.world,
     checkpoint.experiment, checkpoint.view, checkpoint.sites, checkpoint.members,
     checkpoint.model);
}

// Checkpoint files, newest round first.
std::vector<fs::path> files_in(const std::string& folder) {
  std::vector<fs::path> files;
  std::error_code code;
  for (fs::directory_iterator it(folder, code), end; !code && it != end; it.increment(code))
    if (it->path().extension() == ".checkpoint") files.push_back(it->path());
  std::sort(files.begin(), files.end(), std::greater<>());  // names are padded with zeros
  return files;
}

std::string name_of(std::uint64_t round) { return fmt::format("{:012}.checkpoint", round); }

}  // namespace

Buffer format_checkpoint(const Checkpoint& checkpoint) {
  Archive ar;
  Checkpoint copy = checkpoint;
  archive(ar, copy);
  Buffer bytes = ar.take();
  const std::uint64_t sum = XXH64(bytes.data(), bytes.size(), 0);
  const auto* raw = reinterpret_cast<const std::byte*>(&sum);
  bytes.insert(bytes.end(), raw, raw + sizeof sum);
  return bytes;
}

Result<Checkpoint> parse_checkpoint(std::span<const std::byte> bytes) {
  std::uint64_t sum = 0;
  if (bytes.size() < sizeof sum) return malformed("checkpoint ends early");
  const auto body = bytes.first(bytes.size() - sizeof sum);
  std::memcpy(&sum, bytes.data() + body.size(), sizeof sum);
  if (sum != XXH64(body.data(), body.size(), 0))
    return malformed("checkpoint is damaged: its checksum does not fit");
  Checkpoint checkpoint;
  Archive ar(body);
  archive(ar, checkpoint);
  LH_TRY(ar.finish());
  return checkpoint;
}

Status Checkpoints::write(const Checkpoint& checkpoint) const {
  LH_TRY(make_folder(folder_));
  const fs::path path = fs::path(folder_) / name_of(checkpoint.round);
  LH_TRY(write_atomically(path.string(), format_checkpoint(checkpoint)));
  const auto files = files_in(folder_);
  std::error_code code;
  for (std::size_t i = kept_; i < files.size(); ++i) fs::remove(files[i], code);
  return Ok{};
}

Result<Checkpoint> Checkpoints::at(std::uint64_t round) const {
  return read_checkpoint(folder_ + "/" + name_of(round));
}

Result<Checkpoint> read_checkpoint(const std::string& path) {
  LH_LET(bytes, read_file(path));
  auto checkpoint = parse_checkpoint(bytes);
  if (!checkpoint) return malformed(path + ": " + checkpoint.error().what);
  return checkpoint;
}

bool Checkpoints::any() const { return !files_in(folder_).empty(); }

void Checkpoints::drop_after(std::uint64_t round) const {
  std::error_code code;
  for (const fs::path& path : files_in(folder_))
    if (path.filename() > name_of(round)) fs::remove(path, code);
}

Result<std::optional<Checkpoint>> Checkpoints::newest() const {
  std::string damaged;
  for (const fs::path& path : files_in(folder_)) {
    auto bytes = read_file(path.string());
    auto checkpoint = bytes ? parse_checkpoint(*bytes) : Result<Checkpoint>(bytes.error());
    if (checkpoint) return std::optional(std::move(*checkpoint));
    if (!damaged.empty()) damaged += "; ";
    damaged += bytes ? fmt::format("{}: {}", path.string(), checkpoint.error().what)
                     : checkpoint.error().what;
  }
  if (!damaged.empty()) return malformed(damaged + "; no other checkpoint is whole");
  return std::optional<Checkpoint>{};
}

}  // namespace longhaul::run
