#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <list>
#include <mutex>
#include <thread>

#include <fmt/format.h>

#include "longhaul/doctor/coordinate.h"
#include "longhaul/doctor/probe.h"
#include "longhaul/net/callers.h"

namespace longhaul::doctor {
namespace {

using namespace std::chrono_literals;

constexpr Time kHelloTimeout = 5s;   // for the hello of a new caller
constexpr Time kLeaderTimeout = 1h;  // between two requests of the first site

// Returns the host of a caller and its connection; empty after 0.1 s without a call.
std::optional<std::pair<std::string, int>> accept_one(std::span<const int> listening_sockets) {
  std::vector<pollfd> waits;
  for (const int one : listening_sockets) waits.push_back({one, POLLIN, 0});
  if (poll(waits.data(), waits.size(), 100) <= 0) return std::nullopt;
  for (const int one : listening_sockets) {
    sockaddr_storage at{};
    socklen_t size = sizeof at;
    auto* const raw = reinterpret_cast<sockaddr*>(&at);
    const int made = accept4(one, raw, &size, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (made < 0) continue;
    char host[NI_MAXHOST] = "";
    (void)getnameinfo(raw, size, host, sizeof host, nullptr, 0, NI_NUMERICHOST);
    return std::pair(net::host_of(net::to_string(net::Address{host, 0})), made);
  }
  return std::nullopt;
}

// One site's participant: a listening thread, and a thread for each connection.
class Participant {
 public:
  Participant(const LocalSite& self, const ParticipantOptions& options)
      : self_(self), options_(options) {
    // Every end of the participant also ends its threads.
    own_.stop = [this] { return over_.load() || (self_.stop && self_.stop()); };
  }
  Status run(std::span<const int> listening_sockets) {
    while (!over()) {
      const auto caller = accept_one(listening_sockets);
      sweep(false);
      if (!caller) continue;
      const auto& [host, connection] = *caller;
      if (!make_room_for(host)) {
        close(connection);
        continue;
      }
      Server& server = servers_.emplace_back();
      server.host = host;
      server.thread = std::thread([this, &server, accepted = connection] {
        serve(accepted, server);
        server.done = true;
      });
    }
    over_ = true;
    sweep(true);
    return *end_;
  }

 private:
  struct Server {
    std::string host;
    Clock::time_point since = Clock::now();
    std::thread thread;
    // is_known: it has introduced itself. has_to_go: another caller gets its place.
    std::atomic<bool> is_known{false}, has_to_go{false}, done{false};
  };
  void serve(int connection, Server& server) {
    const auto stop = [&] { return server.has_to_go || own_.stop(); };
    auto session = accept_peer(Channel(connection), own_, Deadline::within(kHelloTimeout, stop));
    server.is_known = bool(session);
    if (!session) return report_progress("refused a connection: " + session.error().what);
    if (session->hello.purpose == Purpose::probe) {
      const Status answered = answer(*session, own_, options_.port);
      if (!answered && !over_) report_progress(answered.error().what);
      const std::lock_guard lock(mutex_);
      last_ = Clock::now();
      ++probed_;
      return;
    }
    bool second = false;
    {
      const std::lock_guard lock(mutex_);
      second = std::exchange(coordinator_seen_, true);
    }
    if (second || session->hello.site != 0) {
      (void)session->channel.send(
          Kind::refusal,
          Text{second ? "another doctor is at work here" : "only the first site leads"},
          Deadline::within(kHelloTimeout, own_.stop));
      return;
    }
    bool asked = false;
    const Status end = follow(session->channel, asked);
    const std::lock_guard lock(mutex_);
    if (!end && !asked) {  // the site will call again
      coordinator_seen_ = false;
      last_ = Clock::now();
    } else {
      end_ = end;
    }
  }

  // Returns true if the caller gets a place, as at the port of a run (net/callers.h). A caller that
  // has introduced itself keeps its place.
  bool make_room_for(const std::string& host) {
    const auto is_member = [&](const std::string& of) {
      return std::ranges::any_of(self_.addresses, [&](const net::Address& address) {
        return net::host_of(net::to_string(net::Address{address.host, 0})) == of;
      });
    };
    const auto time_of = [](Clock::time_point at) { return Time(at.time_since_epoch()); };
    std::vector<Server*> waiting;
    std::vector<net::Caller> callers;
    for (Server& one : servers_) {
      if (one.is_known || one.has_to_go) continue;
      waiting.push_back(&one);
      callers.push_back({one.host, is_member(one.host), true, time_of(one.since)});
    }
    const auto place = net::Callers::place_of({host, is_member(host), true, time_of(Clock::now())},
                                              callers, time_of(Clock::now()));
    if (place && *place < waiting.size()) waiting[*place]->has_to_go = true;
    return place && servers_.size() < 2 * net::Callers::kMost;
  }

  void report_progress(const std::string& text) {
    const std::lock_guard lock(mutex_);
    options_.on_progress(text);
  }
  // Serves the requests of the first site until it says goodbye.
  Status follow(Channel& channel, bool& asked) {
    const Deadline soon = Deadline::within(kHelloTimeout, own_.stop);
    LH_TRY(channel.send(Kind::hello, own_.hello(Purpose::control), soon));
    LH_TRY(channel.send(Kind::facts, options_.facts, soon));
    for (;;) {
      const auto any = channel.receive_any(Deadline::within(kLeaderTimeout, own_.stop));
      if (!any)
        return unavailable(channel.peer() + ": the connection broke off: " + any.error().what);
      if (any->kind == Kind::bye) return Ok{};
      if (any->kind != Kind::probe) return channel.wrong(any->kind, "came out of turn");
      LH_LET(ask, channel.read<ProbeRequest>(any->kind, any->body));
      if (ask.to >= own_.names.size() || ask.to == own_.site)
        return channel.wrong(any->kind, "of a site that is not another of this job");
      asked = true;
      report_progress(fmt::format("measuring the path to {}", own_.names[ask.to]));
      const PairResult result = probe(own_, ask.to, ask.plan);
      LH_TRY(channel.send(Kind::result, result, Deadline::within(kHelloTimeout, own_.stop)));
    }
  }

  void sweep(bool all) {
    for (auto one = servers_.begin(); one != servers_.end();) {
      if (!all && !one->done) {
        ++one;
        continue;
      }
      one->thread.join();
      one = servers_.erase(one);
    }
  }

  // Returns true if the participant has ended. Without the first site it ends some time after the
  // last measurement of another site.
  bool over() {
    const std::lock_guard lock(mutex_);
    if (end_) return true;
    if (self_.stop && self_.stop()) {
      end_ = Status(unavailable("stopped"));
    } else if (!coordinator_seen_ && Clock::now() > last_ + 2 * options_.arrival_timeout) {
      end_ = Status(unavailable(fmt::format(
          "{} ({}) did not connect within {:.0f} s{}: it dials this site; start it too, and look "
          "at "
          "the way from there to here (firewall, address)",
          self_.names[0], net::to_string(self_.addresses[0]), 2 * seconds(options_.arrival_timeout),
          probed_ > 0 ? fmt::format(", although {} measurements by others did", probed_) : "")));
    }
    return end_.has_value();
  }

  const LocalSite& self_;
  const ParticipantOptions& options_;
  LocalSite own_ = self_;          // with its own stop
  std::mutex mutex_;               // guards the members up to last_, and on_progress()
  bool coordinator_seen_ = false;  // the first site is or was connected
  std::optional<Status> end_;
  std::size_t probed_ = 0;
  Clock::time_point last_ = Clock::now();  // last measurement
  std::atomic<bool> over_{false};
  std::list<Server> servers_;  // used by the listening thread only
};

}  // namespace

Status run_participant(const LocalSite& self, std::span<const int> listening_sockets,
                       const ParticipantOptions& options) {
  return Participant(self, options).run(listening_sockets);
}

}  // namespace longhaul::doctor
