#pragma once
// A training loop of the user's as a Learner: the loop runs in a thread of its own, and the host's
// step() hands the turn over to it and waits. Exactly one of the two runs at a time, so the
// parameters have one owner. Without Python: module.cpp translates.
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "longhaul/core/learner.h"

namespace longhaul::python {

// The trained vectors of a loop, in memory of its thread that stays until the loop has left.
struct Attached {
  std::shared_ptr<const Layout> layout;
  float* params = nullptr;  // layout->size() values each, in layout order
  float* grads = nullptr;
  std::vector<Learner::FixedPart> fixed = {};
  // The two are copies of values that live elsewhere (a GPU, arrays): the host asks for them by
  // Fetch before it reads.
  bool mirrored = false;
  // The host says by Put that it may have written the parameters: there are copies of them.
  bool wants_put = false;
  bool has_gradients = true;  // the loop can answer Gradient and ProximalStep
  bool uses_rate = false;     // the optimiser has the job's rate
};

// Requests of the host to a loop.
struct Save {};  // the state of the loop without the two vectors, as bytes
struct Load {    // the same back; the vectors hold their values already
  Buffer bytes;
};
struct Fetch {};  // mirrored: values into the vectors
struct Put {};    // wants_put: the parameters may have changed
struct End {};    // the run has ended; no request follows
using Request = std::variant<const Work*, Save, Load, Fetch, Put, End>;

struct Reply {
  StepResult step = {};
  Buffer bytes = {};  // of Save
};

// The seat at which host and loop meet. The host's calls come from one thread at a time.
class Loop {
 public:
  using Note = std::function<void(const std::string&)>;
  using Look = std::function<Status()>;
  // `note` gets a line for the user where a wait has become long. `look` is called a few times a
  // second of each wait; its Error ends the wait: Ctrl-C where Python has the signal's handler.
  Loop(std::string site, Note note, Look look)
      : site_(std::move(site)), note_(std::move(note)), look_(std::move(look)) {}

  const std::string& site() const { return site_; }

  // The loop's thread.

  void attach(Attached);
  // Hands the turn to the host and waits for it. Every earlier request has its answer.
  Request next();
  // An Error: the work is nothing this loop can do, or its numbers are wrong.
  void answer(Result<Reply>);
  // The loop has ended: after End, by an error (`why`), or too early (""). The first call counts.
  void leave(std::string why);

  // The host's thread.

  // Waits until the loop has attached. An Error if it left without.
  Result<Attached> attached();
  // One loop of this process works at a time, whichever thread asks: others wait here for their
  // turn. Error: the loop refused, or has left.
  Result<Reply> ask(const Request&);
  // Nothing has been asked of it yet: it stands in attach().
  bool is_fresh();
  // Sends End and waits until the loop has left, or `look` ends the wait.
  void end();
  // Keeps all loops of this process waiting while the host runs code of the user's.
  static std::unique_lock<std::mutex> hold_all();

 private:
  using Clock = std::chrono::steady_clock;
  // Waits for `ready`, with a note after a minute, two, four ..., and one after a stop signal.
  Status wait_for(std::unique_lock<std::mutex>&, const char* what,
                  const std::function<bool()>& ready);
  Error left_error() const;
  // The host asks again sooner than a thread can be woken: the loop looks for this time first. The
  // host does not look: a step takes longer, and the two may share a core.
  static constexpr auto kWatch = std::chrono::microseconds(150);
  static constexpr auto kLook = std::chrono::milliseconds(200);

  const std::string site_;
  const Note note_;
  const Look look_;
  std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  std::optional<Attached> attached_;
  std::optional<Request> request_;
  std::optional<Result<Reply>> reply_;
  std::atomic<std::uint64_t> requests_ = 0;  // how many there have been
  std::uint64_t taken_ = 0;                  // by the loop
  std::uint64_t asked_ = 0;
  bool left_ = false;
  std::string why_;
};

// The loop as the host sees it. Destroyed when the run has ended: waits for the loop to leave. A
// host that begins again before the first step (it has met a run that it rejoins) gives the loop
// back, so that train() runs once.
class LoopLearner final : public Learner {
 public:
  using GiveBack = std::function<void(std::shared_ptr<Loop>)>;  // a fresh one with its first values
  static Result<std::unique_ptr<LoopLearner>> make(std::shared_ptr<Loop>, GiveBack give_back);
  ~LoopLearner() override;

  std::shared_ptr<const Layout> layout() const override { return to_.layout; }
  bool has_gradients() const { return to_.has_gradients; }
  bool uses_rate() const { return to_.uses_rate; }
  std::span<float> params() override;
  std::span<float> grads() override { return {to_.grads, std::size_t(to_.layout->size())}; }
  Result<StepResult> step(const Work&) override;
  void state(Archive&) override;
  std::vector<FixedPart> fixed_parts() const override { return to_.fixed; }

 private:
  LoopLearner(std::shared_ptr<Loop> loop, Attached to, GiveBack give_back)
      : loop_(std::move(loop)), to_(std::move(to)), give_back_(std::move(give_back)) {}
  Status put();
  std::uint64_t digest() const;

  std::shared_ptr<Loop> loop_;
  Attached to_;
  GiveBack give_back_;
  std::uint64_t began_with_ = digest();
  // Mirrored: the vectors are equal to the loop's; the host has had params() since and may have
  // written.
  bool fetched_ = true, lent_ = false;
  std::optional<Error> failed_;  // a failed Fetch, which the next step reports
};

}  // namespace longhaul::python
