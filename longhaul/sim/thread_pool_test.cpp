#include "longhaul/sim/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <latch>

namespace longhaul::sim {
namespace {

TEST(ThreadPool, WhatATaskWroteIsThereAfterWait) {
  for (const unsigned threads : {0u, 1u, 2u, 4u}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.threads(), threads);
    std::vector<int> out(500);
    std::vector<ThreadPool::Ticket> tickets;
    for (int i = 0; i < 500; ++i)
      tickets.push_back(pool.submit([&out, i] {
        std::this_thread::yield();
        out[std::size_t(i)] = i + 1;
      }));
    for (int i = 499; i >= 0; --i) {
      pool.wait(tickets[std::size_t(i)]);
      EXPECT_EQ(out[std::size_t(i)], i + 1);
    }
  }
}

TEST(ThreadPool, AllThreadsAndTheOneThatWaitsWorkAtOnce) {
  std::atomic<int> started = 0;
  ThreadPool pool(3, [&] { ++started; });
  std::latch threads(3), together(4);  // hangs unless four tasks run side by side
  std::vector<ThreadPool::Ticket> tickets;
  for (int i = 0; i < 4; ++i)
    tickets.push_back(pool.submit([&] {
      if (!threads.try_wait()) threads.count_down();
      together.arrive_and_wait();
    }));
  threads.wait();  // now the one that is left is for this thread, though it waits for another
  for (const auto& ticket : tickets) pool.wait(ticket);
  EXPECT_EQ(started, 3);
}

// Whose captures hold the ticket would otherwise live for ever.
TEST(ThreadPool, ATaskThatIsDoneHoldsNoCaptures) {
  for (const unsigned threads : {0u, 2u}) {
    ThreadPool pool(threads);
    const auto captured = std::make_shared<int>(1);
    const auto ticket = pool.submit([captured] {});
    pool.wait(ticket);
    EXPECT_EQ(captured.use_count(), 1) << threads << " threads";
  }
}

TEST(ThreadPool, TheEndOfThePoolRunsWhatWasSubmitted) {
  std::atomic<int> ran = 0;
  {
    ThreadPool pool(2);
    for (int i = 0; i < 100; ++i) pool.submit([&] { ++ran; });
  }
  EXPECT_EQ(ran, 100);
}

}  // namespace
}  // namespace longhaul::sim
