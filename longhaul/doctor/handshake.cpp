#include "longhaul/doctor/handshake.h"

#include <fmt/format.h>

namespace longhaul::doctor {

Hello LocalSite::hello(Purpose purpose, std::uint16_t udp_port) const {
  return {.job_hash = job_hash,
          .site = site,
          .sites = std::uint32_t(names.size()),
          .token = token,
          .udp_port = udp_port,
          .purpose = purpose,
          .name = names[site],
          .release = release};
}

Status check(const Hello& hello, const LocalSite& self) {
  if (hello.job_hash != self.job_hash)
    return malformed(fmt::format(
        "another job (hash {:016x}, at {} {:016x}); start all sites with the same job file, the "
        "same --set and the same --wan",
        hello.job_hash, self.names[self.site], self.job_hash));
  if (hello.sites != self.names.size() || hello.site >= self.names.size() ||
      hello.name != self.names[hello.site])
    return malformed(
        fmt::format("it is no site of this job as {} knows it", self.names[self.site]));
  if (hello.site == self.site)
    return malformed(
        fmt::format("it says that it is {}, as this one is; start each site once and look at the "
                    "addresses",
                    self.names[self.site]));
  return Ok{};
}

Result<PeerSession> connect_to(const LocalSite& self, std::uint32_t site, Purpose purpose,
                               const Deadline& deadline) {
  const std::string who =
      fmt::format("{} ({})", self.names[site], net::to_string(self.addresses[site]));
  auto socket = dial(self.addresses[site], deadline);
  if (!socket) return Error{socket.error().kind, who + ": cannot connect: " + socket.error().what};
  if (self.credentials) {
    const Status proved = socket->start_tls(self.credentials->dial(self.names[site]), deadline);
    if (!proved) return Error{proved.error().kind, who + ": " + proved.error().what};
  }
  Channel channel(*std::move(socket), who);
  LH_TRY(channel.send(Kind::hello, self.hello(purpose), deadline));
  auto hello = channel.receive<Hello>(Kind::hello, deadline);
  if (!hello) return hello.error();
  Status good = check(*hello, self);
  if (good && hello->site != site)
    good = malformed(fmt::format("{} is there; look at the addresses", self.names[hello->site]));
  if (!good) return malformed(who + ": " + good.error().what);
  return PeerSession{std::move(channel), *std::move(hello)};
}

Result<PeerSession> accept_peer(Socket socket, const LocalSite& self, const Deadline& deadline) {
  const std::string peer = socket.peer();
  if (self.credentials) {
    const Status proved = socket.start_tls(self.credentials->accept(), deadline);
    if (!proved) {
      socket.finish(deadline);
      return Error{proved.error().kind, peer + ": " + proved.error().what};
    }
  }
  Channel channel(std::move(socket), peer);
  auto hello = channel.receive<Hello>(Kind::hello, deadline);
  Status good = hello ? check(*hello, self) : Status(hello.error());
  const secure::Session* const proved = channel.socket().security();
  if (good && proved != nullptr && !proved->peer_is(hello->name))
    good = malformed(
        fmt::format("it says that it is site {}, and its certificate is not", hello->name));
  if (!good) {
    (void)channel.send(Kind::refusal, Text{cut(good.error().what)}, deadline);
    channel.socket().finish(deadline);
    return malformed(hello ? peer + ": " + good.error().what : good.error().what);
  }
  channel.rename(fmt::format("{} ({})", self.names[hello->site], peer));
  return PeerSession{std::move(channel), *std::move(hello)};
}

}  // namespace longhaul::doctor
