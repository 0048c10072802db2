#pragma once
// The headers of the two streams of sync/gaia.h. `slot` is the receiver's (sync/gaia/routes.h).
#include "longhaul/core/types.h"
#include "longhaul/sync/gaia/encoding.h"

namespace longhaul::sync::gaia {

// Of the stream of updates. All updates of a clock come before its `clock`.
struct UpdateHeader {
  static constexpr std::uint16_t kKind = 0;  // not a message by itself: it is in one
  static constexpr std::string_view kName = "header";
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
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    LONGHAUL_FIELD(kind, .max = 1);
    LONGHAUL_FIELD(epoch);
    LONGHAUL_FIELD(clock, .min = 1, .max = 0x1p50);
    LONGHAUL_FIELD(slot);
    LONGHAUL_FIELD(range);
    LONGHAUL_FIELD(form, .max = 2);
    LONGHAUL_FIELD(exact);
    LONGHAUL_FIELD(count, .max = 0x1p32);
    LONGHAUL_FIELD(samples, .max = 0x1p40);
  }
};

// Of the stream that announces updates which are late (sync/gaia/blocked.h): the indexes of one of
// them, in no order with the updates themselves.
struct BarrierHeader {
  static constexpr std::uint16_t kKind = 2;
  static constexpr std::string_view kName = "barrier_header";
  Epoch epoch = 0;
  Round clock = 0;
  std::uint32_t slot = 0;
  std::uint32_t range = 0;
  Form form = Form::dense;  // of the indexes; dense: all, without a body
  std::uint64_t count = 0;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    LONGHAUL_FIELD(epoch);
    LONGHAUL_FIELD(clock, .min = 1, .max = 0x1p50);
    LONGHAUL_FIELD(slot);
    LONGHAUL_FIELD(range);
    LONGHAUL_FIELD(form, .max = 2);
    LONGHAUL_FIELD(count, .max = 0x1p32);
  }
};

// Of the stream that brings all to one base after a loss or a return (sync/gaia/cut.h).
inline constexpr std::uint32_t kMostVerdictBytes = 48 * 1024;
struct CutHeader {
  static constexpr std::uint16_t kKind = 1;
  static constexpr std::string_view kName = "cut_header";
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
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    LONGHAUL_FIELD(kind, .max = 1);
    LONGHAUL_FIELD(epoch);
    LONGHAUL_FIELD(clock, .max = 0x1p50);
    LONGHAUL_FIELD(samples, .max = 0x1p50);
    LONGHAUL_FIELD(standing, .max = 3);
    LONGHAUL_FIELD(verdicts, .max = kMostVerdictBytes);
  }
};

}  // namespace longhaul::sync::gaia
