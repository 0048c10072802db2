#include "longhaul/run/child_processes.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <iterator>

#include <gtest/gtest.h>

#include "longhaul/run/nodes.h"

namespace longhaul::run {
namespace {

std::string own_command_line() {
  std::ifstream file("/proc/self/cmdline");
  return {std::istreambuf_iterator<char>(file), {}};
}

// Descriptors from 3 on that are open here.
std::string open_descriptors() {
  std::string all;
  for (int one = 3; one < 64; ++one)
    if (fcntl(one, F_GETFD) >= 0) all += std::to_string(one) + " ";
  return all;
}

struct Said {
  std::vector<std::string> out, err;
  ChildExit end;
};

Said run(const ChildSpec& spec) {
  Said said;
  ChildProcesses children([&](const std::string&, bool is_error, std::string_view line) {
    (is_error ? said.err : said.out).emplace_back(line);
  });
  EXPECT_TRUE(children.start(spec));
  while (!children.all_ended()) children.poll(std::chrono::milliseconds(100));
  said.end = *children.end(0);
  return said;
}

TEST(ChildProcesses, ACopyInheritsWhatACommandWould) {
  const int other = open("/dev/null", O_RDONLY), kept = open("/dev/null", O_RDONLY);
  const int listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ASSERT_TRUE(other > 3 || kept > 3);
  const Said said =
      run({.name = "copy",
           .command = {"longhaul", "site"},
           .listening_socket = listening,
           .keep = {kept},
           .instead = [] {
             std::printf("%s\n", open_descriptors().c_str());
             std::fprintf(stderr, "socket %d\n", inherited_socket(process_environment()));
             return 1;
           }});
  for (const int one : {other, kept, listening}) close(one);
  EXPECT_EQ(said.end.code, 1);
  EXPECT_TRUE(said.end.done());
  const std::string expected = kept == 3 ? "3 " : "3 " + std::to_string(kept) + " ";
  EXPECT_EQ(said.out, std::vector{expected});
  EXPECT_EQ(said.err, std::vector<std::string>{"socket 3"});
}

TEST(ChildProcesses, ACopyThatIsKilledSaysSo) {
  const Said said = run({.name = "copy", .command = {}, .instead = [] {
                           std::printf("begun");
                           std::fflush(stdout);
                           (void)raise(SIGKILL);
                           return 0;
                         }});
  EXPECT_EQ(said.end.signal, SIGKILL);
  EXPECT_EQ(said.out, std::vector<std::string>{"begun"});
}

TEST(ChildProcesses, ACommandIsStarted) {
  const Said said =
      run({.name = "shell", .command = {"/bin/sh", "-c", "echo $0-$1; exit 3", "a", "b c"}});
  EXPECT_EQ(said.end.code, 3);
  EXPECT_EQ(said.out, std::vector<std::string>{"a-b c"});
}

// A kernel may refuse: then all stays as it was.
TEST(CommandLine, IsShown) {
  const pid_t child = fork();
  if (child == 0) {
    const std::vector<std::string> words = {"a", "--site", "b c", std::string(5000, 'x'), ""};
    const std::string before = own_command_line();
    if (!show_command_line(words)) _exit(own_command_line() == before ? 0 : 2);
    std::string expected;
    for (const std::string& word : words) expected += word + '\0';
    if (own_command_line() != expected) _exit(1);
    const bool again = show_command_line({"z"});
    _exit(again && own_command_line() == std::string("z\0", 2) ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0) << "1: not what was said; 2: refused, but changed";
}

}  // namespace
}  // namespace longhaul::run
