#pragma once
// Doctors of sites that are threads of a test, on the loopback.
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>

#include <gtest/gtest.h>

#include "longhaul/doctor/coordinate.h"

namespace longhaul::doctor::testing {

// Two ends of one connection.
inline std::pair<Channel, Channel> connected() {
  int ends[2] = {-1, -1};
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
  return {Channel(ends[0], "a"), Channel(ends[1], "oslo")};
}

inline Deadline soon() { return Deadline::within(std::chrono::seconds(20), nullptr); }

// Small enough for a test.
inline MeasurementPlan quick_plan() {
  MeasurementPlan plan{.pings = 5, .datagrams = 20, .seconds = 0.2, .mbytes = 4};
  return plan;
}

class Sites {
 public:
  explicit Sites(std::uint32_t count) {
    for (std::uint32_t site = 0; site < count; ++site) {
      const auto listening_socket = net::open_listening_socket({"127.0.0.1", 0});
      EXPECT_TRUE(listening_socket);
      fcntl(listening_socket->descriptor, F_SETFL, O_NONBLOCK);
      sockets_.push_back(listening_socket->descriptor);
      ports_.push_back(listening_socket->port);
      all_.names.push_back("site-" + std::to_string(site));
      all_.addresses.push_back({"127.0.0.1", listening_socket->port});
    }
    all_.job_hash = 7;
    all_.release = "test";
    ends_.resize(count, Ok{});
  }
  ~Sites() {
    join();
    for (const int one : sockets_) close(one);
  }

  LocalSite self(std::uint32_t site) const {
    LocalSite own = all_;
    own.site = site;
    own.token = 1000 + site;
    return own;
  }
  int listening_socket(std::uint32_t site) const { return sockets_[site]; }
  std::uint16_t port(std::uint32_t site) const { return ports_[site]; }
  // Nobody listens there. Its port stays its own: closed, another process might be given it.
  void shut(std::uint32_t site) {
    close(sockets_[site]);
    sockets_[site] = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof at;
    EXPECT_EQ(::bind(sockets_[site], reinterpret_cast<sockaddr*>(&at), size), 0);
    EXPECT_EQ(::getsockname(sockets_[site], reinterpret_cast<sockaddr*>(&at), &size), 0);
    ports_[site] = all_.addresses[site].port = ntohs(at.sin_port);
  }
  // A thread that attends as a site, or as what a test makes of it.
  void participate_as(LocalSite self, Time arrival_timeout = std::chrono::seconds(10)) {
    const std::uint32_t site = self.site;
    threads_.emplace_back([this, site, arrival_timeout, self = std::move(self)] {
      const int listens = listening_socket(site);
      ends_[site] = run_participant(self, {&listens, 1},
                                    {.arrival_timeout = arrival_timeout,
                                     .port = port(site),
                                     .on_progress = [](const std::string&) {}});
    });
  }
  Report coordinated(const MeasurementPlan& plan, Time arrival_timeout, LocalSite lead) const {
    Report report{.job = "test", .plan = plan};
    run_coordinator(lead,
                    {.plan = plan,
                     .arrival_timeout = arrival_timeout,
                     .on_progress = [](const std::string&) {}},
                    report);
    return report;
  }
  void join() {
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }
  const Status& end(std::uint32_t site) const { return ends_[site]; }  // after join()

 private:
  LocalSite all_;
  std::vector<int> sockets_;
  std::vector<std::uint16_t> ports_;
  std::vector<std::thread> threads_;
  std::vector<Status> ends_;
};

}  // namespace longhaul::doctor::testing
