#pragma once
// Peers of several sites in one loop, which keep what they hear.
#include <functional>
#include <map>

#include "longhaul/net/peers.h"

namespace longhaul::net::testing {

// A process of site `self`; `incarnation` is what it believes of itself.
struct PeerNode final : Peers::Events {
  PeerNode(Loop& loop, Rank self, const std::vector<std::string>& names, PeersConfig config,
           std::uint32_t incarnation = 0)
      : place{.self = self,
              .members = members(self, names, incarnation),
              .layout = Layout::flat(1)},
        peers(loop, std::move(config), place, *this) {
    const auto listens = peers.listen();
    LH_CHECK(listens);
    port = *listens;
  }
  static std::shared_ptr<const Members> members(Rank self, const std::vector<std::string>& names,
                                                std::uint32_t incarnation) {
    Members all;
    for (const std::string& name : names) all.push_back({name});
    all[self].incarnation = incarnation;
    return std::make_shared<const Members>(std::move(all));
  }
  void on_message(Rank from, const Message& message) override {
    kinds.push_back(message.kind);
    heard[from].push_back(message.kind);
    bytes += message.body.size();
  }
  void on_writable(Rank, unsigned) override {}
  void on_silent(Rank, bool, const std::string&) override {}
  bool on_checkpoint(Rank, std::uint64_t) override { return true; }
  void on_refused(const Error& why) override {
    refused = why.what;
    is_invalid = why.kind == Error::Kind::invalid_argument;
  }
  void on_resumes(const Error& why) override { resumes = why.what; }
  void on_rejoin_request(Rank from) override {
    if (lets_in) peers.admit(from);
  }
  void on_note(const std::string& text) override { notes.push_back(text); }

  bool has_said(std::string_view text) const {
    return std::ranges::any_of(
        notes, [&](const std::string& note) { return note.find(text) != std::string::npos; });
  }

  Place place;
  Peers peers;
  std::uint16_t port = 0;
  std::vector<std::uint16_t> kinds;                  // of all messages
  std::map<Rank, std::vector<std::uint16_t>> heard;  // the same by sender
  std::uint64_t bytes = 0;                           // of their bodies
  std::vector<std::string> notes;
  std::string refused, resumes;
  bool is_invalid = false;  // what it was refused for
  bool lets_in = false;     // new processes
};

struct PeerLoop {
  explicit PeerLoop(std::vector<std::string> sites) : names(std::move(sites)) {
    nodes.resize(names.size());
  }
  PeersConfig config(Rank self, std::uint32_t incarnation = 0) const {
    PeersConfig config{.job_hash = 7, .process = 100 + self + 10 * incarnation};
    config.addresses.assign(names.size(), {"127.0.0.1", 0});
    return config;
  }
  PeerNode& start(Rank self, PeersConfig config, std::uint32_t incarnation = 0) {
    nodes[self] = std::make_unique<PeerNode>(loop, self, names, std::move(config), incarnation);
    return *nodes[self];
  }
  // Of those from `first` on; the others' are where nobody listens.
  void tell_addresses(Rank first = 0) {
    std::vector<Address> addresses(nodes.size(), {"127.0.0.1", 9});
    for (Rank rank = first; rank < nodes.size(); ++rank)
      if (nodes[rank]) addresses[rank].port = nodes[rank]->port;
    for (const auto& node : nodes)
      if (node) node->peers.set_addresses(addresses);
  }
  // connect_all() dials first, and waits: here until it is told to stop waiting, at once.
  void dial(Rank rank) {
    if (nodes[rank]) (void)nodes[rank]->peers.connect_all([] { return true; });
  }
  bool until(const std::function<bool()>& done) {
    const Time end = loop.now() + std::chrono::seconds(60);
    while (loop.now() < end && !done()) {
      for (const auto& node : nodes)
        if (node) node->peers.tick();
      (void)loop.run_until(loop.now() + std::chrono::milliseconds(5), done);
    }
    return done();
  }
  void send(Rank from, Rank to, std::uint16_t kind, std::size_t size = 100, Service service = {}) {
    Message message{.kind = kind, .body = Payload(share(Buffer(size)))};
    nodes[from]->peers.send({to, message, service});
  }

  const std::vector<std::string> names;
  Loop loop;
  std::vector<std::unique_ptr<PeerNode>> nodes;  // by rank; null: none runs there
};

}  // namespace longhaul::net::testing
