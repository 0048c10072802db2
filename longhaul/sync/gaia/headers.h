#pragma once
// The headers of the two streams of sync/gaia.h. `slot` is the receiver's (sync/gaia/routes.h).
#include "longhaul/core/message.h"
#include "longhaul/core/types.h"
#include "longhaul/sync/gaia/encoding.h"

namespace longhaul::sync::gaia {

// Of the stream of updates. All updates of a clock come before its `clock`.
struct UpdateHeader {
  LONGHAUL_MESSAGE(0, "header");  // not a message by itself: it is in one
  enum class Kind : std::uint8_t {
    update,  // of one range of the layout
    clock    // without a vector: all of the clock has been sent
  };
  Kind kind = Kind::clock;
  Epoch epoch = 0;  // of the view whose routes it takes
  Round clock = 0;  // from 1
  std::uint32_t slot = 0;
  std::uint32_t range = 0;  // a layer of the layout, by number
  Form form = Form::dense;
  bool exact = false;         // values as fp32: sums, and what is sent again
  std::uint64_t count = 0;    // of values
  std::uint64_t samples = 0;  // used in this clock
  LONGHAUL_FIELDS((kind, .max = 1), epoch, (clock, .min = 1, .max = 0x1p50), slot, range,
                  (form, .max = 2), exact, (count, .max = 0x1p32), (samples, .max = 0x1p40))
};

// Of the stream that announces updates which are late (sync/gaia/blocked.h): the indexes of one of
// them, in no order with the updates themselves.
struct BarrierHeader {
  LONGHAUL_MESSAGE(2, "barrier_header");
  Epoch epoch = 0;
  Round clock = 0;
  std::uint32_t slot = 0;
  std::uint32_t range = 0;
  Form form = Form::dense;  // of the indexes; dense: all, without a body
  std::uint64_t count = 0;
  LONGHAUL_FIELDS(epoch, (clock, .min = 1, .max = 0x1p50), slot, range, (form, .max = 2),
                  (count, .max = 0x1p32))
};

// Of the stream that brings all to one base after a loss or a return (sync/gaia/cut.h).
inline constexpr std::uint32_t kMostVerdictBytes = 48 * 1024;
struct CutHeader {
  LONGHAUL_MESSAGE(1, "cut_header");
  enum class Kind : std::uint8_t {
    report,  // without a vector: what the sender has
    base     // the donor's base; of one whose run is over its model
  };
  enum class Standing : std::uint8_t {
    outside,  // has come back, and has no base yet
    running,
    flushed,  // the base is that of the end
    ended     // the run is over, and the model that it ended with is here
  };
  Kind kind = Kind::report;
  Epoch epoch = 0;
  Round clock = 0;
  std::uint64_t samples = 0;  // used for the base, by all sites
  Standing standing = Standing::running;
  // A report of the senior worker where some have come back: what its stop rule hands over.
  std::vector<std::uint8_t> verdicts = {};
  LONGHAUL_FIELDS((kind, .max = 1), epoch, (clock, .max = 0x1p50), (samples, .max = 0x1p50),
                  (standing, .max = 3), (verdicts, .max = kMostVerdictBytes))
};

}  // namespace longhaul::sync::gaia
