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
    visit(Field{.name = "kind", .max = 1}, self.kind);
    visit(Field{.name = "epoch"}, self.epoch);
    visit(Field{.name = "clock", .min = 1, .max = 0x1p50}, self.clock);
    visit(Field{.name = "slot"}, self.slot);
    visit(Field{.name = "range"}, self.range);
    visit(Field{.name = "form", .max = 2}, self.form);
    visit(Field{.name = "exact"}, self.exact);
    visit(Field{.name = "count", .max = 0x1p32}, self.count);
    visit(Field{.name = "samples", .max = 0x1p40}, self.samples);
  }
};

// Of the stream that brings all to one base after a loss (sync/gaia/cut.h).
struct CutHeader {
  static constexpr std::uint16_t kKind = 1;
  static constexpr std::string_view kName = "cut_header";
  enum class Kind : std::uint8_t {
    report,  // without a vector: the clock of the sender's base
    base     // the donor's base
  };
  Kind kind = Kind::report;
  Epoch epoch = 0;
  Round clock = 0;
  std::uint64_t samples = 0;  // used for the base, by all sites
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit(Field{.name = "kind", .max = 1}, self.kind);
    visit(Field{.name = "epoch"}, self.epoch);
    visit(Field{.name = "clock", .max = 0x1p50}, self.clock);
    visit(Field{.name = "samples", .max = 0x1p50}, self.samples);
  }
};

}  // namespace longhaul::sync::gaia
