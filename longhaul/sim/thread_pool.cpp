#include "longhaul/sim/thread_pool.h"

#include <utility>

namespace longhaul::sim {
namespace {

// Number of checks before a thread sleeps. Waking a thread takes up to 0.1 ms on a virtual machine,
// and the exchange between two rounds takes 1 ms. So a thread without work checks again for a few
// ms before it sleeps, and yields between checks.
constexpr int kLooks = 20000;

template <class Ready>
void await(std::condition_variable& changed, std::unique_lock<std::mutex>& lock, Ready ready) {
  for (int look = 0; look < kLooks && !ready(); ++look) {
    lock.unlock();
    std::this_thread::yield();
    lock.lock();
  }
  changed.wait(lock, ready);
}

}  // namespace

class ThreadPool::Task {
 public:
  explicit Task(std::function<void()> run) : run(std::move(run)) {}
  std::function<void()> run;
  bool begun = false, done = false;  // guarded by the pool's mutex
};

ThreadPool::ThreadPool(unsigned threads, std::function<void()> on_thread_start) {
  for (unsigned i = 0; i < threads; ++i) {
    threads_.emplace_back([this, on_thread_start] {
      if (on_thread_start) on_thread_start();
      work();
    });
  }
}

ThreadPool::~ThreadPool() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  more_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

ThreadPool::Ticket ThreadPool::submit(std::function<void()> run) {
  auto task = std::make_shared<Task>(std::move(run));
  if (threads_.empty()) {
    task->run();
    task->run = nullptr;
    task->done = true;
    return task;
  }
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back(task);
  }
  more_.notify_one();
  return task;
}

void ThreadPool::wait(const Ticket& task) {
  std::unique_lock lock(mutex_);
  while (!task->done) {
    if (!task->begun) {
      run(task, lock);
    } else if (const Ticket other = next()) {
      run(other, lock);
    } else {
      await(done_, lock, [&] { return task->done; });
    }
  }
}

ThreadPool::Ticket ThreadPool::next() {
  while (!queue_.empty()) {
    Ticket task = std::move(queue_.front());
    queue_.pop_front();
    if (!task->begun) return task;
  }
  return nullptr;
}

void ThreadPool::run(const Ticket& task, std::unique_lock<std::mutex>& lock) {
  task->begun = true;
  lock.unlock();
  task->run();
  task->run = nullptr;  // releases captures before the task is reported as done
  lock.lock();
  task->done = true;
  done_.notify_all();
}

void ThreadPool::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    await(more_, lock, [this] { return stopping_ || !queue_.empty(); });
    if (queue_.empty()) return;
    if (const Ticket task = next()) run(task, lock);
  }
}

}  // namespace longhaul::sim
