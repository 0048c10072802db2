#include "longhaul/run/model_trial.h"

#include <sys/wait.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <fstream>

#include <gtest/gtest.h>

#include "longhaul/base/testing/result.h"
#include "longhaul/run/atomic_file.h"
#include "longhaul/run/job/testing/scratch.h"

namespace longhaul::run {
namespace {

using namespace std::chrono_literals;

constexpr TrialLimits kWide{.seconds = 60, .mbytes = 4000};

std::string why(const TrialLimits& limits, const std::function<Status()>& body) {
  const Status tried = try_in_copy("'m.pt'", limits, body);
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);  // no child is left
  EXPECT_EQ(errno, ECHILD);
  return tried ? "" : tried.error().what;
}

TEST(ModelTrial, AnswersAsItsBodyDoes) {
  EXPECT_TRUE(try_in_copy("'m.pt'", kWide, [] { return Status(Ok{}); }));
  for (const Error& error : {invalid("a 'b' is no c"), malformed("two\nlines"), not_finite("x")}) {
    const Status tried = try_in_copy("'m.pt'", kWide, [&] { return Status(error); });
    ASSERT_FALSE(tried);
    EXPECT_EQ(tried.error().kind, error.kind);
    EXPECT_EQ(tried.error().what, error.kind == Error::Kind::malformed ? "two lines" : error.what);
  }
}

TEST(ModelTrial, TimeAndMemoryAreBounded) {
  const auto begun = std::chrono::steady_clock::now();
  EXPECT_TRUE(says(why({.seconds = 0.2, .mbytes = 4000},
                       []() -> Status {
                         for (volatile bool on = true; on;) {
                         }
                         return Ok{};
                       }),
                   "'m.pt' took more than 0.2 s"));
  EXPECT_TRUE(says(why({.seconds = 60, .mbytes = 100},
                       []() -> Status {
                         for (std::vector<std::string> all;;) all.emplace_back(1 << 20, 'x');
                       }),
                   "'m.pt' took more than 100 MB"));
  EXPECT_LT(std::chrono::steady_clock::now() - begun, 50s);
}

TEST(ModelTrial, ACrashIsNotOurs) {
  EXPECT_TRUE(says(why(kWide, []() -> Status { _exit(7); }), "exit code 7"));
  EXPECT_TRUE(says(why(kWide,
                       []() -> Status {
                         raise(SIGKILL);
                         return Ok{};
                       }),
                   "killed by signal 9"));
}

TEST(ModelTrial, ItWritesNoFile) {
  const testing::Scratch scratch;
  std::signal(SIGXFSZ, SIG_IGN);  // as the program does
  EXPECT_EQ(why(kWide,
                [&]() -> Status {
                  std::ofstream file(scratch.file("written"));
                  file << "text" << std::flush;
                  return file ? Status(Ok{}) : invalid("refused");
                }),
            "refused");
  EXPECT_TRUE(read_file(scratch.file("written"))->empty());
}

TEST(GivenTrials, AModelIsTriedWhileTheNodeContinues) {
  std::atomic<bool> may_end = false;
  std::atomic<int> ended = 0;
  GivenTrials trials(
      [&](const focus::GivenModel& model, const std::stop_token& stop) -> Status {
        while (!may_end && !stop.stop_requested()) std::this_thread::sleep_for(1ms);
        if (model.file == "bad") return invalid("it is bad");
        return Ok{};
      },
      [&] { ++ended; });
  const auto bad = std::make_shared<const focus::GivenModel>(focus::GivenModel{.file = "bad"});
  const auto good = std::make_shared<const focus::GivenModel>(focus::GivenModel{.file = "good"});
  EXPECT_FALSE(trials.result(bad));
  EXPECT_FALSE(trials.result(bad));
  EXPECT_FALSE(trials.result(good));  // one at a time
  may_end = true;
  const auto wait_for = [&](int count) {
    const auto end = std::chrono::steady_clock::now() + 60s;
    while (ended < count && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(1ms);
    ASSERT_GE(ended, count);
  };
  wait_for(1);
  EXPECT_EQ(longhaul::good(trials.result(bad))->error().what, "it is bad");
  EXPECT_FALSE(trials.result(good));
  wait_for(2);
  EXPECT_TRUE(trials.result(good).value());
}

TEST(GivenTrials, ItsEndStopsATrial) {
  std::atomic<bool> stopped = false;
  {
    GivenTrials trials(
        [&](const focus::GivenModel&, const std::stop_token& stop) -> Status {
          while (!stop.stop_requested()) std::this_thread::sleep_for(1ms);
          stopped = true;
          return invalid("stopped");
        },
        [] { FAIL() << "nobody is there to hear it"; });
    EXPECT_FALSE(trials.result(std::make_shared<const focus::GivenModel>()));
  }
  EXPECT_TRUE(stopped);
}

}  // namespace
}  // namespace longhaul::run
