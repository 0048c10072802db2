// longhaul/net over the loopback, both ends in this process, each a node with a loop and a thread
// of its own; a node has two messages under way, as a strategy has.
//
//   goodput    1 GiB of distinct memory in chunks of 256 KiB, each copied into its place in another
//              vector, its checksum verified; against threads that do the same with bare send and
//              recv, and against the same without checksums, and against the same under TLS;
//              alternating, after a warm-up; what arrived is compared with what was sent
//   trips      round trips of a control message of 64 bytes, alone and while chunks flow both ways;
//              and the same with bare sockets
//   memory     resident bytes a connection: idle, busy both ways, and to a peer that has stopped
//              reading
//
// --json prints one object instead of the table; --only goodput, trips or memory.
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstring>
#include <string_view>

#include <fmt/format.h>
#include <xxhash.h>

#include "bench/net_memory.h"
#include "bench/net_node.h"

namespace longhaul::bench {
namespace {

constexpr std::size_t kChunks = 4096, kBytes = kChunks * kChunk;
constexpr int kRepeats = 15;

struct Chunk {  // where a chunk belongs
  std::uint64_t chunk = 0;
  LONGHAUL_FIELDS(chunk)
};

// Two nodes that have met.
struct Pair {
  ThreadedNode a, b;
  explicit Pair(bool tls = false) : a{0, 2, tls}, b{1, 2, tls} {
    for (ThreadedNode* node : {&a, &b}) node->start({a.port(), b.port()});
    a.wait_until_met();
    b.wait_until_met();
  }
};

Bytes distinct_bytes() {
  Buffer bytes(kBytes);
  std::uint64_t x = 1;
  for (std::size_t at = 0; at < kBytes; at += 8) {
    x = x * 6364136223846793005u + 1442695040888963407u;
    std::memcpy(&bytes[at], &x, 8);
  }
  return share(std::move(bytes));
}

Message chunk_message(const Bytes& source, std::uint64_t chunk) {
  Message message;
  message.kind = 1;
  message.head = Payload(share(to_wire(Chunk{chunk})));
  message.body = Payload(source, chunk * kChunk, kChunk);
  return message;
}

void put(const Message& message, Buffer& into) {
  const auto place = from_wire<Chunk>(message.head.view());
  LH_CHECK(place && place->chunk < kChunks && message.body.size() == kChunk);
  std::memcpy(&into[place->chunk * kChunk], message.body.view().data(), kChunk);
}

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto of = [](const timeval& t) { return double(t.tv_sec) + 1e-6 * double(t.tv_usec); };
  return of(usage.ru_utime) + of(usage.ru_stime);
}

// --- goodput ------------------------------------------------------------------------------------

void send_ours(Pair& pair, const Bytes& source, Buffer& into) {
  std::binary_semaphore done{0};
  std::size_t sent = 0, taken = 0;
  pair.b.call([&](Node& node, net::Loop&) {
    node.take = [&](Rank, const Message& message) {
      put(message, into);
      if (++taken == kChunks) done.release();
    };
  });
  pair.a.call([&](Node& node, net::Loop&) {
    node.next = [&](Rank) {
      return sent < kChunks ? std::optional(chunk_message(source, sent++)) : std::nullopt;
    };
    node.pump(1);
  });
  done.acquire();
  pair.a.call([](Node& node, net::Loop&) { node.next = [](Rank) { return std::nullopt; }; });
}

// Two connected sockets of the loopback.
struct Sockets {
  int from = -1, to = -1;
  Sockets() {
    const int door = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof at;
    from = socket(AF_INET, SOCK_STREAM, 0);
    auto* const address = reinterpret_cast<sockaddr*>(&at);
    const bool good = bind(door, address, size) == 0 && listen(door, 1) == 0 &&
                      getsockname(door, address, &size) == 0 && connect(from, address, size) == 0;
    to = good ? accept(door, nullptr, nullptr) : -1;
    if (to < 0) give_up("no sockets on the loopback");
    const int yes = 1;
    setsockopt(from, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    close(door);
  }
  ~Sockets() {
    close(from);
    close(to);
  }
};

void send_all(int socket, const void* bytes, std::size_t size) {
  for (std::size_t at = 0; at < size;) {
    const ssize_t count = send(socket, static_cast<const char*>(bytes) + at, size - at, 0);
    if (count <= 0) give_up("send failed");
    at += std::size_t(count);
  }
}

void receive_all(int socket, void* bytes, std::size_t size) {
  for (std::size_t at = 0; at < size;) {
    const ssize_t count = recv(socket, static_cast<char*>(bytes) + at, size - at, MSG_WAITALL);
    if (count <= 0) give_up("recv failed");
    at += std::size_t(count);
  }
}

// With a checksum before each chunk, which the receiver verifies, or without.
void send_bare(const Sockets& sockets, const Bytes& source, Buffer& into, bool checked) {
  std::thread sender([&] {
    for (std::size_t at = 0; at < kBytes; at += kChunk) {
      if (checked) {
        const std::uint64_t sum = XXH3_64bits(source->data() + at, kChunk);
        send_all(sockets.from, &sum, sizeof sum);
      }
      send_all(sockets.from, source->data() + at, kChunk);
    }
  });
  for (std::size_t at = 0; at < kBytes; at += kChunk) {
    std::uint64_t sum = 0;
    if (checked) receive_all(sockets.to, &sum, sizeof sum);
    receive_all(sockets.to, &into[at], kChunk);
    if (checked && sum != XXH3_64bits(&into[at], kChunk)) give_up("a wrong checksum");
  }
  sender.join();
}

struct Goodput {
  struct Way {
    std::vector<double> rates, cpu, ratios;  // GB/s; seconds a GB; ours by this
  };
  Way ours, checked, unchecked, tls;
};

Goodput goodput() {
  const Bytes source = distinct_bytes();
  Buffer into(kBytes);
  Pair pair, tls_pair{true};
  const Sockets sockets;
  Goodput result;
  const double gigabytes = double(kBytes) * 1e-9;
  const auto measure = [&](Goodput::Way& way, auto&& work) {
    std::fill(into.begin(), into.end(), std::byte{});
    const double before = cpu_seconds();
    way.rates.push_back(gigabytes / seconds_of(work));
    way.cpu.push_back((cpu_seconds() - before) / gigabytes);
    if (std::memcmp(into.data(), source->data(), kBytes) != 0)
      give_up("what arrived is not what was sent");
  };
  for (int repeat = 0; repeat <= kRepeats; ++repeat) {
    if (repeat == 1) result = {};
    measure(result.checked, [&] { send_bare(sockets, source, into, true); });
    measure(result.ours, [&] { send_ours(pair, source, into); });
    measure(result.tls, [&] { send_ours(tls_pair, source, into); });
    measure(result.unchecked, [&] { send_bare(sockets, source, into, false); });
    result.ours.ratios.push_back(result.tls.rates.back() / result.ours.rates.back());
    for (Goodput::Way* way : {&result.checked, &result.unchecked})
      way->ratios.push_back(result.ours.rates.back() / way->rates.back());
  }
  return result;
}

// --- round trips --------------------------------------------------------------------------------

constexpr std::size_t kTrips = 3000;

struct Trips {
  std::vector<double> ms;
  double gigabytes_s = 0;  // both ways together, meanwhile
};

// One end of the flow of chunks; used on its node's thread only.
struct End {
  const Bytes& source;
  Buffer into = Buffer(kBytes);
  std::uint64_t next = 0, taken = 0;
  bool flows = false;
  std::optional<Message> chunk() {
    return flows ? std::optional(chunk_message(source, next++ % kChunks)) : std::nullopt;
  }
};

// A message of 64 bytes from a, which b sends back, a millisecond after the one before is back.
Trips trips(Pair& pair, const Bytes& source, bool with_chunks) {
  constexpr std::uint16_t kPing = 2;
  End a{source}, b{source};
  a.flows = b.flows = with_chunks;
  std::binary_semaphore done{0};
  Trips result;
  net::Timer pause;
  Time sent{0};
  Message ping;
  ping.kind = kPing;
  ping.head = Payload(share(Buffer(64 - kFrameHeader)));
  pair.b.call([&](Node& node, net::Loop&) {
    node.take = [&](Rank from, const Message& message) {
      if (message.kind == kPing) return node.send(from, message, kControl);
      put(message, b.into);
      ++b.taken;
    };
    node.next = [&](Rank) { return b.chunk(); };
    node.pump(0);
  });
  const auto begin = std::chrono::steady_clock::now();
  pair.a.call([&](Node& node, net::Loop& loop) {
    const auto send = [&] {
      sent = loop.now();
      node.send(1, ping, kControl);
    };
    node.take = [&, send](Rank, const Message& message) {
      if (message.kind == kPing) {
        result.ms.push_back(1e3 * seconds(loop.now() - sent));
        if (result.ms.size() == kTrips) return done.release();
        pause = loop.at(loop.now() + 1ms, send);
        return;
      }
      put(message, a.into);
      ++a.taken;
    };
    node.next = [&](Rank) { return a.chunk(); };
    node.pump(1);
    send();
  });
  done.acquire();
  const auto end = std::chrono::steady_clock::now();
  pair.a.call([&](Node&, net::Loop&) { a.flows = false; });
  pair.b.call([&](Node&, net::Loop&) { b.flows = false; });
  std::this_thread::sleep_for(200ms);  // what is under way arrives
  for (ThreadedNode* node : {&pair.a, &pair.b})
    node->call([](Node& n, net::Loop&) {
      n.take = [](Rank, const Message&) {};
      n.next = [](Rank) { return std::nullopt; };
    });
  result.gigabytes_s = double((a.taken + b.taken) * kChunk) * 1e-9 /
                       std::chrono::duration<double>(end - begin).count();
  return result;
}

// The same by threads with sockets of their own, one for each way and one for the messages: what
// kernel and machine give.
Trips bare_trips(const Bytes& source) {
  const std::array<Sockets, 3> sockets;
  std::atomic<bool> over{false};
  std::array<std::uint64_t, 2> taken{};
  std::vector<std::thread> threads;
  for (const std::size_t way : {0, 1}) {
    threads.emplace_back([&, way] {
      for (std::uint64_t chunk = 0; !over; chunk = (chunk + 1) % kChunks)
        if (send(sockets[way].from, source->data() + chunk * kChunk, kChunk, 0) <= 0)
          give_up("send failed");
      shutdown(sockets[way].from, SHUT_WR);
    });
    threads.emplace_back([&, way] {
      Buffer into(kBytes);
      for (std::uint64_t at = 0;; at = (at + kChunk) % kBytes) {
        const ssize_t count = recv(sockets[way].to, &into[at], kChunk, MSG_WAITALL);
        if (count <= 0) return;
        taken[way] += std::uint64_t(count);
      }
    });
  }
  threads.emplace_back([&] {
    for (std::array<std::byte, 64> ping; recv(sockets[2].to, &ping, 64, MSG_WAITALL) > 0;)
      if (send(sockets[2].to, &ping, 64, 0) != 64) give_up("send failed");
  });
  Trips result;
  const double elapsed = seconds_of([&] {
    while (result.ms.size() < kTrips) {
      result.ms.push_back(1e3 * seconds_of([&] {
                            std::array<std::byte, 64> ping{};
                            if (send(sockets[2].from, &ping, 64, 0) != 64 ||
                                recv(sockets[2].from, &ping, 64, MSG_WAITALL) != 64)
                              give_up("no round trip");
                          }));
      std::this_thread::sleep_for(1ms);
    }
    over = true;
  });
  shutdown(sockets[2].from, SHUT_WR);
  for (std::thread& thread : threads) thread.join();
  result.gigabytes_s = double(taken[0] + taken[1]) * 1e-9 / elapsed;
  return result;
}

// --- the program --------------------------------------------------------------------------------

std::string spread(const char* format, const std::vector<double>& values) {
  const auto number = [&](double share) {
    return fmt::format(fmt::runtime(format), quantile(values, share));
  };
  return fmt::format("{} ({} .. {})", number(0.5), number(0), number(1));
}

std::string list(const std::vector<double>& values) {
  std::string text;
  for (const double value : values)
    text += fmt::format("{}{:.4g}", text.empty() ? "" : ", ", value);
  return "[" + text + "]";
}

std::string print(const Goodput& g, bool json) {
  if (json)
    return fmt::format(R"("goodput": {{"ours_GB_s": {}, "checked_GB_s": {}, "unchecked_GB_s": {}, )"
                       R"("ours_cpu_s_GB": {}, "checked_cpu_s_GB": {}, "unchecked_cpu_s_GB": {}, )"
                       R"("tls_GB_s": {}, "tls_cpu_s_GB": {}, "tls_ratio_to_plain": {:.3f}, )"
                       R"("ratio_to_checked": {:.3f}, "ratio_to_unchecked": {:.3f}}})",
                       list(g.ours.rates), list(g.checked.rates), list(g.unchecked.rates),
                       list(g.ours.cpu), list(g.checked.cpu), list(g.unchecked.cpu),
                       list(g.tls.rates), list(g.tls.cpu), median(g.ours.ratios),
                       median(g.checked.ratios), median(g.unchecked.ratios));
  const auto line = [](const char* name, const Goodput::Way& way) {
    return fmt::format("  {:27} {} GB/s, {} s of CPU a GB\n", name, spread("{:.2f}", way.rates),
                       spread("{:.2f}", way.cpu));
  };
  return fmt::format(
      "goodput, 1 GiB in chunks of 256 KiB, median of {} (least .. most)\n{}{}{}{}"
      "  longhaul/net, TLS to plain  {}\n"
      "  ratio to send, recv, verify {}\n"
      "  ratio to send and recv      {}\n",
      kRepeats, line("longhaul/net", g.ours), line("longhaul/net, TLS", g.tls),
      line("send, recv, verify", g.checked), line("send and recv", g.unchecked),
      spread("{:.2f}", g.ours.ratios), spread("{:.2f}", g.checked.ratios),
      spread("{:.2f}", g.unchecked.ratios));
}

std::string print(const char* name, const Trips& t, bool json) {
  return fmt::format(
      fmt::runtime(
          json ? R"("trips_{}": {{"count": {}, "p50_ms": {:.4f}, "p99_ms": {:.4f}, )"
                 R"("max_ms": {:.4f}, "GB_s_both_ways": {:.3f}}})"
               : "round trips {}, {} of 64 bytes: p50 {:.3f} ms, p99 {:.3f} ms, max {:.3f} ms, "
                 "beside {:.2f} GB/s\n"),
      name, t.ms.size(), quantile(t.ms, 0.5), quantile(t.ms, 0.99), quantile(t.ms, 1),
      t.gigabytes_s);
}

std::string print(const Memory& m, bool json) {
  return fmt::format(
      fmt::runtime(json ? R"("memory": {{"connections": {}, "idle_kB": {:.1f}, )"
                          R"("busy_kB": {:.1f}, "stopped_kB": {:.1f}}})"
                        : "resident a connection ({} of one node): idle {:.0f} kB, busy both ways "
                          "{:.0f} kB, to a peer that stopped reading {:.0f} kB\n"),
      kFar, m.idle * 1e-3, m.busy * 1e-3, m.stopped * 1e-3);
}

int main_of(int argc, char** argv) {
  bool json = false;
  std::string_view only;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--json")
      json = true;
    else if (word == "--only" && i + 1 < argc)
      only = argv[++i];
    else
      return fmt::print(stderr, "usage: net_bench [--json] [--only goodput|trips|memory]\n"), 2;
  }
  const auto wanted = [&](std::string_view part) { return only.empty() || only == part; };
  std::vector<std::string> parts;
  // First: it forks, and nothing that was freed lies about.
  if (wanted("memory")) parts.push_back(print(memory(), json));
  if (wanted("goodput")) parts.push_back(print(goodput(), json));
  if (wanted("trips")) {
    const Bytes source = distinct_bytes();
    Pair pair;
    parts.push_back(print("alone", trips(pair, source, false), json));
    parts.push_back(print("beside_chunks", trips(pair, source, true), json));
    parts.push_back(print("beside_send_and_recv", bare_trips(source), json));
  }
  std::string text;
  for (const std::string& part : parts) text += (json && !text.empty() ? ", " : "") + part;
  fmt::print("{}", json ? "{" + text + "}\n" : text);
  return 0;
}

}  // namespace
}  // namespace longhaul::bench

int main(int argc, char** argv) { return longhaul::bench::main_of(argc, argv); }
