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
  const net::Address& address = self.addresses[site];
  const std::string who = fmt::format("{} ({})", self.names[site], net::to_string(address));
  auto dialled = Channel::dial(address, who, deadline);
  if (!dialled) {
    const std::string& what = dialled.error().what;  // begins with the address, or is of the wait
    const bool is_named = what.starts_with(net::to_string(address));
    return Error{dialled.error().kind,
                 who + (is_named ? what.substr(net::to_string(address).size()) : ": " + what)};
  }
  Channel channel = *std::move(dialled);
  if (self.credentials) channel.start_tls(self.credentials->dial(self.names[site]));
  LH_TRY(channel.send(Kind::hello, self.hello(purpose), deadline));
  LH_LET(hello, channel.receive<Hello>(Kind::hello, deadline));
  Status good = check(hello, self);
  if (good && hello.site != site)
    good = malformed(fmt::format("{} is there; look at the addresses", self.names[hello.site]));
  if (!good) return malformed(who + ": " + good.error().what);
  return PeerSession{std::move(channel), std::move(hello)};
}

Result<PeerSession> accept_peer(Channel channel, const LocalSite& self, const Deadline& deadline) {
  if (self.credentials) channel.start_tls(self.credentials->accept());
  const std::string peer = channel.peer();
  auto hello = channel.receive<Hello>(Kind::hello, deadline);
  Status good = hello ? check(*hello, self) : Status(hello.error());
  const secure::Session* const proved = channel.stream().security();
  if (good && proved != nullptr && !proved->peer_is(hello->name))
    good = malformed(
        fmt::format("it says that it is site {}, and its certificate is not", hello->name));
  if (!good) {
    (void)channel.send(Kind::refusal, Text{cut(good.error().what)}, deadline);
    channel.finish();
    return malformed(hello ? peer + ": " + good.error().what : good.error().what);
  }
  channel.rename(fmt::format("{} ({})", self.names[hello->site], peer));
  return PeerSession{std::move(channel), *std::move(hello)};
}

}  // namespace longhaul::doctor
