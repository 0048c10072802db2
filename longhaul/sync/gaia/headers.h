#pragma once
// Headers of the streams of sync/gaia.h. `slot` is the receiver's (sync/gaia/routes.h).
#include "longhaul/core/message.h"
#include "longhaul/core/sample_count.h"
#include "longhaul/core/types.h"
#include "longhaul/sync/gaia/encoding.h"

namespace longhaul::sync::gaia {

// Header of the stream of updates. All updates of a clock precede its `clock`.
struct UpdateHeader {
  LONGHAUL_MESSAGE(0, "header");  // part of another message
  enum class Kind : std::uint8_t {
    update,  // update of one range of the layout
    clock    // no vector: all updates of the clock have been sent
  };
  Kind kind = Kind::clock;
  Round clock = 0;  // from 1
  std::uint32_t slot = 0;
  std::uint32_t range = 0;  // number of a layer of the layout
  Form form = Form::dense;
  bool exact = false;         // values as fp32: sums and resent updates
  std::uint64_t count = 0;    // number of values
  std::uint64_t samples = 0;  // samples used in this clock, by all whose sum it is
  LONGHAUL_FIELDS((kind, .max = 1), (clock, .min = 1, .max = 0x1p50), slot, range, (form, .max = 2),
                  exact, (count, .max = 0x1p32), (samples, .max = kMostSamples))
};

// Header of the stream that announces late updates (sync/gaia/blocked.h). The body has the indexes
// of one update. Announcements and updates are not ordered.
struct BarrierHeader {
  LONGHAUL_MESSAGE(2, "barrier_header");
  Round clock = 0;
  std::uint32_t slot = 0;
  std::uint32_t range = 0;
  Form form = Form::dense;  // form of the indexes; dense: every index, without a body
  std::uint64_t count = 0;
  LONGHAUL_FIELDS((clock, .min = 1, .max = 0x1p50), slot, range, (form, .max = 2),
                  (count, .max = 0x1p32))
};

// To all other sites, before the round in which the sender enters a view: the clock of its base.
struct BaseClock {
  LONGHAUL_MESSAGE(3, "base_clock");
  Epoch epoch = 0;
  Round clock = 0;
  LONGHAUL_FIELDS(epoch, (clock, .max = 0x1p50))
};

// Header of the stream of bases, from the site with the newest to those with another.
struct BaseHeader {
  LONGHAUL_MESSAGE(1, "base_header");
  Round clock = 0;
  std::uint64_t samples = 0;  // samples used for the base, by all sites
  LONGHAUL_FIELDS((clock, .max = 0x1p50), (samples, .max = kMostSamples))
};

}  // namespace longhaul::sync::gaia
