#pragma once
// A context that collects the requests of an attempt and carries none out: for tests of one attempt
// without a network. Numbers written `down` lose what is behind the point.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <memory>

#include "longhaul/overlay/attempt.h"

namespace longhaul::overlay::testing {

// One node's part in an exchange of `length` values in pieces of `longest`, and what it is about.
struct Table {
  using Maker = std::function<ReducePlan(const Partition&, const GroupMembers&)>;
  Table(
      GroupMembers who, std::uint64_t length, std::uint32_t shards, std::uint64_t longest,
      const Maker& by = [](const auto& grid, const auto& team) { return stars(grid, team); })
      : team(std::move(who)), grid(length, shards, longest), plan(grid, team, by(grid, team)) {}
  // One shard, whose pieces go along trees.
  Table(GroupMembers who, std::uint64_t length, std::uint64_t longest, const ReducePlan& forest)
      : team(std::move(who)), grid(length, 1, longest), plan(grid, team, forest) {}
  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;
  ExchangeSpec spec(Round round = 0, bool exact = false) const {
    return {{round, 0, 0}, exact, &team, &plan};
  }
  GroupMembers team;
  Partition grid;
  Plan plan;
  bool phantom = false;  // sizes, and no numbers
};

// A codec of fp32 that counts how often each piece is written. `whole`: it drops what is behind the
// point. `own`: what it writes in place of any value, if there is one.
class CountingCodec final : public Codec {
 public:
  CountingCodec(const Partition& grid, std::map<std::size_t, int>& counts, bool whole,
                const float* own)
      : grid_(grid), counts_(counts), whole_(whole), own_(own) {}
  std::size_t encoded_size(std::size_t length) const override { return sizeof(float) * length; }
  Buffer encode(const CodecKey&, Range at, std::span<const float> values) override {
    ++counts_[grid_.find(at).value()];
    std::vector<float> numbers(values.begin(), values.end());
    for (float& v : numbers) v = own_ ? *own_ : whole_ ? std::floor(v) : v;
    Buffer bytes(values.size_bytes());
    if (!bytes.empty()) std::memcpy(bytes.data(), numbers.data(), bytes.size());
    return bytes;
  }
  Status decode(const CodecKey&, Range, std::span<const std::byte> bytes,
                std::span<float> out) const override {
    if (bytes.size() != out.size_bytes()) return malformed("of another length");
    if (!bytes.empty()) std::memcpy(out.data(), bytes.data(), bytes.size());
    return Ok{};
  }

 private:
  const Partition& grid_;
  std::map<std::size_t, int>& counts_;
  const bool whole_;
  const float* own_;
};

using Known = std::vector<std::pair<std::vector<Rank>, double>>;  // counted workers, their weight

struct Paper {  // the parts of a PaperContext
  Paper(const Partition& grid, float value, bool phantom)
      : own(value),
        values(phantom ? 0 : grid.length(), value),
        coder(phantom, std::make_unique<CountingCodec>(grid, own_asked, false, &own),
              std::make_unique<CountingCodec>(grid, written, true, nullptr)) {}
  float own;                                      // all values of this node's contribution
  std::map<std::size_t, int> own_asked, written;  // how often, by piece; written: coded `down`
  std::vector<float> values;
  Coder coder;
};

class PaperContext final : public Paper, public AttemptContext {
 public:
  explicit PaperContext(const Partition& grid, float value = 0, bool exact = false,
                        bool phantom = false)
      : Paper(grid, value, phantom),
        AttemptContext(ExchangeBuffers(coder, grid, {}, exact, values)) {}
  PaperContext(const PaperContext&) = delete;
  PaperContext& operator=(const PaperContext&) = delete;

  void set_own(float value) {
    own = value;
    std::fill(values.begin(), values.end(), value);
  }
  std::vector<float> read(std::size_t piece, Coding coding, const Payload& bytes) const {
    return buffers.read(piece, coding, bytes);
  }
  std::vector<std::pair<Rank, Contributors>> rosters() const {
    std::vector<std::pair<Rank, Contributors>> told;
    for (const Rank to : contributors_to) told.emplace_back(to, *roster);
    return told;
  }
  static Payload bytes_of(std::span<const float> values) {
    Buffer bytes(values.size_bytes());
    if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
    return Payload(share(std::move(bytes)));
  }
};

}  // namespace longhaul::overlay::testing
