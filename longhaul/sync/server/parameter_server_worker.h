#pragma once
// ParameterServerWorker is a node with a learner in a strategy with a server. It computes, pushes
// its updates, and reads the server's model when its strategy asks for it. It answers envelopes
// with envelopes, also if the server is on its own node. ServerStrategy sends them.
//
// The lowest live worker sends the server the initial model, which is equal on all workers. Each
// worker starts when the server has it. The last envelope holds the final model of the run. The
// worker then stops computing at the next boundary and takes this model.
#include <algorithm>
#include <deque>

#include "longhaul/sync/flat.h"
#include "longhaul/sync/server/server_header.h"
#include "longhaul/sync/server/setup.h"

namespace longhaul::sync::server {

class ParameterServerWorker : public Machine {
 public:
  explicit ParameterServerWorker(const Setup& setup) : setup_(setup) {}

  void on_start(Turn& turn) final {
    knows_server_ = !turn.place().comes_back();
    if (!knows_server_) return wait(turn);
    if (live_workers(turn).front() == turn.self()) send_start(turn);
    if (!prepares(turn)) ask(turn);
  }

  // A new lowest worker sends the initial model, because the server may not have received it.
  void on_view(const View& before, Turn& turn) final {
    if (begun_ || !knows_server_ || (phase_ != Phase::waiting && phase_ != Phase::computing))
      return;
    const auto lowest = [&](const View& view) {
      return live_with(Role::worker, turn.place(), view).front();
    };
    if (lowest(turn.view()) != turn.self() || lowest(before) == turn.self()) return;
    start_is_due_ = true;
    if (phase_ == Phase::waiting) send_start(turn);  // else ask() sends it after the computation
  }

  void state(Archive& ar) override {
    ar.expect(std::string(setup_.name) + " worker");
    ar(phase_, begun_, start_is_due_, ending_, version_, clock_, asked_, last_, out_);
    ar(gives_up_, oldest_, setup_.server, knows_server_);
  }

  // --- from ServerStrategy ----------------------------------------------------------------------
  void on_computed(const Computed& done, Turn& turn) {
    if (phase_ != Phase::computing) return;  // failed
    if (std::exchange(gives_up_, false) && !ending_) return given_up(done, turn);
    if (!ending_) return computed(done, turn);
    wait(turn);
    if (last_) end(turn);
  }

  // Returns Malformed if the server must not send this header, with a vector (`carries`) or
  // without.
  Status admit(const ServerHeader& header, bool carries) {
    if (ending_ || phase_ >= Phase::ended) return malformed("an envelope after the last one");
    if (header.version < oldest_)
      return malformed("a model of version " + std::to_string(header.version) + " after version " +
                       std::to_string(oldest_));
    if (header.kind == ServerHeader::Kind::last) {
      if (!carries) return malformed("the last model without its values");
      ending_ = true;
      return Ok{};
    }
    LH_TRY(check_extension(header));
    if (header.kind == ServerHeader::Kind::notice)
      return begun_ && !carries ? Status(Ok{}) : malformed("an unexpected notice");
    if (phase_ != Phase::waiting || (begun_ && !carries))
      return malformed("a model that was not requested");
    return Ok{};
  }

  void take(const Envelope& envelope, Turn& turn) {
    if (envelope.header.kind == ServerHeader::Kind::notice) return on_notice(envelope.header, turn);
    version_ = oldest_ = envelope.header.version;
    if (envelope.header.kind == ServerHeader::Kind::last) {
      ending_ = true;
      last_ = envelope;
      if (phase_ == Phase::waiting) end(turn);
      return;
    }
    turn.record("wait_s", clock_, seconds(turn.now() - asked_));
    begun_ = true;
    read(envelope.header, envelope.values, turn);
  }

  // Returns the next envelope to send; null if none.
  std::optional<Envelope> outgoing() {
    if (out_.empty()) return std::nullopt;
    Envelope envelope = std::move(out_.front());
    out_.pop_front();
    return envelope;
  }

  // Called when a returned node learns its server. `wants_start`: the server needs the initial
  // model.
  void begin_with(Rank server, bool wants_start, Turn& turn) {
    setup_.server = server;
    knows_server_ = true;
    if (ending_) return;  // the final model of the run follows
    const bool lowest = live_workers(turn).front() == turn.self();
    if (wants_start && lowest) send_start(turn);
    if (!prepares(turn)) ask(turn);
  }

  // Called when another node serves because the server is lost. Messages in transit to the old
  // server are lost, and the current computation is given up. The worker asks for the model, or
  // sends the final model of the run.
  void on_new_server(Rank server, Turn& turn) {
    setup_.server = server;
    if (failed()) return;
    out_.clear();
    if (last_ || ended()) {
      const ServerHeader header{.kind = ServerHeader::Kind::ended, .version = version_};
      // The learner may compute until this worker ends.
      out_.push_back({server, header, last_ ? last_->values : copied(turn.params())});
      return;
    }
    ending_ = false;
    oldest_ = 0;  // the new server may have lost versions
    const Rank lowest = live_workers(turn).front();
    start_is_due_ = !begun_ && lowest == turn.self();
    if (phase_ == Phase::waiting) {
      ask(turn);
    } else {
      gives_up_ = begun_ && phase_ == Phase::computing;
    }
  }

