#pragma once
// samples.bin of a node's folder: its ledger of samples as it is now, also if its process is
// killed. First the ledger (core/sample_ledger.h), then what was recorded since, 32 bytes each.
// Every record is written at once but never forced to disk: it survives the process, not the
// machine. A file that has grown by kMostRecords is written anew. One thread, that of the node.
#include <optional>
#include <string>

#include "longhaul/base/result.h"
#include "longhaul/core/sample_ledger.h"
#include "longhaul/lab/descriptor.h"

namespace longhaul::run {

class SamplesFile {
 public:
  static constexpr std::uint64_t kMostRecords = 32768;  // 1 MiB

  // Writes the file anew with the ledger, which outlives this and is what append() has been told
  // of.
  SamplesFile(std::string path, const SampleLedger& ledger)
      : path_(std::move(path)), ledger_(&ledger) {}

  // Of a record that the ledger has taken, or of a node that is lost or has returned.
  void append(Time at, Rank by, const Record&);
  void node_lost(Rank rank) { append({}, rank, {"node_lost", 0, 0}); }
  void node_returned(Rank rank) { append({}, rank, {"node_returned", 0, 0}); }
  // Ok: the file holds everything. Tries again what could not be written, as on a full disk.
  Status flush();

 private:
  Status begin();

  std::string path_;
  const SampleLedger* ledger_;
  lab::Descriptor file_;
  std::uint64_t records_ = 0;
  bool is_behind_ = true;  // the file lacks records
};

// The ledger of the file; nullopt if there is none. An Error if it is no such file.
Result<std::optional<SampleLedger>> read_samples(const std::string& path);

}  // namespace longhaul::run
