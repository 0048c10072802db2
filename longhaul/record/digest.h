#pragma once
// Inputs and actions as a hash of all they hold and as a line of text.
#include "longhaul/core/action.h"
#include "longhaul/record/entries.h"

namespace longhaul::record {

// XXH3 over every field and payload byte. For a step, a report of the current model and the end,
// also over the parameters and gradients of `idle`.
Answer answer_of(const Action&, Learner* idle);
Answer refusal(const Error&);

// "message from rank 2 for /2/0 kind 3, 24 + 4096 bytes"
std::string describe(const Input&);
std::string describe(const Action&);
// "1.500000000 s"
std::string describe(Time);

}  // namespace longhaul::record
