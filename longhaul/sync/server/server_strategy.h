#pragma once
// ServerStrategy is the strategy of a node in a job with a parameter server. It holds a worker if
// the node has a learner, the server if the node serves, and the channel to the other nodes.
//   Li et al., "Scaling distributed machine learning with the parameter server", OSDI 2014,
//   section 3; here with one server, which holds the whole model.
//
// With [server] standby_every, the loss of the server does not end the run. The live senior worker
// takes its place with the newest copy of its state (standby.h). Later updates are lost, and so is
// the work in progress of the workers. Every worker's node therefore has a server, idle until then.
//
// Updates go to the server in the job's codec, with the worker's error feedback. Models go to the
// workers in another codec, or in fp32. Buffers are exact, and so are the first and the final
// models of a run. A worker at the server's node sends the same envelopes, at no cost.
#include <functional>

#include "longhaul/core/registry.h"
#include "longhaul/sync/server/parameter_server.h"
#include "longhaul/sync/server/parameter_server_worker.h"
#include "longhaul/sync/server/standby.h"

namespace longhaul::sync::server {

class ServerStrategy final : public Strategy {
 public:
  // The overlay of `parts` is not used, and there is no outer transform.
  ServerStrategy(std::string_view name, SyncParts parts, const Place& place)
      : setup_{.name = name,
               .place = place,
               .server = server_of(parts.server, place),
               .workers = place.members.with(Role::worker),
               .stop = parts.stop,
               .rate = parts.rate},
        knows_server_(!place.comes_back()),
        server_rank_(setup_.server) {
    channel_ = std::make_unique<ServerChannel>(
        place,
        ChannelConfig{.stream = std::string(name),
                      .limits = ChannelLimits::models(kModelsOnTheWay, *place.layout)},
        std::move(parts.transfer), parts.make_codec(true),
        parts.codes_down ? parts.make_codec(false) : nullptr,
        std::bind_front(&ServerStrategy::admit, this));
    setup_.channel = channel_.get();
    own(*channel_, {0, "channel"});
    if (parts.standby_every == 0) return;
    standby_ = std::make_unique<Standby>(place, parts.make_transfer(), parts.standby_every,
                                         parts.standbys, server_rank_);
    own(*standby_, {3, "standby"});
  }

  const Setup& setup() const { return setup_; }
  // Called by the strategy before it passes setup() to the worker and the server.
  void commits_a_round(std::uint64_t commits) { setup_.commits = commits; }
  // Returns true if this node may become the server.
  bool may_serve() const {
    return setup_.place.self == setup_.server || (standby_ && setup_.place.me().is(Role::worker));
  }

  // Called by the strategy before all other calls: whether its workers may return.
  void let_return(bool lets_return) { lets_return_ = lets_return; }
  // Called once, before all other calls. `worker`: null without a learner. `server`: null if the
  // node may not serve.
  void put(std::unique_ptr<ParameterServerWorker> worker, std::unique_ptr<ParameterServer> server) {
    LH_CHECK(!worker_ && !server_ && (worker || server));
    worker_ = std::move(worker);
    server_ = std::move(server);
    if (worker_) own(*worker_, {1, "worker"});
    if (server_) own(*server_, {2, "server"});
  }

  void on_computed(const Computed& computed, Turn& turn) override {
    if (!over_) worker_->on_computed(computed, turn);
  }

  void on_view(const View& before, Turn& turn) override {
    if (!knows_server_ && standby_) return;  // the serving node announces itself
    // A server that has returned has lost its state, and no longer serves.
    const View& view = turn.view();
    const bool serves_on =
        view.has(server_rank_) && view.since(server_rank_) == before.since(server_rank_);
    if ((over_ && !finished_) || serves_on) return;
    if (!standby_) {
      if (!worker_ || !worker_->ended()) fail_without_server("", turn);
      return;
    }
    for (const Rank next : followers_of(server_rank_, turn.place(), before, before.live.size()))
      if (view.has(next) && view.since(next) == before.since(next)) return follow(next, turn);
    if (!finished_) fail_without_server(", and so are all that could have followed it", turn);
  }

