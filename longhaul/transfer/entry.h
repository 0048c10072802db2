#pragma once
// What the entry() of a transfer is completed with: how one is made from the settings of
// [transfer], and how those are documented.
//
// A transfer is a class `Part` with `struct Config` (fields()), a constructor from (Config, Place),
// and if it needs it
//   static Status check(const Config&);  // what no range of a key says
#include "longhaul/core/registry.h"

namespace longhaul::transfer {

template <class Part>
Result<std::unique_ptr<Transfer>> make_transfer(const Settings& settings, const Place& place) {
  typename Part::Config config;
  LH_TRY(read_settings(settings, config));
  if constexpr (requires { Part::check(config); }) LH_TRY(Part::check(config));
  return std::unique_ptr<Transfer>(std::make_unique<Part>(config, place));
}

template <class Part>
TransferEntry transfer_entry(TransferEntry said) {
  said.make = make_transfer<Part>;
  said.describe = [] { return describe(typename Part::Config{}); };
  return said;
}

}  // namespace longhaul::transfer
