// One node of net_wan.py: connects with the others, then rank 0 sends to rank 1 for some seconds.
//
//   net_wan_node --rank R --at HOST:PORT,HOST:PORT,... [--keys DIR] [--datagrams] [--dscp]
//                [--congestion bbr] [--since NS] [--send S] [--from S --until S]
//
// Sites are n0, n1 ...; --keys has ca.crt and their files, without it all goes in plain text. Rank
// 1 prints what came between --from and --until, counted from the first bulk message, as one JSON
// object, and ends. --since: CLOCK_MONOTONIC when the first process was started; each node prints
// the seconds since then when it has met all others. Without --send and --until a node ends when
// its standard input does.
#include <unistd.h>

#include <cstring>
#include <map>
#include <string_view>

#include <fmt/format.h>

#include "bench/net_node.h"

namespace longhaul::bench {
namespace {

constexpr std::size_t kChunk = 256 * 1024, kSource = 64 * 1024 * 1024;
constexpr std::size_t kDatagramBody = net::Datagrams::kLargest - kFrameHeader;
constexpr std::uint16_t kBulk = 1;

struct Arguments {
  Rank rank = 0;
  std::vector<net::Address> at;
  std::string keys, congestion;
  bool datagrams = false, dscp = false;
  std::int64_t since_ns = 0;
  double send_s = 0, from_s = 0, until_s = 0;
};

std::vector<net::Address> addresses_of(std::string_view text) {
  std::vector<net::Address> addresses;
  while (!text.empty()) {
    const std::size_t comma = std::min(text.find(','), text.size());
    addresses.push_back(must(net::parse_address(text.substr(0, comma))));
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return addresses;
}

Arguments arguments_of(int argc, char** argv) {
  Arguments args;
  const std::map<std::string_view, std::function<void(const char*)>> options = {
      {"--rank", [&](const char* text) { args.rank = Rank(std::atoi(text)); }},
      {"--at", [&](const char* text) { args.at = addresses_of(text); }},
      {"--keys", [&](const char* text) { args.keys = text; }},
      {"--congestion", [&](const char* text) { args.congestion = text; }},
      {"--since", [&](const char* text) { args.since_ns = std::atoll(text); }},
      {"--send", [&](const char* text) { args.send_s = std::atof(text); }},
      {"--from", [&](const char* text) { args.from_s = std::atof(text); }},
      {"--until", [&](const char* text) { args.until_s = std::atof(text); }},
  };
  const std::map<std::string_view, bool*> flags = {{"--datagrams", &args.datagrams},
                                                   {"--dscp", &args.dscp}};
  for (int i = 1; i < argc; ++i) {
    if (const auto flag = flags.find(argv[i]); flag != flags.end()) {
      *flag->second = true;
      continue;
    }
    const auto option = options.find(argv[i]);
    if (option == options.end() || i + 1 == argc) give_up(fmt::format("what is {}?", argv[i]));
    option->second(argv[++i]);
  }
  if (args.rank >= args.at.size()) give_up("--rank and --at say which node this is");
  return args;
}

net::PeersConfig config_of(const Arguments& args) {
  net::PeersConfig config;
  config.job_hash = 7;
  config.process = 100 + args.rank;
  config.addresses = args.at;
  config.congestion = args.congestion;
  config.datagrams = args.datagrams;
  config.dscp = args.dscp;
  if (args.keys.empty()) return config;
  std::vector<std::string> sites;
  for (std::size_t rank = 0; rank < args.at.size(); ++rank)
    sites.push_back("n" + std::to_string(rank));
  const std::string own = sites[args.rank];
  config.credentials =
      must(secure::Credentials::open(secure::KeyFolder(args.keys), own, std::move(sites)));
  return config;
}

double seconds_since(std::int64_t ns) {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return 1e-9 * double(std::chrono::nanoseconds(now).count() - ns);
}

// Bulk of distinct memory, as a strategy's.
class Sender {
 public:
  explicit Sender(bool datagrams) : size_(datagrams ? kDatagramBody : kChunk) {
    Buffer bytes(kSource);
    std::uint64_t x = 1;
    for (std::size_t at = 0; at < kSource; at += 8) {
      x = x * 6364136223846793005u + 1442695040888963407u;
      std::memcpy(&bytes[at], &x, 8);
    }
    source_ = share(std::move(bytes));
  }
  Message next() {
    Message message;
    message.kind = kBulk;
    if (at_ + size_ > kSource) at_ = 0;
    message.body = Payload(source_, std::exchange(at_, at_ + size_), size_);
    return message;
  }

 private:
  const std::size_t size_;
  Bytes source_;
  std::size_t at_ = 0;
};

// Copies what comes to where it belongs, and counts it.
struct Receiver {
  const Arguments& args;
  net::Loop& loop;
  Buffer into = Buffer(kSource);
  std::size_t at = 0;
  std::uint64_t bytes = 0, messages = 0;
  std::optional<Time> first = {};
  void take(const Message& message) {
    if (message.kind != kBulk) return;
    if (!first) first = loop.now();
    const double now = seconds(loop.now() - *first);
    const auto body = message.body.view();
    if (at + body.size() > into.size()) at = 0;
    std::memcpy(&into[at], body.data(), body.size());
    at += body.size();
    if (now >= args.from_s) bytes += body.size(), ++messages;
  }
  bool is_over() const { return first && loop.now() - *first >= from_seconds(args.until_s); }
};

int main_of(int argc, char** argv) {
  const Arguments args = arguments_of(argc, argv);
  net::Loop loop;
  Node node(loop, config_of(args), place_of(args.rank, std::uint32_t(args.at.size())));
  node.note = [](const std::string& text) { fmt::print(stderr, "{}\n", text); };
  node.meet_at(args.at);
  fmt::print(R"({{"joined_s": {:.6f}}})"
             "\n",
             seconds_since(args.since_ns));
  std::fflush(stdout);
  node.open();
  if (args.until_s > 0) {
    Receiver receiver{args, loop};
    node.take = [&](Rank, const Message& message) { receiver.take(message); };
    (void)loop.run_until(loop.now() + from_seconds(args.until_s + 30),
                         [&] { return receiver.is_over(); });
    fmt::print(R"({{"bytes": {}, "mbps": {:.3f}, "datagrams": {}}})"
               "\n",
               receiver.bytes, 8e-6 * double(receiver.bytes) / (args.until_s - args.from_s),
               node.datagrams().received);
    return 0;
  }
  if (args.send_s > 0) {
    Sender sender(args.datagrams);
    if (args.datagrams) node.service = {.delivery = Service::Delivery::best_effort, .priority = 2};
    node.next = [&](Rank) { return sender.next(); };
    // Datagrams go once the other side has answered one.
    (void)loop.run_until(loop.now() + 2s, [] { return false; });
    node.pump(1);
    (void)loop.run_until(loop.now() + from_seconds(args.send_s), [] { return false; });
    return 0;
  }
  const auto over = net::watch_readable(loop, STDIN_FILENO, [&] { loop.stop(); });
  loop.run();
  return 0;
}

}  // namespace
}  // namespace longhaul::bench

int main(int argc, char** argv) { return longhaul::bench::main_of(argc, argv); }
