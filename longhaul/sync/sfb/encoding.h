#pragma once
// How factors, and the rest of a gradient, are written. u and v are each written by the job's
// codec; with an exact codec a v of which less than half is not 0 as pairs instead. What is written
// is what the sender uses, too, so that a codec with loss leaves all models equal.
#include "longhaul/core/coder.h"
#include "longhaul/core/vector_content.h"
#include "longhaul/sync/sfb/factors.h"
#include "longhaul/sync/sfb/headers.h"
#include "longhaul/sync/sfb/parts.h"

namespace longhaul::sync::sfb {

// Is a value four bytes, and none is changed?
bool is_exact(const Coder&);

// Can content of that many bytes be what the header names, of a layer or (of part `layers`) of the
// rest? Malformed: no such part, or a peer says what cannot be.
Status check_size(const FactorsHeader&, std::uint64_t bytes, const Parts&, std::uint32_t most_rows,
                  const Coder&);

// `u_bytes`, `sparse`, `pairs` of the header are filled in. `factors` have header.rows rows.
VectorContent encode(FactorsHeader&, const FactorLayer&, const Factors&, bool sparse_v, Coder&);
VectorContent encode(const FactorsHeader&, std::span<const float> rest, std::uint64_t length,
                     Coder&);

// Content of a size that fits; a phantom's is empty. Malformed: what no sender
// wrote.
Result<Factors> decode(const FactorsHeader&, const FactorLayer&, const VectorContent&,
                       const Coder&);
Result<std::vector<float>> decode(const FactorsHeader&, std::uint64_t length, const VectorContent&,
                                  const Coder&);

}  // namespace longhaul::sync::sfb
