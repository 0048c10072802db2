#pragma once
// A Desk that writes down what an attempt asks for and carries nothing out: for tests of one
// attempt without a network. Numbers written `down` lose what is behind the point.
#include <cmath>
#include <cstring>
#include <map>
#include <memory>

#include "longhaul/overlay/attempt.h"

namespace longhaul::overlay::testing {

// One node's part in an exchange of `length` values in pieces of `longest`, and what it is about.
struct Table {
  Table(Team who, std::uint64_t length, std::uint32_t shards, std::uint64_t longest)
      : team(std::move(who)), grid(length, shards, longest), plan(grid, team) {}
  // One shard, whose pieces go along trees.
  Table(Team who, std::uint64_t length, std::uint64_t longest, const Forest& forest)
      : team(std::move(who)), grid(length, 1, longest), plan(grid, team, forest) {}
  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;
  Terms terms(Round round = 0, bool exact = false) const {
    return {{round, 0, 0}, exact, &team, &plan};
  }
  Team team;
  Grid grid;
  Plan plan;
};

class PaperDesk final : public Desk {
 public:
  explicit PaperDesk(const Grid& grid, float own = 0) : own(own), grid_(grid) {}

  Payload own_bytes(std::size_t piece) override {
    return bytes_of(Coding::exact, own_values(piece));
  }
  std::vector<float> own_values(std::size_t piece) override {
    ++own_asked[piece];
    return std::vector<float>(grid_.range(piece).length, own);
  }
  Payload write(std::size_t piece, Coding coding, std::span<const float> values) override {
    ++written[piece];
    return bytes_of(coding, values);
  }
  std::vector<float> read(std::size_t, Coding, const Payload& bytes) override {
    std::vector<float> values(bytes.size() / sizeof(float));
    if (!values.empty()) std::memcpy(values.data(), bytes.view().data(), bytes.size());
    return values;
  }
  void have_mean(std::size_t piece, std::vector<float> values) override {
    LH_CHECK(means.emplace(piece, std::move(values)).second);
  }
  void have_roster(const std::vector<Rank>& who, double sum) override {
    rosters_here.emplace_back(who, sum);
  }
  void post(Outgoing out) override { posts.push_back(std::move(out)); }
  void tell(Rank to, const Share& one) override { shares.emplace_back(to, one); }
  void tell(Rank to, const Roster& one) override { rosters.emplace_back(to, one); }
  void tell(const VectorId& about, Rank to, Note note, Service service) override {
    note.vector = {about, 0};
    notes.push_back({to, std::move(note), service});
  }
  void cancel(const TransferKey& key, Rank to) override { cancelled.emplace_back(key, to); }
  void give_up(std::string reason) override { given_up = std::move(reason); }
  Payload arrived_bytes() override { return arrived; }
  Time now() const override { return clock; }

  // What write() makes of numbers; not counted.
  static Payload bytes_of(Coding coding, std::span<const float> values) {
    Buffer bytes(values.size_bytes());
    std::vector<float> numbers(values.begin(), values.end());
    if (coding == Coding::down)
      for (float& v : numbers) v = std::floor(v);
    if (!numbers.empty()) std::memcpy(bytes.data(), numbers.data(), bytes.size());
    return Payload(share(std::move(bytes)));
  }

  struct Told {
    Rank to = 0;
    Note note;
    Service service;
  };
  float own;
  Payload arrived;
  std::map<std::size_t, int> own_asked, written;  // how often, by piece; written: by write() alone
  std::map<std::size_t, std::vector<float>> means;
  std::vector<std::pair<std::vector<Rank>, double>> rosters_here;
  std::vector<Outgoing> posts;
  std::vector<std::pair<Rank, Share>> shares;
  std::vector<std::pair<Rank, Roster>> rosters;
  std::vector<Told> notes;
  std::vector<std::pair<TransferKey, Rank>> cancelled;
  std::string given_up;
  Time clock{0};

 private:
  const Grid& grid_;
};

}  // namespace longhaul::overlay::testing