  // Passes envelopes until there are none left. A node that is worker and server sends to itself,
  // too.
  void on_progress(Turn& turn) override {
    Turn below = within(*channel_, turn);
    channel_->drop_lost();  // worker and server follow the view
    while (over_ && channel_->poll(below)) {
    }  // messages that were in transit
    // For nodes that return after the end.
    while (finished_ && serves() && !server_->failed())
      if (auto envelope = server_->outgoing())
        send(*std::move(envelope), below);
      else
        break;
    // A server that has returned without a learner has nothing to do: another node serves, or none.
    if (!worker_ && !knows_server_ && standby_ && !over_) {
      over_ = true;
      if (!std::exchange(finished_, true)) turn.finish();
      return;
    }
    // Not before this node is let in: the nodes that wait for it must first learn of its loss.
    if ((asked_to_serve_ || !worker_) && !over_ && !knows_server_ && turn.view().epoch > 0)
      return fail_without_server(", and this node has no copy of its state", turn);
    for (bool more = true; more && !over_;) {
      more = false;
      const auto send_one = [&](std::optional<Envelope> envelope) {
        if (envelope) send(*std::move(envelope), below);
        return envelope.has_value();
      };
      while (worker_ && send_one(worker_->outgoing())) more = true;
      while (serves() && send_one(server_->outgoing())) more = true;
      while (auto one = channel_->poll(below)) {
        const bool is_vector = one->content.kind() == ContentKind::values;
        const Envelope envelope{one->from, one->header,
                                is_vector ? one->content.values() : nullptr};
        if (envelope.header.kind == ServerHeader::Kind::serving) {
          hear_server(envelope, turn);
          more = true;
          continue;
        }
        envelope.header.is_for_server() ? server_->take(envelope, turn)
                                        : worker_->take(envelope, turn);
        more = true;
      }
      follow_service(below);
    }
    if (standby_ && serves() && !over_ && server_->has_copy()) {
      standby_->offer(
          server_->version(), server_->model(), [&](Rank rank) { return server_->has_begun(rank); },
          [&] { return server_->rest(); }, within(*standby_, turn));
    }
    over_ |= (worker_ && worker_->failed()) || (serves() && server_->failed());
    if (over_) return;
    if (worker_ && worker_->wants_stop()) turn.stop_computing();
    if ((worker_ && !worker_->ended()) || (serves() && !server_->ended())) return;
    over_ = true;
    if (!std::exchange(finished_, true)) turn.finish();
  }

  Round rounds_done() const override {
    if (serves()) return server_->rounds();
    return worker_ ? worker_->version() / setup_.commits_a_round() : 0;
  }

  std::string waiting_for() const override {
    if (over_) return "";
    const std::string text = worker_ ? worker_->waiting_for() : "";
    return text.empty() && serves() ? server_->waiting_for() : text;
  }

  bool lets_return() const override { return lets_return_; }
  void state(Archive& ar) override {
    ar.expect(std::string(setup_.name));
    ar(push_, service_.priority, over_, server_rank_, finished_, knows_server_, heard_server_,
       asked_to_serve_);
  }

 private:
  static Coding coding_of(ServerHeader::Kind kind) {
    if (kind == ServerHeader::Kind::push) return Coding::up;
    return kind == ServerHeader::Kind::model ? Coding::down : Coding::exact;
  }

  // Unread vectors of a peer, which are read at once: those that can be in transit.
  static constexpr std::uint32_t kModelsOnTheWay = 16;

