#pragma once
// A fixed number of threads that run tasks in the order of submission; the owner's thread runs
// tasks too while it waits for one. Results go through the task's captures; wait() returns after
// the task has, with its writes visible. A finished task releases its captures, which may hold its
// ticket. One thread submits and waits.
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

  // `threads`: number of threads besides the owner's; 0: submit() runs the task at once.
  // `on_thread_start`, if set, runs first on each thread: thread-local settings of numeric
  // libraries.
  explicit ThreadPool(unsigned threads, std::function<void()> on_thread_start = {});
  ~ThreadPool();  // runs what was submitted to its end
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  // Tasks must not throw and must not wait for other tasks.
  Ticket submit(std::function<void()> task);
  // Returns when the task is done. The caller runs the task if no thread has begun it; otherwise it
  // runs other tasks meanwhile.
  void wait(const Ticket&);
  unsigned threads() const { return unsigned(threads_.size()); }

 private:
  void work();
  Ticket next();  // the first task that no thread has begun; null: none
  void run(const Ticket&, std::unique_lock<std::mutex>&);

  std::mutex mutex_;
  std::condition_variable more_, done_;
  std::deque<Ticket> queue_;  // some may have been begun by wait()
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace longhaul::sim
