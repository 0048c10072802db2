#pragma once
// The codecs by name, and the job's codec made from the table [codec].
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "longhaul/core/registry.h"

namespace longhaul::codec {

std::span<const CodecEntry> registry();

// The entry that [codec] kind names; "fp32" if it names none.
Result<const CodecEntry*> entry_of(const Settings&);
// Why the codec cannot have error feedback; nothing if it can. Only contractions can: what others
// lose would add up without bound.
std::optional<std::string> refuses_feedback(const CodecEntry&);
// Does the job want error feedback? An Error where its codec cannot have it, with the reason.
Result<bool> wants_error_feedback(const Settings&);
// A fresh codec of the job. With `feedback` one that writes contributions, wrapped in error
// feedback if the job wants it. Without, one that writes means and partial sums: of codecs whose
// vectors must be gathered an exact one, which leaves out zeros if the codec does.
Result<std::unique_ptr<Codec>> make_codec(const Settings&, const Place&, bool feedback);

}  // namespace longhaul::codec
