#pragma once
// One thread that does one thing after the other: the compute thread of a node, and the one that
// scores. What is done calls back through the loop, never from here.
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace longhaul::net {

class TaskThread {
 public:
  // `on_start` runs first: thread-local settings of numeric libraries.
  explicit TaskThread(std::function<void()> on_start = {});
  ~TaskThread();  // after the work under way; what has not begun is dropped
  TaskThread(const TaskThread&) = delete;
  TaskThread& operator=(const TaskThread&) = delete;

  void submit(std::function<void()>);  // any thread; must not throw

 private:
  void work();

  std::mutex mutex_;
  std::condition_variable more_;
  std::deque<std::function<void()>> queue_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace longhaul::net
