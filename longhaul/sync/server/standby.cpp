#include "longhaul/sync/server/standby.h"

#include <algorithm>

namespace longhaul::sync::server {
namespace {

// Copies under way: one that is read at once, and what some strategies keep for each worker.
ChannelLimits room_for_copies(const Place& place) {
  return ChannelLimits::models(8 + 4 * place.size(), *place.layout);
}

}  // namespace

std::vector<Rank> followers_of(Rank server, const Place& place, const View& view,
                               std::size_t count) {
  std::vector<Rank> others = live_with(Role::worker, place, view);
  std::erase(others, server);
  std::ranges::sort(others, {}, [&](Rank rank) { return std::pair(view.since(rank), rank); });
  others.resize(std::min(count, others.size()));
  return others;
}

Standby::Standby(const Place& place, std::unique_ptr<Transfer> transfer, std::uint32_t every,
                 std::uint32_t followers, Rank server)
    : place_(place),
      every_(every),
      followers_(followers),
      server_(server),
      channel_(place,
               {.stream = "standby", .limits = room_for_copies(place), .service = {.priority = 0}},
               std::move(transfer), nullptr, nullptr,
               [this](Rank from, const StandbyHeader& header, const ContentShape& shape) {
                 return admit(from, header, shape);
               }) {
  LH_CHECK(every > 0 && followers > 0);
  own(channel_);
}

Result<bool> Standby::admit(Rank from, const StandbyHeader& header,
                            const ContentShape& shape) const {
  if (from != server_) return malformed("a copy of the state of one that does not serve");
  const bool is_model =
      shape.kind == ContentKind::values && shape.range == Range{0, place_.layout->size()};
  if (header.last ? shape.kind != ContentKind::bytes : !is_model)
    return malformed("a part of a state that is none");
  return true;
}

std::vector<Rank> Standby::due(std::uint64_t version, const Turn& turn) const {
  std::vector<Rank> to = followers_of(place_.self, place_, turn.view(), followers_);
  std::erase_if(to, [&](Rank rank) {
    const auto sent = sent_.find(rank);
    return sent != sent_.end() && (version < sent->second + every_ || channel_.queued(rank) > 0);
  });
  return to;
}

void Standby::send(const std::vector<Rank>& to, std::uint64_t version, Snapshot model, Bytes rest,
                   Turn& turn) {
  Turn below = within(channel_, turn);
  const SendOptions exactly{.coding = Coding::exact};
  channel_.send(to, {version, false},
                VectorContent::values(std::move(model), {0, place_.layout->size()}), exactly,
                below);
  channel_.send(to, {version, true}, VectorContent::bytes(std::move(rest)), exactly, below);
  for (const Rank rank : to) sent_[rank] = version;
}

void Standby::follow(Rank server) {
  server_ = server;
  coming_.reset();
  sent_.clear();
}

void Standby::on_progress(Turn& turn) {
  Turn below = within(channel_, turn);
  while (channel_.lost()) {
  }
  std::erase_if(sent_, [&](const auto& one) { return !turn.view().has(one.first); });
  while (auto one = channel_.poll(below)) {
    if (one->from != server_) continue;  // it serves no more
    if (!one->header.last) {
      coming_ = Copy{one->header.version, one->content.values(), {}};
    } else if (coming_ && coming_->version == one->header.version) {
      coming_->rest = one->content.bytes();
      whole_ = std::exchange(coming_, std::nullopt);
    }
  }
}

void Standby::state(Archive& ar) {
  ar.expect("standby");
  ar(server_, sent_, coming_, whole_);
}

}  // namespace longhaul::sync::server
