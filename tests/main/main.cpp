// Runs the tests of a binary, and names one that does not end: its output is else that of nothing.
#include <gmock/gmock.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <string>

namespace {

constexpr unsigned kLongS = 300;  // several times what a test of `make test` takes
std::array<char, 400> g_said;     // a signal handler can write what is there, and format nothing
std::size_t g_bytes = 0;

extern "C" void say_what_runs(int) {
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, g_said.data(), g_bytes);
  alarm(kLongS);
}

class NamesWhatRuns final : public ::testing::EmptyTestEventListener {
  void OnTestStart(const ::testing::TestInfo& test) override {
    const std::string said = std::string("still running after ") + std::to_string(kLongS) +
                             " s: " + test.test_suite_name() + "." + test.name() + "\n";
    g_bytes = std::min(said.size(), g_said.size());
    std::copy_n(said.begin(), g_bytes, g_said.begin());
    alarm(kLongS);
  }
  void OnTestEnd(const ::testing::TestInfo&) override { alarm(0); }
};

}  // namespace

int main(int argc, char** argv) {
  ::testing::InitGoogleMock(&argc, argv);
  struct sigaction action = {};
  action.sa_handler = say_what_runs;
  action.sa_flags = SA_RESTART;
  sigaction(SIGALRM, &action, nullptr);
  ::testing::UnitTest::GetInstance()->listeners().Append(new NamesWhatRuns);
  return RUN_ALL_TESTS();
}
