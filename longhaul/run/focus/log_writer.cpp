#include "longhaul/run/focus/log_writer.h"

namespace longhaul::run {

LogWriter::LogWriter(std::unique_ptr<store::LogFile> log, std::function<void(std::uint64_t)> stored)
    : log_(std::move(log)),
      stored_(std::move(stored)),
      thread_(std::make_unique<net::TaskThread>()) {}

LogWriter::~LogWriter() { (void)close(); }

Status LogWriter::close() {
  thread_.reset();  // no other thread from here on
  Status written = failure_ ? Status(*failure_) : Status(Ok{});
  if (written && !waiting_.empty()) written = log_->append(waiting_);
  if (written && checkpoint_) written = log_->write_checkpoint(*checkpoint_);
  waiting_.clear();
  checkpoint_.reset();
  if (!written) failure_ = written.error();
  return written;
}

void LogWriter::append(const Append& append) {
  const std::lock_guard lock(mutex_);
  waiting_.push_back({append.number, append.record});
  if (waiting_.size() == 1) thread_->submit([this] { write(); });
}

void LogWriter::checkpoint(std::uint64_t number, Buffer state) {
  const std::lock_guard lock(mutex_);
  checkpoint_ = {number, share(std::move(state))};
  thread_->submit([this] { write(); });
}

void LogWriter::write() {
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

std::optional<Error> LogWriter::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

}  // namespace longhaul::run
