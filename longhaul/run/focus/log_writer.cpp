#include "longhaul/run/focus/log_writer.h"

namespace longhaul::run {

LogWriter::LogWriter(std::unique_ptr<store::LogFile> log, std::function<void(std::uint64_t)> stored)
    : log_(std::move(log)),
      stored_(std::move(stored)),
      thread_(std::make_unique<net::TaskThread>()) {}

LogWriter::~LogWriter() {
  thread_.reset();
  if (!waiting_.empty() && !failure_) (void)log_->append(waiting_);
}

void LogWriter::append(const Append& append) {
  const std::lock_guard lock(mutex_);
  waiting_.push_back({append.number, append.record});
  if (waiting_.size() == 1) thread_->submit([this] { write(); });
}

void LogWriter::write() {
  std::vector<store::LogFile::Record> records;
  {
    const std::lock_guard lock(mutex_);
    if (failure_) return;
    records.swap(waiting_);
  }
  const Status written = log_->append(records);
  if (written) return stored_(records.back().number);
  const std::lock_guard lock(mutex_);
  failure_ = written.error();
}

std::optional<Error> LogWriter::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

}  // namespace longhaul::run
