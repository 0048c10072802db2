#pragma once
// A node of nothing but its peers: what net_bench sends and receives with.
#include <ctime>
#include <memory>
#include <semaphore>
#include <thread>

#include "bench/bench.h"
#include "longhaul/core/turn.h"
#include "longhaul/net/peers.h"

namespace longhaul::bench {

using namespace std::chrono_literals;

inline Place place_of(Rank self, std::uint32_t size) {
  Members members(size);
  for (Rank rank = 0; rank < size; ++rank) members[rank].site = "n" + std::to_string(rank);
  Place place;
  place.self = self;
  place.members = std::make_shared<const Members>(std::move(members));
  return place;
}

// Of nodes n0, n1 ...; made once.
inline std::shared_ptr<secure::Credentials> credentials_of(Rank self, std::uint32_t size) {
  const secure::Validity valid{std::time(nullptr) - 3600, std::time(nullptr) + 30 * 86400};
  static const secure::KeyPair authority = must(secure::make_authority(valid));
  std::vector<std::string> sites;
  for (Rank rank = 0; rank < size; ++rank) sites.push_back("n" + std::to_string(rank));
  const std::string site = sites[self];
  return must(secure::Credentials::make(must(secure::issue(authority, site, valid)),
                                        authority.certificate, site, std::move(sites)));
}

inline net::PeersConfig config_of(Rank self, std::uint32_t size, bool tls) {
  net::PeersConfig config;
  config.job_hash = 7;
  config.process = 100 + self;
  config.addresses.assign(size, {"127.0.0.1", 0});
  if (tls) config.credentials = credentials_of(self, size);
  return config;
}

class Node final : private net::Peers::Events {
 public:
  Node(net::Loop& loop, Rank self, std::uint32_t size, bool tls = false)
      : Node(loop, config_of(self, size, tls), place_of(self, size)) {}
  Node(net::Loop& loop, net::PeersConfig config, const Place& place)
      : loop_(loop), peers_(loop, std::move(config), place, *this) {
    port_ = must(peers_.listen());
  }

  std::uint16_t port() const { return port_; }
  void meet(const std::vector<std::uint16_t>& ports) {
    std::vector<net::Address> addresses;
    for (const std::uint16_t port : ports) addresses.push_back({"127.0.0.1", port});
    meet_at(std::move(addresses));
  }
  void meet_at(std::vector<net::Address> addresses) {
    peers_.set_addresses(std::move(addresses));
    if (const Status met = peers_.connect_all([] { return false; }); !met)
      give_up(met.error().what);
  }
  void open() {
    peers_.open();
    tick();
  }
  void send(Rank to, Message message, Service service) {
    peers_.send({to, std::move(message), service});
  }
  void drop(Rank peer) { peers_.drop(peer); }
  // Keeps as many bulk messages under way to a peer as a machine may; until there is none.
  using Next = std::function<std::optional<Message>(Rank to)>;
  void pump(Rank to) {
    for (int i = 0; i < Credits::kPerClass; ++i) on_writable(to, 0);
  }
  const net::Datagrams::Figures& datagrams() const { return peers_.datagrams(); }

  // On the loop's thread, as is setting them.
  std::function<void(Rank from, const Message&)> take = [](Rank, const Message&) {};
  Next next = [](Rank) { return std::nullopt; };
  Service service = {};  // of what `next` says
  std::function<void(const std::string&)> note = [](const std::string& text) { give_up(text); };

 private:
  void on_message(Rank from, const Message& message) override { take(from, message); }
  void on_writable(Rank peer, unsigned) override {
    if (auto message = next(peer)) send(peer, *std::move(message), service);
  }
  void on_silent(Rank, bool, const std::string& trouble) override { give_up("silent: " + trouble); }
  bool on_checkpoint(Rank, std::uint64_t) override { return true; }
  bool may_rejoin(Rank) override { return false; }
  void on_rejoin_request(Rank) override {}
  void on_refused(const Error& why) override { give_up(why.what); }
  void on_note(const std::string& text) override { note(text); }
  void tick() {
    peers_.tick();
    tick_ = loop_.at(loop_.now() + 50ms, [this] { tick(); });  // as EventLoop does
  }

  net::Loop& loop_;
  net::Peers peers_;
  net::Timer tick_;
  std::uint16_t port_ = 0;
};

// With a loop and a thread of its own.
class ThreadedNode {
 public:
  ThreadedNode(Rank self, std::uint32_t size, bool tls = false) : node_(loop_, self, size, tls) {}
  ~ThreadedNode() {
    if (!thread_.joinable()) return;
    loop_.post([this] { loop_.stop(); });
    thread_.join();
  }
  std::uint16_t port() const { return node_.port(); }
  // `at_once`: its run goes on already, as do those of peers that have opened and met nobody.
  void start(std::vector<std::uint16_t> ports, bool at_once = false) {
    thread_ = std::thread([this, ports = std::move(ports), at_once] {
      if (at_once) node_.open();
      node_.meet(ports);
      if (!at_once) node_.open();
      met_.release();
      loop_.run();
    });
  }
  void wait_until_met() { met_.acquire(); }
  // On its thread; returns when it is done.
  void call(const std::function<void(Node&, net::Loop&)>& work) {
    std::binary_semaphore done{0};
    loop_.post([&] {
      work(node_, loop_);
      done.release();
    });
    done.acquire();
  }

 private:
  net::Loop loop_;
  Node node_;
  std::thread thread_;
  std::binary_semaphore met_{0};
};

}  // namespace longhaul::bench
