#include "longhaul/run/samples_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>

#include "longhaul/run/atomic_file.h"

namespace longhaul::run {
namespace {

constexpr std::array<std::string_view, 8> kRecords = {
    "samples_computed", "samples_given",  "samples_used", "push_came",
    "push_used",        "push_discarded", "rolled_back",  "node_lost"};
constexpr std::array<char, 8> kMagic = {'L', 'H', 'S', 'A', 'M', 'P', '0', '1'};

struct Entry {
  std::uint32_t kind = 0, by = 0;
  std::uint64_t round = 0;
  double value = 0;
  std::int64_t at = 0;
};
static_assert(sizeof(Entry) == 32);

struct Head {
  std::array<char, 8> magic = kMagic;
  std::uint64_t ledger_bytes = 0;
};

void apply(const Entry& entry, SampleLedger& ledger) {
  if (entry.kind == kRecords.size()) {
    ledger.node_returned(entry.by);
  } else if (kRecords[entry.kind] == "node_lost") {
    ledger.node_lost(entry.by);
  } else {
    ledger.take(Time(entry.at), entry.by,
                {std::string(kRecords[entry.kind]), entry.round, entry.value});
  }
}

}  // namespace

Status SamplesFile::begin() {
  Archive state;
  SampleLedger now = *ledger_;
  now.state(state);
  const Buffer ledger = state.take();
  const std::string fresh = path_ + std::string(kTemporary);
  lab::Descriptor file(::open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!file) return io_failed(fresh, "opening it for writing");
  const Head head{.ledger_bytes = ledger.size()};
  Status written = write_all(file.get(), std::as_bytes(std::span(&head, 1)), fresh);
  if (written) written = write_all(file.get(), ledger, fresh);
  if (written && ::rename(fresh.c_str(), path_.c_str()) != 0)
    written = io_failed(path_, "putting it into place");
  if (!written) {
    ::unlink(fresh.c_str());
    return written;
  }
  file_ = std::move(file);
  records_ = 0;
  is_behind_ = false;
  return Ok{};
}

void SamplesFile::append(Time at, Rank by, const Record& record) {
  if (is_behind_) return;  // flush() writes the ledger, which has it
  const auto known = std::ranges::find(kRecords, record.name);
  const Entry entry{
      .kind = std::uint32_t(known - kRecords.begin()),  // node_returned: behind the last
      .by = by,
      .round = record.round,
      .value = record.value,
      .at = at.count()};
  is_behind_ = !write_all(file_.get(), std::as_bytes(std::span(&entry, 1)), path_) ||
               ++records_ >= kMostRecords;
  if (records_ >= kMostRecords) (void)begin();
}

Status SamplesFile::flush() {
  is_behind_ |= ::access(path_.c_str(), F_OK) != 0;  // it was removed
  return is_behind_ ? begin() : Status(Ok{});
}

Result<std::optional<SampleLedger>> read_samples(const std::string& path) {
  if (!std::filesystem::exists(path)) return std::optional<SampleLedger>{};
  LH_LET(bytes, read_file(path));
  Head head;
  const Error none = malformed(path + ": not a ledger of samples; remove it");
  if (bytes.size() < sizeof head) return none;
  std::memcpy(&head, bytes.data(), sizeof head);
  if (head.magic != kMagic || head.ledger_bytes > bytes.size() - sizeof head) return none;
  SampleLedger ledger;
  const std::span<const std::byte> all = bytes;
  Archive state(all.subspan(sizeof head, head.ledger_bytes));
  ledger.state(state);
  if (!state.finish()) return none;
  // The last record may be a part of one: its process was killed while it wrote.
  for (std::size_t at = sizeof head + head.ledger_bytes; at + sizeof(Entry) <= bytes.size();
       at += sizeof(Entry)) {
    Entry entry;
    std::memcpy(&entry, bytes.data() + at, sizeof entry);
    if (entry.kind > kRecords.size()) return none;
    apply(entry, ledger);
  }
  return std::optional(std::move(ledger));
}

}  // namespace longhaul::run
