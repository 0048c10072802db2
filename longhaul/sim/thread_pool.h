#pragma once
// A fixed number of threads that run tasks in the order of submission. Results go through the
// task's own captures; wait() returns after the task has, with its writes visible.
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace longhaul::sim {

class ThreadPool {
 public:
  class Task;  // shared with the pool while it runs
  using Ticket = std::shared_ptr<Task>;

  // 0 threads: submit() runs the task at once. `on_thread_start` runs first on each thread (or
  // never): thread-local settings of numeric libraries.
  explicit ThreadPool(unsigned threads, std::function<void()> on_thread_start = {});
  ~ThreadPool();  // runs what was submitted to its end
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  // Tasks must not throw and must not wait for other tasks.
  Ticket submit(std::function<void()> task);
  void wait(const Ticket&);
  unsigned threads() const { return unsigned(threads_.size()); }

 private:
  void work();

  std::mutex mutex_;
  std::condition_variable more_, done_;
  std::deque<Ticket> queue_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace longhaul::sim
