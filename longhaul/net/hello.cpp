#include "longhaul/net/hello.h"

#include <fmt/format.h>

namespace longhaul::net {

Frame hello_frame(const Identity& me, std::uint32_t stream, CheckpointProgress checkpointed,
                  std::vector<Acknowledged> have) {
  const Member& member = me.members->at(me.self);
  const Hello hello{me.job_hash, me.self, member.site,  member.rank_in_site, me.incarnation,
                    me.process,  stream,  checkpointed, std::move(have)};
  Frame frame{.header = {}, .head = Payload(share(to_wire(hello))), .body = {}};
  frame.header.type = FrameHeader::Type::hello;
  frame.header.machine = kMagic;
  frame.header.kind = kVersion;
  return frame;
}

Frame refusal_frame(std::string reason) {
  reason.resize(std::min<std::size_t>(reason.size(), 1024));
  const Refusal refusal{std::move(reason)};
  Frame frame{.header = {}, .head = Payload(share(to_wire(refusal))), .body = {}};
  frame.header.type = FrameHeader::Type::refusal;
  return frame;
}

Result<Hello> read_hello(const Frame& frame, const Identity& me) {
  const FrameHeader& header = frame.header;
  if (header.type != FrameHeader::Type::hello || header.machine != kMagic)
    return malformed("it is no longhaul node, or does not begin with a hello");
  if (header.kind != kVersion)
    return malformed(
        fmt::format("it speaks version {} of the protocol, this node version {}; "
                    "install the same release on all sites",
                    header.kind, kVersion));
  Result<Hello> hello = from_wire<Hello>(frame.head.view());
  if (!hello) return malformed("its hello " + hello.error().what);
  if (hello->job_hash != me.job_hash)
    return malformed(
        fmt::format("it runs another job (hash {:016x}, here {:016x}); start all "
                    "sites with the same job file, --set and --wan",
                    hello->job_hash, me.job_hash));
  if (hello->rank >= me.members->size())
    return malformed(fmt::format("it says that it is rank {}; the job has ranks 0 to {}",
                                 hello->rank, me.members->size() - 1));
  const Member& member = me.members->at(hello->rank);
  if (hello->site != member.site || hello->rank_in_site != member.rank_in_site)
    return malformed(
        fmt::format("it says that it is rank {}, which is node {} of site {}, but "
                    "gives another name",
                    hello->rank, member.rank_in_site, member.site));
  if (hello->rank == me.self)
    return malformed(
        fmt::format("it says that it is node {} of site {}, as this one is; start "
                    "each site once",
                    member.rank_in_site, member.site));
  return hello;
}

std::string read_refusal(const Frame& frame) {
  const auto refusal = from_wire<Refusal>(frame.head.view());
  if (!refusal) return "refused, without a readable reason";
  std::string text = refusal->reason;
  for (char& c : text)
    if (c < ' ' || c > '~') c = '?';
  return text;
}

}  // namespace longhaul::net
