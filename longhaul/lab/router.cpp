#include "longhaul/lab/router.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "longhaul/flow/capacities.h"
#include "longhaul/lab/descriptor.h"
#include "longhaul/lab/site_networks.h"

namespace longhaul::lab {

namespace {

constexpr std::size_t kIpHeader = 20, kTcpHeader = 20;  // without options
constexpr std::size_t kFin = 0x01, kSyn = 0x02, kRst = 0x04, kAck = 0x10;

}  // namespace

bool is_bare_acknowledgement(std::span<const std::byte> packet) {
  const auto byte = [&](std::size_t i) { return std::to_integer<std::size_t>(packet[i]); };
  if (packet.size() < kIpHeader || byte(9) != IPPROTO_TCP) return false;
  if ((byte(6) & 0x1f) != 0 || byte(7) != 0) return false;  // not the first fragment
  const std::size_t ip = (byte(0) & 0xf) * 4;
  if (ip < kIpHeader || packet.size() < ip + kTcpHeader) return false;
  const std::size_t tcp = (byte(ip + 12) >> 4) * 4;
  return (byte(ip + 13) & (kFin | kSyn | kRst | kAck)) == kAck && packet.size() == ip + tcp;
}

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kBatch = 32;  // packets read from one site before the next one
constexpr Time kGrain = std::chrono::microseconds(50);  // minimum sleep
constexpr std::size_t kRoom = 100'000;                  // packets in flight: 150 MB
constexpr std::size_t kHeader = 20;                     // IPv4 header without options

using Frame = std::array<std::byte, kMaxPacket>;

// Storage of packets in flight.
class Store {
 public:
  std::optional<std::uint32_t> take() {
    if (free_.empty()) {
      if (blocks_.size() * kBlock >= kRoom) return std::nullopt;
      blocks_.push_back(std::make_unique<std::array<Frame, kBlock>>());
      for (std::size_t i = kBlock; i-- > 0;)
        free_.push_back(std::uint32_t((blocks_.size() - 1) * kBlock + i));
    }
    const std::uint32_t slot = free_.back();
    free_.pop_back();
    return slot;
  }
  void give_back(std::uint32_t slot) { free_.push_back(slot); }
  Frame& at(std::uint32_t slot) { return (*blocks_[slot / kBlock])[slot % kBlock]; }

 private:
  static constexpr std::size_t kBlock = 256;
  std::vector<std::unique_ptr<std::array<Frame, kBlock>>> blocks_;
  std::vector<std::uint32_t> free_;
};

double cpu_seconds() {
  rusage usage = {};
  getrusage(RUSAGE_THREAD, &usage);
  const auto time = [](const timeval& t) { return double(t.tv_sec) + double(t.tv_usec) * 1e-6; };
  return time(usage.ru_utime) + time(usage.ru_stime);
}

class Router {
 public:
  explicit Router(const RouterConfig& config)
      : config_(config), shaper_(config.wan, config.seed, config.changes) {}
  Result<RouterFigures> run() {
    LH_CHECK(config_.tuns.size() == config_.wan.sites.size());
    events_ = Descriptor(epoll_create1(EPOLL_CLOEXEC));
    if (!events_) return unavailable(fmt::format("router: epoll: {}", strerror(errno)));
    for (std::uint32_t site = 0; site < config_.tuns.size(); ++site)
      LH_TRY(watch(config_.tuns[site], site));
    LH_TRY(watch(config_.stop, std::uint32_t(config_.tuns.size())));
    ready_.resize(config_.tuns.size() + 1);
    // Sleep with microsecond precision and run before the learners, if permitted. The figures show
    // the result.
    prctl(PR_SET_TIMERSLACK, 1UL);
    sched_param priority = {};
    priority.sched_priority = 1;
    (void)sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &priority);
    const double cpu = cpu_seconds();
    const Clock::time_point born = Clock::now();
    while (wait()) deliver_due(now());
    figures_.seconds = seconds(Clock::now() - born);
    figures_.busy_share = (cpu_seconds() - cpu) / std::max(figures_.seconds, 1e-9);
    return figures_;
  }

 private:
  // Returns 0 until a site sends, so that traces begin with the use of the network.
  Time now() const { return begun_ ? Clock::now() - *begun_ : Time{0}; }
  Status watch(int descriptor, std::uint32_t site) {
    epoll_event event = {};
    event.events = EPOLLIN;
    event.data.u32 = site;
    if (epoll_ctl(events_.get(), EPOLL_CTL_ADD, descriptor, &event) == 0) return Ok{};
    return unavailable(fmt::format("router: epoll: {}", strerror(errno)));
  }

  // Returns false at the end.
  bool wait() {
    std::optional<timespec> within;
    if (const auto next = shaper_.next_event(); next && begun_) {
      const Time left = std::max(*next - now(), kGrain);
      within = timespec{left.count() / 1'000'000'000, left.count() % 1'000'000'000};
    }
    held_up_ = now() - looked_ > kLate;
    const int count = epoll_pwait2(events_.get(), ready_.data(), int(ready_.size()),
                                   within ? &*within : nullptr, nullptr);
    looked_ = now();
    for (int i = 0; i < count; ++i) {
      const std::uint32_t site = ready_[std::size_t(i)].data.u32;
      if (site == config_.tuns.size()) return false;
      read(site);
    }
    return true;
  }

