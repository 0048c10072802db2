#include "longhaul/net/task_thread.h"

namespace longhaul::net {

TaskThread::TaskThread(std::function<void()> on_start) {
  thread_ = std::thread([this, on_start = std::move(on_start)] {
    if (on_start) on_start();
    work();
  });
}

TaskThread::~TaskThread() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  more_.notify_one();
  thread_.join();
}

void TaskThread::submit(std::function<void()> task) {
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back(std::move(task));
  }
  more_.notify_one();
}

void TaskThread::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    more_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
    if (stopping_) return;
    const std::function<void()> task = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    task();
    lock.lock();
  }
}

}  // namespace longhaul::net