  // Returns the service of this worker's messages. A change also applies to a push in transit.
  virtual Service service() const { return {}; }
  bool wants_stop() const { return ending_ && phase_ == Phase::computing; }
  bool begun() const { return begun_; }  // true after the first model
  bool ended() const { return phase_ == Phase::ended; }
  bool failed() const { return phase_ == Phase::failed; }
  std::uint64_t version() const { return version_; }  // version of the newest model that was read
  std::string waiting_for() const {
    if (phase_ != Phase::waiting) return "";
    if (!knows_server_) return "the name of the server, after the return of this node";
    return std::string(ending_ ? "the model that the run ends with" : "the model") +
           " of the server, rank " + std::to_string(setup_.server);
  }

 protected:
  // --- hooks for strategies ----------------------------------------------------------------------
  // Must call compute(). params() is the model to continue from.
  virtual void begin(Turn&) = 0;
  // Called when a computation has ended. Must call push(), compute() or ask().
  virtual void computed(const Computed&, Turn&) = 0;
  // Called when the model has arrived. `model` is null in the first answer if params() already
  // holds it. Must call compute().
  virtual void read(const ServerHeader&, const Snapshot& model, Turn& turn) {
    if (model) set_model(model, turn);
    begin(turn);
  }

  // Called when the steps that ran during on_new_server() are done. Must finally call ask().
  virtual void given_up(const Computed&, Turn& turn) { ask(turn); }
  // Returns true if this worker computes before it asks for the first model. Must then call
  // compute() and finally ask(). params() is W_0.
  virtual bool prepares(Turn&) { return false; }
  // Return this strategy's extensions of pulls and pushes.
  virtual Extension pull_extension() const { return {}; }
  virtual Extension push_extension(const Computed&) const { return {}; }
  // Checks the extension of a model or a notice. A strategy without an extension has no notices.
  virtual Status check_extension(const ServerHeader& header) const {
    if (header.kind == ServerHeader::Kind::notice || !header.extension.empty())
      return malformed("a message that only another strategy's server sends");
    return Ok{};
  }

  // Called for a notice of the server, at any time after the first model.
  virtual void on_notice(const ServerHeader&, Turn&) {}

  // --- calls for strategies ----------------------------------------------------------------------
  void compute(Work work, std::uint32_t steps, Turn& turn) {
    if (failed()) return;
    phase_ = Phase::computing;
    turn.compute(std::move(work), steps);
  }

  // Computes local steps on the loss + prox/2 |x - x_0|^2, where x_0 is params(). Plain steps if
  // `prox` is 0.
  void compute_near(double prox, std::uint32_t steps, Turn& turn) {
    if (prox == 0 || turn.place().phantom) return compute(LocalStep{}, steps, turn);
    compute(ProximalStep{prox, copied(turn.params())}, steps, turn);
  }

  // Sends the server `parameters` (empty in a phantom job) and the buffers. With `asks`, read()
  // follows with a model that includes this push.
  void push(std::span<const float> parameters, const Computed& computed, bool asks, Turn& turn) {
    std::vector<float> values(parameters.begin(), parameters.end());
    std::ranges::copy(buffers(turn), std::back_inserter(values));
    if (!turn.place().phantom) {
      turn.record("train_loss", clock_, computed.loss);
      turn.record("update_norm", clock_, norm_of(parameters));
    }
    ++clock_;
    if (!all_finite(values)) {
      phase_ = Phase::failed;
      return turn.fail(not_finite(who(setup_.name, turn.place()) + "its update " +
                                  std::to_string(clock_) +
                                  " has values that are not finite; lower [optimizer] rate"));
    }
    out_.push_back({setup_.server,
                    {.kind = ServerHeader::Kind::push,
                     .asks = asks,
                     .version = version_,
                     .samples = computed.samples,
                     .extension = push_extension(computed)},
                    snapshot_of(std::move(values))});
    if (asks) wait(turn);
  }

  // Asks for the model; read() follows.
  void ask(Turn& turn) {
    if (failed()) return;
    if (start_is_due_) send_start(turn);
    out_.push_back(
        {setup_.server,
         {.kind = ServerHeader::Kind::pull, .version = version_, .extension = pull_extension()},
         nullptr});
    wait(turn);
  }

  std::uint64_t clock() const { return clock_; }  // pushes so far
  void set_clock(std::uint64_t clock) { clock_ = clock; }
  const Setup& setup() const { return setup_; }

 private:
  enum class Phase : std::uint8_t { not_started, waiting, computing, ended, failed };
  void send_start(Turn& turn) {
    start_is_due_ = false;
    out_.push_back({setup_.server, {.kind = ServerHeader::Kind::start}, copied(turn.params())});
  }

  void wait(Turn& turn) {
    if (failed()) return;
    phase_ = Phase::waiting;
    asked_ = turn.now();
  }

  void end(Turn& turn) {
    set_model(last_->values, turn);
    last_.reset();
    phase_ = Phase::ended;
  }

  void set_model(const Snapshot& model, Turn& turn) const {
    const auto x = turn.params();
    LH_CHECK(model->size() == x.size());
    std::ranges::copy(*model, x.begin());
  }

  Setup setup_;
  Phase phase_ = Phase::not_started;
  bool gives_up_ = false;                   // the current computation is for a lost server
  bool begun_ = false;                      // true after the first answer
  bool knows_server_ = true;                // false: returned, server not known yet
  bool start_is_due_ = false;               // must send the initial model to the server
  bool ending_ = false;                     // the last envelope is arriving
  std::uint64_t version_ = 0, oldest_ = 0;  // version of this model; minimum of the next one
  std::uint64_t clock_ = 0;
  Time asked_{0};
  std::optional<Envelope> last_;
  std::deque<Envelope> out_;
};

}  // namespace longhaul::sync::server
