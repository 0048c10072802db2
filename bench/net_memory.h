#pragma once
// How much memory a node's connections take: the node is in this process, its peers in a child.
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/net_node.h"

namespace longhaul::bench {

constexpr std::size_t kChunk = 256 * 1024;
constexpr std::uint32_t kFar = 64;  // peers

struct Memory {  // resident bytes a connection, over a process without the node
  double idle = 0, busy = 0, stopped = 0;
};

inline double resident() {
  unsigned long all = 0, pages = 0;
  std::FILE* const file = std::fopen("/proc/self/statm", "r");
  if (!file || std::fscanf(file, "%lu %lu", &all, &pages) != 2) give_up("no /proc/self/statm");
  std::fclose(file);
  return double(pages) * double(sysconf(_SC_PAGESIZE));
}

// A chunk that nobody else holds.
inline std::optional<Message> fresh_chunk() {
  Message message;
  message.kind = 1;
  message.body = Payload(share(Buffer(kChunk, std::byte{1})));
  return message;
}

// The peers 1 .. kFar of node 0, on one thread of another process; they send chunks once they
// have got one.
class FarNodes {
 public:
  FarNodes() {
    int ends[2];
    if (pipe(ends) != 0) give_up("no pipe");
    child_ = fork();
    if (child_ < 0) give_up("no process");
    if (child_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      run(ends[1]);
    }
    close(ends[1]);
    ports_.resize(kFar + 1);
    const std::size_t size = ports_.size() * sizeof ports_[0];
    if (read(ends[0], ports_.data(), size) != ssize_t(size)) give_up("the peers did not start");
    close(ends[0]);
  }
  ~FarNodes() {
    kill(child_, SIGKILL);
    waitpid(child_, nullptr, 0);
  }
  const std::vector<std::uint16_t>& ports() const { return ports_; }  // 0 for node 0
  void stop() { kill(child_, SIGSTOP); }

 private:
  [[noreturn]] static void run(int out) {
    net::Loop loop;
    std::vector<std::unique_ptr<Node>> nodes;
    std::vector<std::uint16_t> ports{0};
    for (Rank rank = 1; rank <= kFar; ++rank) {
      // It need not know those after it: the lower rank dials, and nobody dials but node 0.
      nodes.push_back(std::make_unique<Node>(loop, rank, rank + 1));
      ports.push_back(nodes.back()->port());
      for (Rank other = 1; other < rank; ++other) nodes.back()->drop(other);
      nodes.back()->take = [node = nodes.back().get(), begun = false](Rank from,
                                                                      const Message&) mutable {
        if (std::exchange(begun, true)) return;
        node->next = [](Rank) { return fresh_chunk(); };
        node->pump(from);
      };
      nodes.back()->open();
    }
    const std::size_t size = ports.size() * sizeof ports[0];
    if (write(out, ports.data(), size) != ssize_t(size)) _exit(2);
    close(out);
    loop.run();
    _exit(0);
  }

  pid_t child_ = 0;
  std::vector<std::uint16_t> ports_;
};

// The most that was resident within so long.
inline double most_resident(Time within) {
  double most = 0;
  const auto end = std::chrono::steady_clock::now() + within;
  for (; std::chrono::steady_clock::now() < end; std::this_thread::sleep_for(5ms))
    most = std::max(most, resident());
  return most;
}

inline Memory memory() {
  FarNodes far;
  const double before = resident();
  ThreadedNode node(0, kFar + 1);
  node.start(far.ports(), /*at_once=*/true);
  node.wait_until_met();
  std::this_thread::sleep_for(300ms);
  Memory memory;
  memory.idle = (resident() - before) / kFar;
  node.call([](Node& n, net::Loop&) {
    n.next = [](Rank) { return fresh_chunk(); };
    for (Rank rank = 1; rank <= kFar; ++rank) n.pump(rank);
  });
  memory.busy = (most_resident(3s) - before) / kFar;
  far.stop();
  memory.stopped = (most_resident(2s) - before) / kFar;
  return memory;
}

}  // namespace longhaul::bench
