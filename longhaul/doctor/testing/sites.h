#pragma once
// Doctors of sites that are threads of a test, on the loopback.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <atomic>
#include <thread>

#include "longhaul/doctor/examine.h"

namespace longhaul::doctor::testing {

// Two ends of one connection, neither of which blocks.
inline std::pair<Socket, Socket> connected() {
  int ends[2] = {-1, -1};
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
  return {Socket(ends[0]), Socket(ends[1])};
}

inline Limit soon() { return Limit::within(std::chrono::seconds(20), nullptr); }

// Small enough for a test.
inline Plan quick_plan() {
  Plan plan;
  plan.pings = 5;
  plan.datagrams = 20;
  plan.seconds = 0.2;
  plan.mbytes = 4;
  return plan;
}

class Sites {
 public:
  explicit Sites(std::uint32_t count) {
    for (std::uint32_t site = 0; site < count; ++site) {
      const auto door = net::open_door({"127.0.0.1", 0});
      EXPECT_TRUE(door);
      fcntl(door->descriptor, F_SETFL, O_NONBLOCK);
      doors_.emplace_back(door->descriptor);
      ports_.push_back(door->port);
      all_.names.push_back("site-" + std::to_string(site));
      all_.addresses.push_back({"127.0.0.1", door->port});
    }
    all_.job_hash = 7;
    all_.release = "test";
    ends_.resize(count, Ok{});
  }
  ~Sites() { join(); }

  Self self(std::uint32_t site) const {
    Self own = all_;
    own.site = site;
    own.token = 1000 + site;
    return own;
  }
  int door(std::uint32_t site) const { return doors_[site].get(); }
  std::uint16_t port(std::uint32_t site) const { return ports_[site]; }
  // Nobody listens there any more.
  void shut(std::uint32_t site) { doors_[site] = Socket(); }
  // A thread that attends as a site, or as what a test makes of it.
  void attend_as(Self self, Time patience = std::chrono::seconds(10)) {
    const std::uint32_t site = self.site;
    threads_.emplace_back([this, site, patience, self = std::move(self)] {
      ends_[site] =
          attend(self, door(site),
                 {.patience = patience, .port = port(site), .tell = [](const std::string&) {}});
    });
  }
  Report examined(const Plan& plan, Time patience, Self lead) const {
    Report report{.job = "test", .plan = plan};
    examine(lead, {.plan = plan, .patience = patience, .tell = [](const std::string&) {}}, report);
    return report;
  }
  void join() {
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }
  const Status& end(std::uint32_t site) const { return ends_[site]; }  // after join()

 private:
  Self all_;
  std::vector<Socket> doors_;
  std::vector<std::uint16_t> ports_;
  std::vector<std::thread> threads_;
  std::vector<Status> ends_;
};

}  // namespace longhaul::doctor::testing
