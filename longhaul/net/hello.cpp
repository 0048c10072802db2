#include "longhaul/net/hello.h"

#include <algorithm>

#include <fmt/format.h>
#include <xxhash.h>

#include "longhaul/base/printable.h"

namespace longhaul::net {
namespace {

constexpr std::size_t kMaxKeyText = 256;
}  // namespace

std::uint32_t digest_of(const JobKey& key) {
  const std::string text = key.name + " = " + key.value;
  return std::uint32_t(XXH3_64bits(text.data(), text.size()));
}

Frame hello_frame(const Identity& me, std::uint32_t stream, CheckpointProgress checkpointed,
                  std::vector<Acknowledged> have, std::optional<Rank> relay_to) {
  const Member& member = me.members->at(me.self);
  Hello hello{.job_hash = me.job_hash,
              .rank = me.self,
              .site = member.site,
              .rank_in_site = member.rank_in_site,
              .incarnation = me.incarnation,
              .process = me.process,
              .stream = stream,
              .checkpointed = checkpointed,
              .running = me.running,
              .life = me.life,
              .members = me.members_before,
              .has_before = me.has_before,
              .epoch = me.view.epoch,
              .elapsed_ns = me.running && me.elapsed ? std::uint64_t(me.elapsed().count()) : 0,
              .keys = {},
              .inputs = {},
              .have = std::move(have),
              .leaves = me.leaves,
              .unfit = me.unfit};
  if (relay_to) hello.relay_to.push_back(*relay_to);
  for (Rank rank = 0; rank < me.members_before && hello.lost.size() < Hello::kMaxLost; ++rank)
    if (!me.view.has(rank)) hello.lost.push_back(rank);
  for (const auto& [rank, epoch] : me.view.returned)
    if (hello.returned.size() < Hello::kMaxLost) hello.returned.push_back({rank, epoch});
  for (const JobKey& key : me.keys)
    if (hello.keys.size() < Hello::kMaxKeys) hello.keys.push_back(digest_of(key));
  for (const SharedInput& input : me.inputs)
    hello.inputs.push_back({digest_of(JobKey{input.part, ""}), input.digest});
  Frame frame{.header = {}, .head = Payload(share(to_wire(hello))), .body = {}};
  if (stream == 0 && !relay_to && !me.words.empty()) {
    Introductions said;
    for (const auto& [rank, words] : me.words)
      if (rank == me.self || me.running) said.all.push_back({rank, words});
    frame.body = Payload(share(to_wire(said)));
  }
  frame.header.type = FrameHeader::Type::hello;
  frame.header.machine = kMagic;
  frame.header.kind = kVersion;
  return frame;
}

Frame refusal_frame(Refusal refusal) {
  refusal.reason.resize(std::min(refusal.reason.size(), Hello::kMaxReason));
  refusal.key.resize(std::min(refusal.key.size(), kMaxKeyText));
  refusal.value.resize(std::min(refusal.value.size(), kMaxKeyText));
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
  if (hello->job_hash != me.job_hash) {
    const JobKey differs = first_difference(*hello, me);
    const std::string key = differs.name.empty()
                                ? ""
                                : fmt::format("; {} differs: here {}", differs.name, differs.value);
    return malformed(
        fmt::format("it runs another job (hash {:016x}, here {:016x}{}); start all "
                    "sites with the same job file, --set and --wan",
                    hello->job_hash, me.job_hash, key));
  }
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
  if (const SharedInput* const other = other_input(*hello, me))
    return malformed(fmt::format("site {} has another {} (here: {}); give both sites the same",
                                 member.site, other->part, other->text));
  hello->leaves = ascii(std::move(hello->leaves));
  return hello;
}

const SharedInput* other_input(const Hello& hello, const Identity& me) {
  for (const SharedInput& mine : me.inputs)
    for (const InputDigest& theirs : hello.inputs)
      if (theirs.part == digest_of(JobKey{mine.part, ""}) && theirs.digest != mine.digest)
        return &mine;
  return nullptr;
}

Result<Words> read_introductions(const Frame& frame, const Hello& hello, const Identity& me) {
  Words words;
  if (me.words.empty() || hello.stream != 0) return words;
  auto said = from_wire<Introductions>(frame.body.view());
  if (!said) return malformed("its introduction " + said.error().what);
  for (Introduction& one : said->all)
    if (one.rank == hello.rank || (hello.running && one.rank < me.members->size()))
      words[one.rank] = std::move(one.words);
  if (!words.contains(hello.rank)) return malformed("it does not say what data it has");
  return words;
}

JobKey first_difference(const Hello& hello, const Identity& me) {
  std::vector<std::uint32_t> theirs = hello.keys;
  std::sort(theirs.begin(), theirs.end());
  std::size_t looked_at = 0;
  for (const JobKey& key : me.keys) {
    if (looked_at++ == Hello::kMaxKeys || theirs.empty()) break;
    if (!std::binary_search(theirs.begin(), theirs.end(), digest_of(key))) return key;
  }
  return {};
}

Refusal parse_refusal(const Frame& frame) {
  auto refusal = from_wire<Refusal>(frame.head.view());
  if (!refusal || refusal->reason.empty()) return {.reason = "refused, without a readable reason"};
  for (std::string* text : {&refusal->reason, &refusal->key, &refusal->value})
    *text = ascii(std::move(*text));
  return *std::move(refusal);
}

std::string text_of(const Refusal& refusal, const Identity& me, Rank by) {
  if (refusal.key.empty()) return refusal.reason;
  const auto input = std::ranges::find(me.inputs, refusal.key, &SharedInput::part);
  const auto key = std::ranges::find(me.keys, refusal.key, &JobKey::name);
  const bool is_input = input != me.inputs.end();
  const std::string own = is_input ? input->text : key != me.keys.end() ? key->value : "not set";
  struct Side {
    Rank rank;
    std::string value;
  };
  Side one{me.self, own.substr(0, kMaxKeyText)}, other{by, refusal.value};
  if (other.rank < one.rank) std::swap(one, other);
  const std::string& first = me.members->at(one.rank).site;
  const std::string& second = me.members->at(other.rank).site;
  if (is_input)
    return fmt::format(
        "site {} has another {} than site {}: {} at {}, {} at {}; give both sites "
        "the same",
        second, refusal.key, first, one.value, first, other.value, second);
  return fmt::format(
      "site {} runs another job than site {}: {} is {} at {} and {} at {}; start all "
      "sites with the same job file, --set and --wan",
      second, first, refusal.key, one.value, first, other.value, second);
}

}  // namespace longhaul::net
