#include "longhaul/lab/site_networks.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>
#include <thread>

#include <fmt/format.h>

#include "longhaul/base/check.h"

namespace longhaul::lab {
namespace {

constexpr char kDevice[] = "wan0";
constexpr std::uint32_t kFirst = 10u << 24;  // 10.0.0.0
constexpr int kDeviceQueue = 2000;           // packets that wait for the router

constexpr std::string_view kRights =
    "; run it as root, or as `unshare --user --map-root-user longhaul ...` where the kernel lets "
    "users make namespaces and /dev/net/tun lets them read and write";

Error no(std::string_view what, std::string_view remedy = "") {
  return unavailable(fmt::format("the emulated WAN needs {}: {}{}", what, strerror(errno), remedy));
}

Error no_tun() {
  if (errno == ENOENT || errno == ENODEV || errno == ENXIO)
    return no("/dev/net/tun",
              "; as root: modprobe tun; mkdir -p /dev/net; mknod /dev/net/tun c 10 200 (in a "
              "container: start it with --device /dev/net/tun --cap-add NET_ADMIN --cap-add "
              "SYS_ADMIN)");
  return no("/dev/net/tun", kRights);
}

ifreq named(const char* device) {
  ifreq request = {};
  std::strncpy(request.ifr_name, device, IFNAMSIZ - 1);
  return request;
}

void set_address(sockaddr& into, std::uint32_t address) {
  sockaddr_in in = {};
  in.sin_family = AF_INET;
  in.sin_addr.s_addr = htonl(address);
  std::memcpy(&into, &in, sizeof in);
}

Status configure(int control, std::uint32_t address) {
  const auto ask = [&](unsigned long what, ifreq& request, std::string_view name) -> Status {
    if (ioctl(control, what, &request) == 0) return Ok{};
    return no(fmt::format("{} of {}", name, request.ifr_name), kRights);
  };
  ifreq request = named(kDevice);
  set_address(request.ifr_addr, address);
  LH_TRY(ask(SIOCSIFADDR, request, "the address"));
  set_address(request.ifr_netmask, 0xff000000);
  LH_TRY(ask(SIOCSIFNETMASK, request, "the netmask"));
  request.ifr_mtu = int(kMaxPacket);
  LH_TRY(ask(SIOCSIFMTU, request, "the MTU"));
  request.ifr_qlen = kDeviceQueue;
  (void)ioctl(control, SIOCSIFTXQLEN, &request);  // for real root only; 500 without
  for (const char* device : {"lo", kDevice}) {
    request = named(device);
    request.ifr_flags = IFF_UP | IFF_RUNNING;
    LH_TRY(ask(SIOCSIFFLAGS, request, "the state"));
  }
  return Ok{};
}

// On a thread that is given up afterwards: it need not find back, which it could not everywhere.
Status make_network(std::uint32_t site, SiteNetwork& into) {
  if (unshare(CLONE_NEWNET) != 0) return no("a network namespace for each site", kRights);
  into.netns = Descriptor(open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC));
  if (!into.netns) return no("/proc/thread-self/ns/net");
  into.tun = Descriptor(open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC));
  if (!into.tun) return no_tun();
  ifreq request = named(kDevice);
  request.ifr_flags = IFF_TUN | IFF_NO_PI;
  if (ioctl(into.tun.get(), TUNSETIFF, &request) != 0) return no("a TUN device", kRights);
  const Descriptor control(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!control) return no("a socket");
  return configure(control.get(), kFirst + site + 1);
}

Status on_a_thread(const std::function<Status()>& work) {
  Status status = Ok{};
  std::thread([&] { status = work(); }).join();
  return status;
}

}  // namespace

std::string site_address(std::uint32_t site) {
  const std::uint32_t a = kFirst + site + 1;
  return fmt::format("{}.{}.{}.{}", a >> 24, a >> 16 & 255, a >> 8 & 255, a & 255);
}

std::optional<std::uint32_t> site_at(std::uint32_t address, std::size_t sites) {
  const std::uint32_t site = address - kFirst - 1;
  if (address <= kFirst || site >= sites) return std::nullopt;
  return site;
}

Result<std::vector<SiteNetwork>> make_networks(std::size_t sites) {
  if (sites > kMaxSites)
    return invalid(fmt::format("{} sites: an emulated WAN has at most {}", sites, kMaxSites));
  std::vector<SiteNetwork> networks(sites);
  for (std::uint32_t site = 0; site < sites; ++site)
    LH_TRY(on_a_thread([&] { return make_network(site, networks[site]); }));
  return networks;
}

Status within(int netns, const std::function<Status()>& work) {
  return on_a_thread([&]() -> Status {
    if (setns(netns, CLONE_NEWNET) != 0) return no("to enter its network namespace", kRights);
    return work();
  });
}

Result<std::uint64_t> overruns(int netns) {
  std::optional<std::uint64_t> dropped;
  LH_TRY(within(netns, [&]() -> Status {
    std::ifstream file("/proc/thread-self/net/dev");
    for (std::string line; std::getline(file, line);) {
      std::istringstream words(line);
      std::string word;
      if (!(words >> word) || word != std::string(kDevice) + ":") continue;
      // Received: 8 numbers; sent: bytes, packets, errors, dropped.
      std::uint64_t number = 0;
      for (int i = 0; i < 12; ++i) words >> number;
      if (words) dropped = number;
    }
    return Ok{};
  }));
  if (!dropped) return unavailable(fmt::format("/proc/thread-self/net/dev has no {}", kDevice));
  return *dropped;
}

}  // namespace longhaul::lab
