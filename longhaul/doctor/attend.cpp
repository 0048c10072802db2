#include <atomic>
#include <list>
#include <mutex>
#include <thread>

#include <fmt/format.h>

#include "longhaul/doctor/examine.h"
#include "longhaul/doctor/probe.h"

namespace longhaul::doctor {
namespace {

using namespace std::chrono_literals;

constexpr Time kHello = 5s;        // for a stranger to say who he is
constexpr std::size_t kMost = 16;  // connections at a time
constexpr Time kLongestWait = 1h;  // of the first site, between two things that it asks for

// One site's part: a thread that listens, and one for each connection.
class Attendance {
 public:
  Attendance(const Self& self, const AttendOptions& options) : self_(self), options_(options) {
    // Whatever ends this ends the threads, too.
    own_.stop = [this] { return over_.load() || (self_.stop && self_.stop()); };
  }
  Status run(int door);

 private:
  struct Server {
    std::thread thread;
    std::atomic<bool> done{false};
  };
  void serve(Socket);
  void note(const std::string& text) {
    const std::lock_guard lock(mutex_);
    options_.tell(text);
  }
  Status follow(const Channel&, bool& asked);
  void sweep(bool all);
  bool over();

  const Self& self_;
  const AttendOptions& options_;
  Self own_ = self_;  // with a stop of its own
  std::mutex mutex_;  // of what follows, and of tell()
  bool led_ = false;  // the first site is here, or was
  std::optional<Status> end_;
  std::size_t probed_ = 0;
  Clock::time_point last_ = Clock::now();  // when somebody measured
  std::atomic<bool> over_{false};
  std::list<Server> servers_;  // of the listening thread
};

// Does what the first site asks, until it says goodbye.
Status Attendance::follow(const Channel& channel, bool& asked) {
  const Limit soon = Limit::within(kHello, own_.stop);
  LH_TRY(channel.send(Kind::hello, own_.hello(Purpose::control), soon));
  LH_TRY(channel.send(Kind::facts, options_.facts, soon));
  for (;;) {
    const auto any = channel.receive_any(Limit::within(kLongestWait, own_.stop));
    if (!any) return unavailable(channel.peer() + ": in the middle: " + any.error().what);
    if (any->kind == Kind::bye) return Ok{};
    if (any->kind != Kind::probe) return channel.wrong(any->kind, "came out of turn");
    const auto ask = channel.read<Ask>(any->kind, any->body);
    if (!ask) return ask.error();
    if (ask->to >= own_.names.size() || ask->to == own_.site)
      return channel.wrong(any->kind, "of a site that is not another of this job");
    asked = true;
    note(fmt::format("measuring the way to {}", own_.names[ask->to]));
    LH_TRY(channel.send(Kind::result, probe(own_, ask->to, ask->plan),
                        Limit::within(kHello, own_.stop)));
  }
}

void Attendance::serve(Socket socket) {
  auto greeted = hear(std::move(socket), own_, Limit::within(kHello, own_.stop));
  if (!greeted) return note("turned away: " + greeted.error().what);
  if (greeted->hello.purpose == Purpose::probe) {
    const Status answered = answer(*greeted, own_, options_.port);
    if (!answered && !over_) note(answered.error().what);
    const std::lock_guard lock(mutex_);
    last_ = Clock::now();
    ++probed_;
    return;
  }
  bool second = false;
  {
    const std::lock_guard lock(mutex_);
    second = std::exchange(led_, true);
  }
  if (second || greeted->hello.site != 0) {
    (void)greeted->channel.send(
        Kind::refusal,
        Text{second ? "another doctor is at work here" : "only the first site leads"},
        Limit::within(kHello, own_.stop));
    return;
  }
  bool asked = false;
  const Status end = follow(greeted->channel, asked);
  const std::lock_guard lock(mutex_);
  if (!end && !asked) {  // its call broke off: it calls again
    led_ = false;
    last_ = Clock::now();
  } else {
    end_ = end;
  }
}

void Attendance::sweep(bool all) {
  for (auto one = servers_.begin(); one != servers_.end();) {
    if (!all && !one->done) {
      ++one;
      continue;
    }
    one->thread.join();
    one = servers_.erase(one);
  }
}

// Without the first site it stays for the others, who may be told to call it; not for long.
bool Attendance::over() {
  const std::lock_guard lock(mutex_);
  if (end_) return true;
  if (self_.stop && self_.stop()) {
    end_ = Status(unavailable("stopped"));
  } else if (!led_ && Clock::now() > last_ + 2 * options_.patience) {
    end_ = Status(unavailable(fmt::format(
        "{} ({}) did not come within {:.0f} s{}: it dials this site; start it too, and look at "
        "the way from there to here (firewall, address)",
        self_.names[0], net::to_string(self_.addresses[0]), 2 * seconds(options_.patience),
        probed_ > 0 ? fmt::format(", although {} measurements by others did", probed_) : "")));
  }
  return end_.has_value();
}

Status Attendance::run(int door) {
  while (!over()) {
    auto socket = accept(door, Limit::within(100ms, self_.stop));
    sweep(false);
    if (!socket || servers_.size() >= kMost) continue;  // the latter is closed
    Server& server = servers_.emplace_back();
    server.thread = std::thread([this, &server, own = std::move(*socket)]() mutable {
      serve(std::move(own));
      server.done = true;
    });
  }
  over_ = true;
  sweep(true);
  return *end_;
}

}  // namespace

Status attend(const Self& self, int door, const AttendOptions& options) {
  return Attendance(self, options).run(door);
}

}  // namespace longhaul::doctor
