#pragma once
// Writes a node's log on a thread of its own: what waits is one transaction.
#include <functional>
#include <mutex>
#include <optional>

#include "longhaul/core/action.h"
#include "longhaul/net/task_thread.h"
#include "longhaul/store/log_file.h"

namespace longhaul::run {

class LogWriter {
 public:
  // `stored`: records up to that number are durable; called from the thread.
  LogWriter(std::unique_ptr<store::LogFile>, std::function<void(std::uint64_t number)> stored);
  ~LogWriter();  // closes, without a word of what fails
  // Writes what waits. Error: the write that failed, now or before. Nothing is appended after it.
  Status close();

  void append(const Append&);  // from any thread
  // After what was appended before; from any thread.
  void checkpoint(std::uint64_t number, Buffer state);
  // A write that failed; nothing is written after it.
  std::optional<Error> failure() const;

 private:
  void write();

  std::unique_ptr<store::LogFile> log_;
  std::function<void(std::uint64_t)> stored_;
  mutable std::mutex mutex_;
  std::vector<store::LogFile::Record> waiting_;
  std::optional<store::LogFile::Checkpoint> checkpoint_;
  std::optional<Error> failure_;
  std::unique_ptr<net::TaskThread> thread_;
};

}  // namespace longhaul::run
