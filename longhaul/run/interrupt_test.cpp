#include "longhaul/run/interrupt.h"

#include <sys/wait.h>
#include <unistd.h>

#include <functional>

#include <gtest/gtest.h>

namespace longhaul::run {
namespace {

// Runs it in a copy of this process; the status that wait() gives.
int in_copy(const std::function<int()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    forget_signals();
    watch_signals();
    _exit(body());
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return status;
}

TEST(Interrupt, WhatRepeatsAStopIsNoSecondOne) {
  const auto limit = InterruptGuard::kSameStopMs;
  EXPECT_TRUE(repeats_stop(SIGTERM, SI_USER, limit)) << "systemd signals launch and its nodes";
  EXPECT_TRUE(repeats_stop(SIGHUP, SI_KERNEL, 0)) << "the terminal sends it, then its shell";
  EXPECT_TRUE(repeats_stop(SIGTERM, SI_QUEUE, 1'000'000)) << "launch passes on what came before";
  EXPECT_FALSE(repeats_stop(SIGTERM, SI_USER, limit + 1));
  EXPECT_FALSE(repeats_stop(SIGINT, SI_KERNEL, 1)) << "Ctrl-C is a key";
}

TEST(Interrupt, WithoutAGuardAStopEndsTheProcess) {
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    const int status = in_copy([&] { return raise(number); });
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == number) << number;
  }
}

TEST(Interrupt, UnderAGuardAStopAsks) {
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    const int status = in_copy([&] {
      const InterruptGuard guard;
      const bool before = interrupted();
      (void)raise(number);
      for (int i = 0; i < 3; ++i) pass_on(getpid(), number);
      return !before && interrupted() ? 7 : 1;
    });
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 7) << number;
  }
}

TEST(Interrupt, TheNextCommandIsNotAsked) {
  const int status = in_copy([] {
    {
      const InterruptGuard guard;
      (void)raise(SIGINT);
    }
    forget_signals();
    return interrupted() ? 1 : 7;
  });
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 7) << status;
}

TEST(Interrupt, AnIgnoredHangUpStaysSo) {
  const int status = in_copy([] {
    (void)std::signal(SIGHUP, SIG_IGN);
    watch_signals();
    const InterruptGuard guard;
    (void)raise(SIGHUP);
    return interrupted() ? 1 : 7;
  });
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 7);
}

TEST(Interrupt, ACheckpointIsAskedForOnceBySeveralSignals) {
  const int status = in_copy([] {
    CheckpointRequests requests;
    if (requests.take()) return 1;
    (void)raise(SIGUSR1);
    (void)raise(SIGUSR1);
    if (!requests.take()) return 2;
    return requests.take() ? 3 : 7;
  });
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 7) << status;
}

}  // namespace
}  // namespace longhaul::run
