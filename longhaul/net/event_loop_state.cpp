// Checkpoints of a node over sockets: when they are taken, and what is in them. See link.h for why
// those of all nodes fit together.
#include <algorithm>

#include <fmt/format.h>

#include "longhaul/net/event_loop.h"

namespace longhaul::net {

using namespace std::chrono_literals;

namespace {
constexpr Time kLinger = 200ms, kSaveAgain = 2s;
}

void EventLoop::checkpoint_if_due() {
  if (!running() || stopping_) return;
  note_request();
  if (!checkpoints_.save || at_end()) return;
  // A node that has rejoined does not know the round of the newest one; the others do.
  const bool counts = checkpoints_.every > 0 && !place_.comes_back();
  const Round rounds = node_->strategy().rounds_done();
  const bool due = counts && rounds >= rounds_at_checkpoint_ + checkpoints_.every;
  // The one before must be on every disk: so all have at least one in common at any time.
  if ((due || checkpoint_asked_) && saved_by_all())
    (void)take_checkpoint(own_checkpoints_.taken + 1);
}

// A checkpoint that other nodes ask for is an answer, too.
void EventLoop::note_request() {
  checkpoint_asked_ |= observer_.checkpoint && observer_.checkpoint();
  if (!checkpoint_asked_ || (checkpoints_.save && !at_end())) return;
  checkpoint_asked_ = false;
  on_note(checkpoints_.save ? "no checkpoint, as is asked: the run is at its end"
                            : "no checkpoint, as is asked: this run has no folder");
}

bool EventLoop::on_checkpoint(Rank, std::uint64_t number) {
  // A node that is at its end, or that keeps none, does not stand in the others' way.
  if (!running() || !checkpoints_.save) return true;
  return take_checkpoint(number);
}

// Nothing that the learner is at work on can be written down: then stepped() does it.
bool EventLoop::take_checkpoint(std::uint64_t number) {
  if (number <= own_checkpoints_.taken) return true;
  wanted_checkpoint_ = number;
  if (stepping_) return false;
  note_request();
  own_checkpoints_.taken = number;
  if (std::exchange(checkpoint_asked_, false)) asked_checkpoint_ = number;
  rounds_at_checkpoint_ = node_->strategy().rounds_done();
  if (at_end()) {  // the others go on without one of this node, and resume from the one before
    peers_.announce(own_checkpoints_);
    return true;
  }
  Archive ar;
  state(ar);
  write_checkpoint(number, std::make_shared<const std::function<Status()>>(
                               checkpoints_.save(number, ar.take())));
  peers_.announce(own_checkpoints_);
  return true;
}

void EventLoop::write_checkpoint(std::uint64_t number, Write write) {
  ++writes_;
  scoring_->submit([this, number, write] {
    const Status written = (*write)();
    loop_.post([=, this] { checkpoint_written(number, write, written); });
  });
}

// Nobody takes the next one before this is on disk, so that all go on having one in common.
void EventLoop::checkpoint_written(std::uint64_t number, Write write, const Status& written) {
  --writes_;
  if (written) {
    if (save_again_ || number == asked_checkpoint_)
      on_note(fmt::format("checkpoint {} is written", number));
    save_again_.reset();
    own_checkpoints_.saved = std::max(own_checkpoints_.saved, number);  // a later one may be there
    peers_.announce(own_checkpoints_);
  } else if (!over()) {
    if (!save_again_)
      observer_.on_note(fmt::format(
          "checkpoint {}: {}; the run goes on, and no site takes the next one before this is "
          "written; tried again each {:g} s: make room",
          number, written.error().what, seconds(kSaveAgain)));
    save_again_ =
        loop_.at(loop_.now() + kSaveAgain, [=, this] { write_checkpoint(number, write); });
  }
}

// All are asked at about the same time, so the last checkpoint is soon on every disk; if one goes
// on, or is gone, this node waits no longer than it said. Its own disk may take its time: the
// threads end only after what they write.
void EventLoop::stop_if_asked() {
  if (!observer_.stop || over() || !observer_.stop()) return;
  const auto end = [this] { failure_ = unavailable("stopped by its user"); };
  if (!running_ || !checkpoints_.save || at_end()) return end();
  if (!stopping_) {
    stopping_ = loop_.now() + checkpoints_.stop_within;
    if (saved_by_all()) (void)take_checkpoint(own_checkpoints_.taken + 1);
    last_checkpoint_ = wanted_checkpoint_;
  }
  const bool is_kept = own_checkpoints_.saved >= last_checkpoint_;
  if (!is_kept && disk_is_at_work()) {
    stopping_ = loop_.now() + checkpoints_.stop_within;
    return;
  }
  // The others must hear that it is on this disk, too, before they see this node gone.
  if (is_kept && peers_.saved_by_all(last_checkpoint_))
    stopping_ = std::min(*stopping_, loop_.now() + kLinger);
  if (loop_.now() >= *stopping_) end();
}

void EventLoop::state(Archive& ar) {
  ar.expect("node " + std::to_string(place_.self) + " over sockets");
  // A job may have got sites since, after all others: in that state they are not in the view.
  std::uint32_t members = place_.size();
  ar(members);
  if (members > place_.size()) return ar.fail("holds more nodes than the job has");
  Time at = now();
  ar(at, counters_.computing, counters_.wan_bytes, counters_.wan_messages, undelivered_step_);
  pace_.state(ar);
  if (ar.loading()) started_ = loop_.now() - at;
  node_->state(ar);
  if (learner_) learner_->state(ar);
  peers_.state(ar, members);
  std::map<std::pair<std::uint32_t, TimerId>, Time> timers;
  for (const auto& [key, due] : timers_) timers[key] = due.at;
  std::vector<std::pair<Round, std::vector<float>>> scorings;
  scorings.reserve(scorings_.size());
  for (const auto& [round, model] : scorings_)
    scorings.emplace_back(round, model ? *model : std::vector<float>{});
  ar(timers, scorings);
  if (!ar.loading() || ar.failed()) return;
  rounds_at_checkpoint_ = node_->strategy().rounds_done();
  wanted_checkpoint_ = own_checkpoints_.taken;
  for (const auto& [key, due] : timers) start_timer(key, due);
  for (auto& [round, model] : scorings)
    score(round,
          model.empty() ? nullptr : std::make_shared<const std::vector<float>>(std::move(model)));
}

}  // namespace longhaul::net
