#include "longhaul/sync/server/server_strategy.h"

namespace longhaul::sync::server {
namespace {

Coding coding_of(ServerHeader::Kind kind) {
  if (kind == ServerHeader::Kind::push) return Coding::up;
  return kind == ServerHeader::Kind::model ? Coding::down : Coding::exact;
}

}  // namespace

Rank server_of(std::optional<Rank> named, const Place& place) {
  if (named) return *named;
  for (Rank rank = 0; rank < place.size(); ++rank)
    if (place.member(rank).is(Role::server)) return rank;
  return 0;
}

Status check_roles(std::string_view name, Rank server, const Place& place) {
  for (Rank rank = 0; rank < place.size(); ++rank) {
    if (rank == server || place.member(rank).is(Role::worker)) continue;
    return invalid("[[site]] roles: site " + place.member(rank).site +
                   " has no worker, and with [sync] kind = \"" + std::string(name) +
                   "\" the server is at site " + place.member(server).site +
                   ": name it in [roles] server, or give it the role \"worker\"");
  }
  return Ok{};
}

std::string who(std::string_view name, const Place& place) {
  return std::string(name) + ", site " + place.me().site + " (rank " + std::to_string(place.self) +
         "): ";
}

ServerStrategy::ServerStrategy(std::string_view name, SyncParts parts, const Place& place)
    : setup_{.name = name,
             .place = place,
             .server = server_of(parts.server, place),
             .workers = {},
             .stop = parts.stop,
             .rate = parts.rate} {
  for (Rank rank = 0; rank < place.size(); ++rank)
    if (place.member(rank).is(Role::worker)) setup_.workers.push_back(rank);
  channel_ = std::make_unique<ServerChannel>(
      place,
      ChannelConfig{.stream = std::string(name),
                    .limits = ChannelLimits::models(kModelsOnTheWay, *place.layout)},
      std::move(parts.transfer), parts.make_codec(true),
      parts.codes_down ? parts.make_codec(false) : nullptr,
      [this](Rank from, const ServerHeader& header, const ContentShape& shape) {
        return admit(from, header, shape);
      });
  setup_.channel = channel_.get();
  own(*channel_, {0, "channel"});
}

void ServerStrategy::put(std::unique_ptr<ParameterServerWorker> worker,
                         std::unique_ptr<ParameterServer> server) {
  LH_CHECK(!worker_ && !server_ && (worker || server));
  worker_ = std::move(worker);
  server_ = std::move(server);
  if (worker_) own(*worker_, {1, "worker"});
  if (server_) own(*server_, {2, "server"});
}

Result<bool> ServerStrategy::admit(Rank from, const ServerHeader& header,
                                   const ContentShape& shape) {
  const bool is_model =
      shape.kind == ContentKind::values && shape.range == Range{0, setup_.place.layout->size()};
  if (shape.kind != ContentKind::none && !is_model) return malformed("a vector that is no model");
  if (header.is_for_server() ? !server_ : !worker_ || from != setup_.server)
    return malformed("a header that goes the wrong way");
  LH_TRY(header.is_for_server() ? server_->admit(from, header, is_model)
                                : worker_->admit(header, is_model));
  return true;
}

void ServerStrategy::send(Envelope envelope, Turn& below) {
  const bool to_server = envelope.header.is_for_server();
  const Service service = to_server ? worker_->service() : Service{};
  VectorContent content;
  if (envelope.carries())
    content = VectorContent::values(std::move(envelope.values), {0, setup_.place.layout->size()});
  const VectorHandle handle =
      channel_->send({envelope.peer}, envelope.header, std::move(content),
                     {.coding = coding_of(envelope.header.kind), .service = service}, below);
  if (!to_server) return;
  push_ = handle;
  service_ = service;
}

// What is under way goes as the worker's service is by now.
void ServerStrategy::follow_service(Turn& below) {
  if (!worker_ || push_ == 0 || worker_->service().priority == service_.priority) return;
  service_ = worker_->service();
  channel_->reprioritise(push_, service_, below);
}

void ServerStrategy::on_computed(const Computed& computed, Turn& turn) {
  if (!over_) worker_->on_computed(computed, turn);
}

// Until nobody has anything to say: a node that is worker and server tells itself, too.
void ServerStrategy::on_progress(Turn& turn) {
  Turn below = within(*channel_, turn);
  while (channel_->lost()) {
  }  // worker and server follow the view
  while (over_ && channel_->poll(below)) {
  }  // what was on its way
  for (bool more = true; more && !over_;) {
    more = false;
    const auto send_one = [&](std::optional<Envelope> envelope) {
      if (envelope) send(*std::move(envelope), below);
      return envelope.has_value();
    };
    while (worker_ && send_one(worker_->outgoing())) more = true;
    while (server_ && send_one(server_->outgoing())) more = true;
    while (auto one = channel_->poll(below)) {
      const bool is_vector = one->content.kind() == ContentKind::values;
      const Envelope envelope{one->from, one->header, is_vector ? one->content.values() : nullptr};
      envelope.header.is_for_server() ? server_->take(envelope, turn)
                                      : worker_->take(envelope, turn);
      more = true;
    }
    follow_service(below);
  }
  over_ |= (worker_ && worker_->failed()) || (server_ && server_->failed());
  if (over_) return;
  if (worker_ && worker_->wants_stop()) turn.stop_computing();
  if ((worker_ && !worker_->ended()) || (server_ && !server_->ended())) return;
  over_ = true;
  turn.finish();
}

void ServerStrategy::on_view(const View&, Turn& turn) {
  if (over_ || turn.view().has(setup_.server)) return;
  if (worker_ && worker_->ended()) return;
  over_ = true;
  turn.fail(who(setup_.name, turn.place()) + "the server is lost: site " +
            turn.place().member(setup_.server).site + " (rank " + std::to_string(setup_.server) +
            "), which held the model. Bring it back and resume from the last checkpoint");
}

Round ServerStrategy::rounds_done() const {
  return server_ ? server_->rounds() : worker_->version() / setup_.commits_a_round();
}

std::string ServerStrategy::waiting_for() const {
  if (over_) return "";
  const std::string text = worker_ ? worker_->waiting_for() : "";
  return text.empty() && server_ ? server_->waiting_for() : text;
}

void ServerStrategy::state(Archive& ar) {
  ar.expect(std::string(setup_.name));
  ar(push_, service_.priority, over_);
}

}  // namespace longhaul::sync::server
