#pragma once
// Entries of a recording, in file order: a Header, an InitialState, then an InputEntry and an
// AnswerEntry for each input, an EndEntry.
#include <memory>
#include <string>
#include <vector>

#include "longhaul/core/action.h"
#include "longhaul/core/input.h"
#include "longhaul/core/layout.h"
#include "longhaul/record/frame.h"

namespace longhaul::record {

enum class Mode : std::uint8_t {
  hashes,  // hashes of the learner's vectors: a replay must compute bit-identical ones
  full     // the vectors: a replay needs neither the learner nor its data
};

struct Header {
  static constexpr EntryType kType = EntryType::header;
  std::string cpu;  // recording machine's processor
  std::string job;  // the resolved job file
  std::uint64_t job_hash = 0;
  std::uint64_t seed = 0;
  Mode mode = Mode::hashes;
  Rank rank = 0;
  std::uint32_t nodes = 0;
  std::string site;
  std::uint32_t rank_in_site = 0;
  std::uint32_t incarnation = 0;  // see Member
  bool learner = false;           // the node has one
  bool phantom = false;           // the job has no numbers
  std::uint64_t training_samples = 0;
  std::shared_ptr<const Layout> layout = std::make_shared<const Layout>();

  void state(Archive&);
};

// A learner's two vectors at a time when it does not compute.
struct LearnerVectors {
  std::uint64_t params_hash = 0, grads_hash = 0;
  std::vector<float> params, grads;  // empty unless the mode is full

  static LearnerVectors of(Learner*, Mode);  // empty for nullptr
  bool same_hashes(const LearnerVectors& other) const {
    return params_hash == other.params_hash && grads_hash == other.grads_hash;
  }
  void state(Archive& ar) { ar(params_hash, grads_hash, params, grads); }
};

// The state of the node before its first input.
struct InitialState {
  static constexpr EntryType kType = EntryType::begin;
  bool fresh = true;               // new node
  Buffer node = {}, learner = {};  // else their saved states: a resumed run
  LearnerVectors vectors = {};

  void state(Archive& ar) { ar(fresh, node, learner, vectors); }
};

struct InputEntry {
  static constexpr EntryType kType = EntryType::input;
  Time time{0};
  Input input;
  LearnerVectors vectors;  // for Stepped: after the step

  void state(Archive& ar) {
    ar(time);
    archive_input(ar, input);
    ar(vectors);
  }
};

// One action, or the refusal of a message.
struct Answer {
  std::uint64_t hash = 0;  // over all its fields
  std::string text;        // for the user

  void state(Archive& ar) { ar(hash, text); }
};

struct AnswerEntry {
  static constexpr EntryType kType = EntryType::answer;
  std::vector<Answer> answers;

  void state(Archive& ar) { ar(answers); }
};

struct EndEntry {
  static constexpr EntryType kType = EntryType::end;
  std::uint64_t inputs = 0;

  void state(Archive& ar) { ar(inputs); }
};

template <class Entry>
Buffer encode(Entry& entry) {
  Archive ar;
  ar(entry);
  return ar.take();
}

// Returns the entry in any bytes, or an Error with the position in the file.
template <class Entry>
Result<Entry> decode(const Frame& frame) {
  const std::string where =
      "entry " + std::to_string(frame.number) + " at byte " + std::to_string(frame.offset);
  if (frame.type != Entry::kType)
    return malformed(where + " is of type " + std::to_string(std::uint32_t(frame.type)) +
                     " where type " + std::to_string(std::uint32_t(Entry::kType)) +
                     " is expected: written by another program");
  Entry entry;
  Archive ar(frame.payload);
  ar(entry);
  if (!ar.finish()) return malformed(where + " does not hold what its type says");
  return entry;
}

bool same_layout(const Layout&, const Layout&);

// Returns an answer with an XXH3 hash over every field and payload byte. For a step, a report of
// the current model and the end, the hash includes the parameters and gradients of `idle`.
Answer answer_of(const Action&, Learner* idle);
Answer refusal(const Error&);

// Returns a description such as "message from rank 2 for /2/0 kind 3, 24 + 4096 bytes".
std::string describe(const Input&);
std::string describe(const Action&);
// Returns a time such as "1.500000000 s".
std::string describe(Time);

}  // namespace longhaul::record
