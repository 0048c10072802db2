#pragma once
// The encoding of factors and of the rest of a gradient. The job's codec encodes u and v. With an
// exact codec, a v of which less than half is not 0 is written as pairs instead. The sender uses
// the encoded values too, so that all models stay equal with a lossy codec.
#include "longhaul/core/coder.h"
#include "longhaul/core/vector_content.h"
#include "longhaul/sync/sfb/factors.h"
#include "longhaul/sync/sfb/headers.h"
#include "longhaul/sync/sfb/parts.h"

namespace longhaul::sync::sfb {

// Returns true if a value takes four bytes and none is changed.
bool is_exact(const Coder&);

// Returns Malformed if content of `bytes` cannot be the part of the header, a layer or (part
// `layers`) the rest, or if there is no such part.
Status check_size(const FactorsHeader&, std::uint64_t bytes, const Parts&, std::uint32_t most_rows,
                  const Coder&);

// Encodes factors, and fills in `u_bytes`, `sparse` and `pairs` of the header. `factors` have
// header.rows rows.
VectorContent encode(FactorsHeader&, const FactorLayer&, const Factors&, bool sparse_v, Coder&);
VectorContent encode(const FactorsHeader&, std::span<const float> rest, std::uint64_t length,
                     Coder&);

// Decodes content that check_size accepts; empty for a phantom. Returns Malformed for content that
// no sender wrote.
Result<Factors> decode(const FactorsHeader&, const FactorLayer&, const VectorContent&,
                       const Coder&);
Result<std::vector<float>> decode(const FactorsHeader&, std::uint64_t length, const VectorContent&,
                                  const Coder&);

}  // namespace longhaul::sync::sfb
