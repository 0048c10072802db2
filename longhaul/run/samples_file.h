#pragma once
// samples.bin of a node's folder: its current ledger of samples, even if its process is killed.
// First the ledger (core/sample_ledger.h), then later records of 32 bytes each. Every record is
// written at once but never forced to disk: it survives the process, not the machine. A file that
// has grown by kMostRecords is rewritten. One thread, that of the node.
#include <optional>
#include <string>

#include "longhaul/base/result.h"
#include "longhaul/core/sample_ledger.h"
#include "longhaul/lab/descriptor.h"

namespace longhaul::run {

class SamplesFile {
 public:
  static constexpr std::uint64_t kMostRecords = 32768;  // 1 MiB

  // Rewrites the file with `ledger`, which must outlive this object and contains the appended
  // records.
  SamplesFile(std::string path, const SampleLedger& ledger)
      : path_(std::move(path)), ledger_(&ledger) {}

  // Appends a record that the ledger has taken. A lost or returned node is a record, too.
  void append(Time at, Rank by, const Record&);
  void node_lost(Rank rank) { append({}, rank, {"node_lost", 0, 0}); }
  void node_returned(Rank rank) { append({}, rank, {"node_returned", 0, 0}); }
  // Returns Ok if the file holds everything. Retries failed writes, for example on a full disk.
  Status flush();

 private:
  Status begin();

  std::string path_;
  const SampleLedger* ledger_;
  lab::Descriptor file_;
  std::uint64_t records_ = 0;
  bool is_behind_ = true;  // the file lacks records
};

// Returns the ledger of the file; nullopt if there is none. Returns an Error if it is no such file.
Result<std::optional<SampleLedger>> read_samples(const std::string& path);

}  // namespace longhaul::run