  bool serves() const { return knows_server_ && server_ && setup_.place.self == server_rank_; }
  // Makes `server` the server. All nodes see the same views, so all follow the same node. A node
  // that has finished reports the end of the run to the new server.
  void follow(Rank server, Turn& turn) {
    const Rank lost = std::exchange(server_rank_, server);
    standby_->follow(server);
    if (worker_) worker_->on_new_server(server, turn);
    over_ = false;
    if (!serves()) return;
    std::optional<Standby::Copy> copy = standby_->take();
    // A missing copy is no error if no worker can have begun: this one has not.
    const bool fresh = !copy && !worker_->begun();
    if (!copy && !fresh && !finished_) {
      server_rank_ = lost;
      return fail_without_server(" before a copy of its state had come here", turn);
    }
    turn.record("takeover", server_->rounds(), double(lost));
    Turn below = within(*server_, turn);
    const Status taken = copy ? server_->take_over(copy->model, copy->version, copy->rest, below)
                              : server_->take_over(nullptr, 0, nullptr, below);
    if (taken) return;
    over_ = true;
    turn.fail(malformed(who(setup_.name, turn.place()) +
                        "the state of the server that is lost: " + taken.error().what));
  }

  // Called when a returned node learns the server's rank. It begins now, as the other nodes did at
  // the start.
  void hear_server(const Envelope& envelope, Turn& turn) {
    if (std::exchange(knows_server_, true)) return;
    server_rank_ = envelope.peer;
    if (standby_) standby_->follow(server_rank_);
    worker_->begin_with(server_rank_, /*wants_start=*/envelope.header.asks, turn);
  }

  void fail_without_server(std::string_view why, Turn& turn) {
    over_ = true;
    turn.fail(state_lost(who(setup_.name, turn.place()) + "the server is lost: site " +
                         turn.place().member(server_rank_).site + " (rank " +
                         std::to_string(server_rank_) + "), which held the model" +
                         std::string(why) + ". Bring it back and resume from the last checkpoint" +
                         (standby_ ? "" : "; with [server] standby_every another node goes on")));
  }

  Result<bool> admit(Rank from, const ServerHeader& header, const ContentShape& shape) {
    const bool is_model =
        shape.kind == ContentKind::values && shape.range == Range{0, setup_.place.layout->size()};
    if (shape.kind != ContentKind::none && !is_model) return malformed("a vector that is no model");
    if (header.kind == ServerHeader::Kind::serving) {
      if (!worker_ || !setup_.place.comes_back() || is_model ||
          (!standby_ && from != server_rank_))  // no other node can serve
        return malformed("a server's name for one that has not returned");
      heard_server_ = true;
      return true;
    }
    // Messages that follow, such as the final model, can arrive before `serving` is polled.
    if (!knows_server_ && !heard_server_) {
      asked_to_serve_ |= header.is_for_server() && setup_.place.self == server_rank_;
      return false;  // the sender begins before the server has announced itself
    }
    if (header.is_for_server() ? !serves() : !worker_ || from != server_rank_)
      return malformed("a header that goes the wrong way");
    LH_TRY(header.is_for_server() ? server_->admit(from, header, is_model)
                                  : worker_->admit(header, is_model));
    return true;
  }

  void send(Envelope envelope, Turn& below) {
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

  // Gives vectors in transit the worker's current service.
  void follow_service(Turn& below) {
    if (!worker_ || push_ == 0 || worker_->service().priority == service_.priority) return;
    service_ = worker_->service();
    channel_->reprioritise(push_, service_, below);
  }

  Setup setup_;
  std::unique_ptr<ServerChannel> channel_;
  std::unique_ptr<ParameterServerWorker> worker_;
  std::unique_ptr<ParameterServer> server_;
  std::unique_ptr<Standby> standby_;  // null without [server] standby_every
  bool lets_return_ = false;
  // Whether the server's rank is known. A returned node learns it from the server.
  bool knows_server_;
  bool heard_server_ = false;    // whether its message is admitted, and maybe not polled
  bool asked_to_serve_ = false;  // whether a worker took this node for the server before that
  Rank server_rank_;             // rank of the server
  VectorHandle push_ = 0;        // newest vector of the worker
  Service service_;              // service of that vector
  bool over_ = false;            // whether the strategy has finished or failed
  bool finished_ = false;        // whether it has called finish()
};

}  // namespace longhaul::sync::server
