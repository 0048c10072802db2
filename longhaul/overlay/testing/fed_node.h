#pragma once
// FedNode is one node of an exchange, fed by hand: what the others say is made up by the test, what
// it sends is read from its turns.
#include <cstring>

#include <gtest/gtest.h>

#include "longhaul/base/testing/archived.h"
#include "longhaul/core/testing/plain_transfer.h"
#include "longhaul/overlay/testing/exchange.h"

namespace longhaul::overlay::testing {

using Floats = std::vector<float>;
using Ranks = std::vector<Rank>;

inline const Path kOverlay, kTransfer = Path().child(0);
inline constexpr std::uint64_t kLength = 8;

inline Buffer floats(std::size_t count, float value) {
  Buffer bytes(4 * count);
  for (std::size_t i = 0; i < count; ++i) std::memcpy(&bytes[4 * i], &value, 4);
  return bytes;
}

struct Sending {  // of a piece
  Rank to = 0;
  PlainTransfer::Piece piece;
  Buffer body;
};

// Rank `self` of four workers, who own two of eight values each in one piece; or of two and a hub.
class FedNode {
 public:
  // An incarnation above 0: it comes back to a run that it knows nothing of, see let_in().
  explicit FedNode(Rank self, ExchangeConfig config = {}, std::uint32_t incarnation = 0)
      : config_(std::move(config)), view_{0, {0, 1, 2}} {
    auto members = std::make_shared<Members>();
    for (const char* site : {"a", "b", "c"}) members->push_back({site});
    if (config_.server) members->back().roles = std::uint8_t(Role::server);
    if (!config_.server) members->push_back({"d"}), view_.live.insert(3);
    members->at(self).incarnation = incarnation;
    place_ = {.self = self,
              .members = members,
              .layout = Layout::flat(kLength),
              .chunk_bytes = config_.server ? 16u : 8u};
    overlay_ = testing::make_overlay(config_, place_);
  }

  // --- inputs
  void begin(Round round, double weight = 2, std::uint32_t range = 0) {
    const Floats values(kLength, float(10 + round));
    turn([&](Turn& turn) {
      const Contribution given{values, kLength, weight, weight > 0, range == 1};
      ASSERT_TRUE(overlay_->begin({round, 0, range}, {}, given, turn));
    });
  }
  // The same in a group of some of them.
  bool tries_in(std::uint32_t group, const Ranks& members, Round round, double weight = 2) {
    const Floats values(kLength, float(10 + round));
    Status status = Ok{};
    turn([&](Turn& turn) {
      status =
          overlay_->begin({round, group, 0}, members, {values, kLength, weight, weight > 0}, turn);
    });
    return bool(status);
  }
  void begin_in(std::uint32_t group, const Ranks& members, Round round, double weight = 2) {
    EXPECT_TRUE(tries_in(group, members, round, weight));
  }
  void close(std::uint32_t group) {
    turn([&](Turn& turn) { overlay_->close(group, turn); });
  }
  void lose(Rank rank) {
    const View before = view_;
    ++view_.epoch;
    view_.live.erase(rank);
    credits_.forget(rank);
    std::erase_if(held_, [&](const auto& one) { return one.first == rank; });
    turn([&](Turn& turn) {
      overlay_->feed_all([&](Machine& m, Turn& t) { m.on_view(before, t); }, turn);
    });
  }
  void let_in(Rank rank) {  // one of the live: it was lost and is back
    const View before = view_;
    view_.returned[rank] = ++view_.epoch;
    turn([&](Turn& turn) {
      overlay_->feed_all([&](Machine& m, Turn& t) { m.on_view(before, t); }, turn);
    });
  }
  template <MessageStruct M>
  bool hear(Rank from, const M& fields, Path to = kOverlay, Buffer body = {}) {
    const Message message{to, M::kKind, view_.epoch, Payload(share(to_wire(fields))),
                          Payload(share(std::move(body)))};
    Status status = Ok{};
    turn([&](Turn& turn) { status = overlay_->feed_message(from, message, to, turn); });
    if (!status) last_error_ = status.error().what;
    return bool(status);
  }
  bool report(Rank from, std::vector<Report::Standing> standings, Epoch epoch = 1) {
    return hear(from, Report{epoch, 0, {}, std::move(standings)});
  }
  bool fetch(Rank from, Round round, Epoch epoch = 1) {
    return hear(from, Fetch{epoch, {round, 0, 0}});
  }
  bool share_of(Rank from, Round round, double weight = 1, std::uint32_t range = 0) {
    return hear(from,
                Announcement{view_.epoch, {{round, 0, range}, from}, kLength, range == 1, weight});
  }
  bool roster(Rank from, Round round, double weight, std::vector<std::uint8_t> counted) {
    return hear(from, Contributors{view_.epoch, {{round, 0, 0}, from}, weight, std::move(counted)});
  }
  bool piece(Rank from, Round round, Phase phase, Coding coding, std::size_t index, float value) {
    const TransferKey key{view_.epoch, {{round, 0, 0}, from}, std::uint8_t(phase), coding};
    const std::uint64_t length = config_.server ? 4 : 2;
    return hear(from, PlainTransfer::Piece{key, {length * index, length}, 1}, kTransfer,
                floats(length, value));
  }
  // All that brings rank 2 of four workers the mean of a round in which all contribute.
  void bring_mean(Round round, bool with_roster = true) {
    for (const Rank rank : {0u, 1u, 3u}) {
      EXPECT_TRUE(share_of(rank, round));
      EXPECT_TRUE(piece(rank, round, Phase::part, Coding::up, 2, 5));
      EXPECT_TRUE(piece(rank, round, Phase::mean, Coding::down, rank, 6));
    }
    EXPECT_TRUE(!with_roster || roster(0, round, 5, {0b1111}));
  }
  bool repair(Rank from, Round round, std::size_t index, float value = 7) {
    return piece(from, round, Phase::repair, Coding::exact, index, value);
  }
  // The links take no more bulk than two messages each from now on; or all that waits, and more.
  void plug(bool plugged) {
    plugged_ = plugged;
    if (!plugged) unplug();
  }
  void save_and_load() {
    const Buffer bytes = saved();
    overlay_ = testing::make_overlay(config_, place_);
    Archive in(bytes);
    overlay_->archive(in);
    ASSERT_TRUE(in.finish());
  }

