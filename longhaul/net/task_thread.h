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
  explicit TaskThread(std::function<void()> on_start = {});
  ~TaskThread();  // waits for the current task; drops the others
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
