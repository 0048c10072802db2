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
  LogWriter(std::unique_ptr<store::LogFile> log, std::function<void(std::uint64_t)> stored)
      : log_(std::move(log)),
        stored_(std::move(stored)),
        thread_(std::make_unique<net::TaskThread>()) {}

  // closes, without a word of what fails
  ~LogWriter() { (void)close(); }

  // Writes what waits. Error: the write that failed, now or before. Nothing is appended after it.
  Status close() {
    thread_.reset();  // no other thread from here on
    Status written = failure_ ? Status(*failure_) : Status(Ok{});
    if (written && !waiting_.empty()) written = log_->append(waiting_);
    if (written && checkpoint_) written = log_->write_checkpoint(*checkpoint_);
    waiting_.clear();
    checkpoint_.reset();
    if (!written) failure_ = written.error();
    return written;
  }

  // from any thread
  void append(const Append& append) {
    const std::lock_guard lock(mutex_);
    waiting_.push_back({append.number, append.record});
    if (waiting_.size() == 1) thread_->submit([this] { write(); });
  }

  // After what was appended before; from any thread.
  void checkpoint(std::uint64_t number, Buffer state) {
    const std::lock_guard lock(mutex_);
    checkpoint_ = {number, share(std::move(state))};
    thread_->submit([this] { write(); });
  }

  // A write that failed; nothing is written after it.
  std::optional<Error> failure() const {
    const std::lock_guard lock(mutex_);
    return failure_;
  }

 private:
  void write() {
    std::vector<store::LogFile::Record> records;
    std::optional<store::LogFile::Checkpoint> checkpoint;
    {
      const std::lock_guard lock(mutex_);
      if (failure_) return;
      records.swap(waiting_);
      checkpoint.swap(checkpoint_);
    }
    Status written = Ok{};
    if (!records.empty()) {
      written = log_->append(records);
      if (written) stored_(records.back().number);
    }
    if (written && checkpoint) written = log_->write_checkpoint(*checkpoint);
    if (written) return;
    const std::lock_guard lock(mutex_);
    failure_ = written.error();
  }

  std::unique_ptr<store::LogFile> log_;
  std::function<void(std::uint64_t)> stored_;
  mutable std::mutex mutex_;
  std::vector<store::LogFile::Record> waiting_;
  std::optional<store::LogFile::Checkpoint> checkpoint_;
  std::optional<Error> failure_;
  std::unique_ptr<net::TaskThread> thread_;
};

}  // namespace longhaul::run
