#pragma once
// ParameterServerWorker is what a node with a learner does in a strategy with a server: it
// computes, pushes what it computed, and reads the server's model when its strategy wants it. It
// answers envelopes with envelopes, also if the server is on its own node; ServerStrategy sends
// them.
//
// The lowest live worker sends the server the model to start from, which is equal on all; each
// begins when the server has it. The last envelope holds the model that the run ends with: the
// worker stops computing at the next boundary and takes it.
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

  // Whoever follows a lowest worker that is lost does not know whether the server has heard it.
  void on_view(const View& before, Turn& turn) final {
    if (begun_ || !knows_server_ || (phase_ != Phase::waiting && phase_ != Phase::computing))
      return;
    const auto lowest = [&](const View& view) {
      return live_with(Role::worker, turn.place(), view).front();
    };
    if (lowest(turn.view()) != turn.self() || lowest(before) == turn.self()) return;
    start_is_due_ = true;
    if (phase_ == Phase::waiting) send_start(turn);  // else the learner is at work: when it asks
  }

  void state(Archive& ar) override {
    ar.expect(std::string(setup_.name) + " worker");
    ar(phase_, begun_, start_is_due_, ending_, version_, clock_, asked_, last_, out_);
    ar(gives_up_, oldest_, setup_.server, knows_server_);
  }

  // --- from ServerStrategy ----------------------------------------------------------------------
  void on_computed(const Computed& done, Turn& turn) {
    if (phase_ != Phase::computing) return;  // it has failed
    if (std::exchange(gives_up_, false) && !ending_) return given_up(done, turn);
    if (!ending_) return computed(done, turn);
    wait(turn);
    if (last_) end(turn);
  }

  // Is it in order that the server sends this, with a vector or without?
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
      return begun_ && !carries ? Status(Ok{}) : malformed("a notice that nobody waits for");
    if (phase_ != Phase::waiting || (begun_ && !carries))
      return malformed("a model that nobody asked for");
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

  // to be sent
  std::optional<Envelope> outgoing() {
    if (out_.empty()) return std::nullopt;
    Envelope envelope = std::move(out_.front());
    out_.pop_front();
    return envelope;
  }

  // This node has returned, and hears who serves. `wants_start`: it has no model to start from.
  void begin_with(Rank server, bool wants_start, Turn& turn) {
    setup_.server = server;
    knows_server_ = true;
    if (ending_) return;  // the model that the run ends with comes next
    const bool lowest = live_workers(turn).front() == turn.self();
    if (wants_start && lowest) send_start(turn);
    if (!prepares(turn)) ask(turn);
  }

  // The server is lost and another node serves: what was on its way to the old one is lost, and
  // what is being computed is given up. It asks for the model, or tells the one that the run ended
  // with.
  void on_new_server(Rank server, Turn& turn) {
    setup_.server = server;
    if (failed()) return;
    out_.clear();
    if (last_ || ended()) {
      const ServerHeader header{.kind = ServerHeader::Kind::ended, .version = version_};
      // Before its end the learner may be at work.
      out_.push_back({server, header, last_ ? last_->values : copied(turn.params())});
      return;
    }
    ending_ = false;
    oldest_ = 0;  // the new one may have lost some
    const Rank lowest = live_workers(turn).front();
    start_is_due_ = !begun_ && lowest == turn.self();
    if (phase_ == Phase::waiting) {
      ask(turn);
    } else {
      gives_up_ = begun_ && phase_ == Phase::computing;
    }
  }

  // Of what it sends; a change also holds for the push that is under way.
  virtual Service service() const { return {}; }
  bool wants_stop() const { return ending_ && phase_ == Phase::computing; }
  bool begun() const { return begun_; }  // has had a model
  bool ended() const { return phase_ == Phase::ended; }
  bool failed() const { return phase_ == Phase::failed; }
  std::uint64_t version() const { return version_; }  // of the newest model that it read
  std::string waiting_for() const {
    if (phase_ != Phase::waiting) return "";
    if (!knows_server_) return "the server, to be told that this node has returned";
    return std::string(ending_ ? "the model that the run ends with" : "the model") +
           " of the server, rank " + std::to_string(setup_.server);
  }

 protected:
  // --- what a strategy is made of ---------------------------------------------------------------
  // params() is the model to go on from: compute().
  virtual void begin(Turn&) = 0;
  // What compute() asked for is done: push(), compute() or ask().
  virtual void computed(const Computed&, Turn&) = 0;
  // The model came; null in the first answer, if params() is it already. Compute.
  virtual void read(const ServerHeader&, const Snapshot& model, Turn& turn) {
    if (model) set_model(model, turn);
    begin(turn);
  }

  // After on_new_server(): the steps under way are done; ask(), at last.
  virtual void given_up(const Computed&, Turn& turn) { ask(turn); }
  // Has it something to compute before it asks for the first model? Then compute() and, at last,
  // ask(). params() is W_0.
  virtual bool prepares(Turn&) { return false; }
  // What only this strategy's pulls and pushes say.
  virtual Extension pull_extension() const { return {}; }
  virtual Extension push_extension(const Computed&) const { return {}; }
  // Is the extension of a model or a notice in order? A strategy without one has no notices.
  virtual Status check_extension(const ServerHeader& header) const {
    if (header.kind == ServerHeader::Kind::notice || !header.extension.empty())
      return malformed("what only another strategy's server says");
    return Ok{};
  }

  // The server sends notices at any time after the first model.
  virtual void on_notice(const ServerHeader&, Turn&) {}

  // --- what it calls ----------------------------------------------------------------------------
  void compute(Work work, std::uint32_t steps, Turn& turn) {
    if (failed()) return;
    phase_ = Phase::computing;
    turn.compute(std::move(work), steps);
  }

  // Local steps on the loss + prox/2 |x - x_0|^2, x_0 being params(). 0: plain ones.
  void compute_near(double prox, std::uint32_t steps, Turn& turn) {
    if (prox == 0 || turn.place().phantom) return compute(LocalStep{}, steps, turn);
    compute(ProximalStep{prox, copied(turn.params())}, steps, turn);
  }

  // Gives the server `parameters`, empty for phantoms, and the buffers beside them. With `asks`,
  // read() follows, of a model in which this push is.
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

  // for the model; read() follows
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
  bool gives_up_ = false;      // what is being computed: it was for a server that is lost
  bool begun_ = false;         // has had an answer
  bool knows_server_ = true;   // false: it has returned, and not heard yet
  bool start_is_due_ = false;  // it is to send the server the model to start from
  bool ending_ = false;        // the last envelope is coming
  std::uint64_t version_ = 0, oldest_ = 0;  // of its model; that the next one may have
  std::uint64_t clock_ = 0;
  Time asked_{0};
  std::optional<Envelope> last_;
  std::deque<Envelope> out_;
};

}  // namespace longhaul::sync::server
