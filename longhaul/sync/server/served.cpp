#include "longhaul/sync/server/served.h"

namespace longhaul::sync::server {

Served::Served(std::string_view name, SyncParts parts, const Place& place)
    : setup_{.name = name,
             .place = place,
             .server = server_of(parts.server, place),
             .workers = {},
             .stop = parts.stop,
             .rate = parts.rate} {
  for (Rank rank = 0; rank < place.size(); ++rank)
    if (place.member(rank).is(Role::worker)) setup_.workers.push_back(rank);
  courier_ = std::make_unique<Courier>(place, setup_.server, std::move(parts.transfer),
                                       parts.make_codec(true),
                                       parts.codes_down ? parts.make_codec(false) : nullptr, *this);
  setup_.courier = courier_.get();
  own(*courier_);
}

void Served::put(std::unique_ptr<WorkerHalf> worker, std::unique_ptr<ServerHalf> server) {
  LH_CHECK(!worker_ && !server_ && (worker || server));
  worker_ = std::move(worker);
  server_ = std::move(server);
  if (worker_) own(*worker_);
  if (server_) own(*server_);
}

Status Served::admit(Rank from, const Label& label) {
  if (label.goes_up()) return server_ ? server_->admit(from, label) : malformed("not the server");
  return worker_ ? worker_->admit(label) : malformed("not a worker");
}

void Served::on_computed(const Computed& computed, Turn& turn) {
  if (!over_) worker_->on_computed(computed, turn);
}

// Until nobody has anything to say: a node that is worker and server tells itself, too.
void Served::on_progress(Turn& turn) {
  Turn below = within(*courier_, turn);
  for (bool more = true; more && !over_;) {
    more = false;
    const auto send = [&](std::optional<Letter> letter) {
      if (letter) courier_->send(*std::move(letter), below);
      return letter.has_value();
    };
    while (worker_ && send(worker_->letter())) more = true;
    while (server_ && send(server_->letter())) more = true;
    while (const auto letter = courier_->arrived()) {
      letter->label.goes_up() ? server_->take(*letter, turn) : worker_->take(*letter, turn);
      more = true;
    }
  }
  over_ |= (worker_ && worker_->failed()) || (server_ && server_->failed());
  if (over_) return;
  if (worker_ && worker_->wants_stop()) turn.stop_computing();
  if ((worker_ && !worker_->ended()) || (server_ && !server_->ended())) return;
  over_ = true;
  turn.finish();
}

void Served::on_view(const View&, Turn& turn) {
  if (over_ || turn.view().has(setup_.server)) return;
  if (worker_ && worker_->ended()) return;
  over_ = true;
  turn.fail(who(setup_.name, turn.place()) + "the server is lost: site " +
            turn.place().member(setup_.server).site + " (rank " + std::to_string(setup_.server) +
            "), which held the model. Bring it back and resume from the last checkpoint");
}

Round Served::rounds_done() const {
  return server_ ? server_->rounds() : worker_->version() / setup_.commits_a_round();
}

std::string Served::waiting_for() const {
  if (over_) return "";
  const std::string text = worker_ ? worker_->waiting_for() : "";
  return text.empty() && server_ ? server_->waiting_for() : text;
}

void Served::state(Archive& ar) {
  ar.expect(std::string(setup_.name));
  ar(over_);
}

}  // namespace longhaul::sync::server
