#pragma once
// One thread that runs tasks in order: the compute thread of a node, or its scoring thread. Tasks
// report results through Loop::post(), never by direct calls.
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace longhaul::net {

class TaskThread {
 public:
  // `on_start` runs first: thread-local settings of numeric libraries.
  explicit TaskThread(std::function<void()> on_start = {}) {
    thread_ = std::thread([this, on_start = std::move(on_start)] {
      if (on_start) on_start();
      work();
    });
  }

  // waits for the current task; drops the others
  ~TaskThread() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    more_.notify_one();
    thread_.join();
  }

  TaskThread(const TaskThread&) = delete;
  TaskThread& operator=(const TaskThread&) = delete;

  // any thread; must not throw
  void submit(std::function<void()> task) {
    {
      const std::lock_guard lock(mutex_);
      queue_.push_back(std::move(task));
    }
    more_.notify_one();
  }

 private:
  void work() {
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

  std::mutex mutex_;
  std::condition_variable more_;
  std::deque<std::function<void()>> queue_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace longhaul::net