  void read(std::uint32_t site) {
    for (int i = 0; i < kBatch; ++i) {
      const auto slot = store_.take();
      Frame spare;
      Frame& frame = slot ? store_.at(*slot) : spare;
      const ssize_t bytes = ::read(config_.tuns[site], frame.data(), frame.size());
      if (bytes > 0 && slot) {
        take(site, *slot, std::size_t(bytes));
        continue;
      }
      if (slot) store_.give_back(*slot);
      if (bytes <= 0) return;
      ++figures_.packets;
      ++figures_.refused;
    }
  }

  void take(std::uint32_t site, std::uint32_t slot, std::size_t bytes) {
    const Frame& frame = store_.at(slot);
    const auto byte = [&](std::size_t i) { return std::to_integer<std::uint32_t>(frame[i]); };
    std::optional<std::uint32_t> to;
    if (bytes >= kHeader && byte(0) >> 4 == 4)
      to = site_at(byte(16) << 24 | byte(17) << 16 | byte(18) << 8 | byte(19), config_.tuns.size());
    if (!to || *to == site) return store_.give_back(slot);  // to an unknown site, or not IPv4
    if (!begun_) begun_ = Clock::now();
    ++figures_.packets;
    figures_.bytes += bytes;
    figures_.late += held_up_;
    const Time at = now();
    deliver_due(at);
    const sim::IpPacket packet{
        .from = site,
        .to = *to,
        .bytes = std::uint32_t(bytes),
        .service_class = sim::service_class_of(std::uint8_t(byte(1))),
        .answer = is_bare_acknowledgement({frame.data(), bytes}),
        .tag = slot,
    };
    if (const auto outcome = shaper_.offer(packet, at)) settle(*outcome);
  }

  void deliver_due(Time now) {
    while (const auto outcome = shaper_.advance(now)) settle(*outcome);
  }

  void settle(const PacketOutcome& outcome) {
    const auto slot = std::uint32_t(outcome.packet.tag);
    switch (outcome.fate) {
      case PacketFate::delivered: {
        const Frame& frame = store_.at(slot);
        const auto bytes = ssize_t(outcome.packet.bytes);
        if (write(config_.tuns[outcome.packet.to], frame.data(), std::size_t(bytes)) != bytes) {
          ++figures_.refused;
          break;
        }
        ++figures_.delivered;
        const Time late = now() - outcome.at;
        figures_.late += late > kLate;
        figures_.worst_late_ms = std::max(figures_.worst_late_ms, seconds(late) * 1e3);
        break;
      }
      case PacketFate::queue_full:
        ++figures_.queue_full;
        break;
      case PacketFate::lost:
        ++figures_.lost;
        break;
      case PacketFate::cut:
        ++figures_.cut;
        break;
    }
    store_.give_back(slot);
  }

  const RouterConfig& config_;
  Shaper shaper_;
  Store store_;
  RouterFigures figures_;
  Descriptor events_;
  std::vector<epoll_event> ready_;
  std::optional<Clock::time_point> begun_;  // at the first packet between sites
  Time looked_{0};                          // start of the last check for packets
  bool held_up_ = false;                    // that check was long ago, without sleep
};

std::string in_mbits(double bytes) { return fmt::format("{:.0f} Mbit/s", bytes * 8e-6); }

}  // namespace

double RouterFigures::limited_share() const {
  return packets == 0 ? 0 : double(late + refused) / double(packets);
}

Result<RouterFigures> route(const RouterConfig& config) { return Router(config).run(); }

flow::Rate demand_on_router(const flow::Wan& given) {
  const flow::Wan wan = flow::at_highest(given);
  // A site sends at most its uplink's rate, and at most the sum of its pairs.
  const auto all = [&](bool sending) -> flow::Rate {
    double sum = 0;
    for (std::uint32_t site = 0; site < wan.sites.size(); ++site) {
      flow::Rate pairs = 0;
      for (std::uint32_t other = 0; other < wan.sites.size(); ++other) {
        if (other == site) continue;
        const flow::Rate one = sending ? wan.capacity(site, other) : wan.capacity(other, site);
        pairs = pairs && one ? flow::Rate(*pairs + *one) : std::nullopt;
      }
      const flow::Rate& own = sending ? wan.sites[site].up : wan.sites[site].down;
      if (!own && !pairs) return std::nullopt;
      sum += own && pairs ? std::min(*own, *pairs) : own ? *own : *pairs;
    }
    return sum;
  };
  const flow::Rate out = all(true), in = all(false);
  return out && in ? std::min(*out, *in) : out ? out : in;
}

std::string router_overload_warning(const flow::Wan& wan) {
  const flow::Rate asked = demand_on_router(wan);
  if (asked && *asked <= kRouterRate) return "";
  return fmt::format(
      "the sites may send {} in all, and the router carries about {}; where they do, times are "
      "the router's and not the WAN's (the summary says so). Set up_mbps, [wan] mbps or "
      "rate_scale lower",
      asked ? in_mbits(*asked) : "without limit", in_mbits(kRouterRate));
}

}  // namespace longhaul::lab