  // --- answers
  std::optional<Outcome> poll(Round round, std::uint32_t range = 0) {
    return overlay_->poll({round, 0, range});
  }
  std::optional<Round> next_round(std::uint32_t range = 0) const {
    return overlay_->next_round(0, range);
  }
  std::optional<Outcome> poll_in(std::uint32_t group, Round round) {
    return overlay_->poll({round, group, 0});
  }
  std::size_t groups() const { return static_cast<const AgreedMean&>(*overlay_).groups(); }
  const std::string& last_error() const { return last_error_; }  // of what was heard and refused
  std::string waiting_for() const { return overlay_->waiting_for(); }
  Buffer saved() { return longhaul::testing::saved(*overlay_); }
  // What it sent since it was asked last, in order.
  std::vector<Send> take_sends() { return std::exchange(sends_, {}); }
  template <MessageStruct M>
  static std::vector<std::pair<Rank, M>> those(const std::vector<Send>& sends) {
    std::vector<std::pair<Rank, M>> found;
    for (const Send& send : sends)
      if (send.message.machine == kOverlay && send.message.kind == M::kKind)
        found.emplace_back(send.to, *from_wire<M>(send.message.head.view()));
    return found;
  }
  static std::vector<Sending> pieces(const std::vector<Send>& sends) {
    std::vector<Sending> found;
    for (const Send& send : sends) {
      if (send.message.machine != kTransfer) continue;
      const auto body = send.message.body.view();
      found.push_back({send.to, *from_wire<PlainTransfer::Piece>(send.message.head.view()),
                       Buffer(body.begin(), body.end())});
    }
    return found;
  }
  double late() const { return late_; }
  std::optional<Time> alarm() const { return alarm_; }  // when it wants to be woken

 private:
  void turn(const std::function<void(Turn&)>& input) {
    TurnContext context{.place = &place_, .view = &view_, .credits = &credits_};
    Turn turn(context);
    input(turn);
    overlay_->on_progress(turn);
    for (Action& action : context.actions) {
      if (auto* send = std::get_if<Send>(&action)) {
        if (send->message.is_bulk()) held_.emplace_back(send->to, send->service.service_class());
        sends_.push_back(std::move(*send));
      } else if (auto* record = std::get_if<Record>(&action)) {
        late_ += record->name == "late" ? record->value : 0;
      } else if (const auto* timer = std::get_if<SetTimer>(&action)) {
        alarm_ = timer->at;
      } else if (std::holds_alternative<CancelTimer>(action)) {
        alarm_.reset();
      }
    }
    if (!plugged_) unplug();
  }
  void unplug() {
    while (!held_.empty()) {
      const auto [to, service_class] = held_.back();
      held_.pop_back();
      credits_.give(to, service_class);
      turn([&, to = to](Turn& turn) {
        overlay_->feed_all([&](Machine& m, Turn& t) { m.on_writable(to, t); }, turn);
      });
    }
  }

  const ExchangeConfig config_;
  Place place_;
  View view_;
  Credits credits_;
  std::unique_ptr<Overlay> overlay_;
  std::vector<Send> sends_;
  std::vector<std::pair<Rank, unsigned>> held_;  // bulk that the host has
  bool plugged_ = false;
  double late_ = 0;
  std::optional<Time> alarm_;
  std::string last_error_;
};

}  // namespace longhaul::overlay::testing
