#pragma once
// Networks that come with the program, each from a file of presets/ that is compiled in: measured,
// synthetic, or made up to show one thing. docs/wan.md has them with sources and caveats.
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "longhaul/base/result.h"
#include "longhaul/flow/wan.h"

namespace longhaul::run {

// One connection carries at most min(max, window / round trip): the window model.
struct Window {
  double mbytes = 10.5;
  double max_mbps = 1140;
};

struct WanPreset {
  std::string name, summary;
  std::string standing;  // "measured", "synthetic", "made"
  std::vector<std::string> sources, caveats;
  flow::Wan wan;  // rates at their highest; without what the window model adds
  enum class Windowed { no, pair, connection };
  Windowed windowed = Windowed::no;  // what the window model limits
  bool any_sites = false;            // takes sites of any name; `wan` has those it takes by default
  struct Redraw {                    // every pair's rate, on its own
    double every_s = 0, lowest_mbps = 0, highest_mbps = 0;
  };
  std::optional<Redraw> redraw;
};

// Measured ones first, then synthetic ones, then those made up; by name.
const std::vector<WanPreset>& wan_presets();
const WanPreset* find_wan_preset(std::string_view name);
std::vector<std::string_view> wan_preset_names();

struct TextFile {
  std::string_view name, text;
};
std::span<const TextFile> preset_files();  // written by cmake/LonghaulEmbed.cmake

// Reads one preset; its matrices are among `files`. What is wrong with it is an Error.
Result<WanPreset> parse_wan_preset(const TextFile&, std::span<const TextFile> files);

}  // namespace longhaul::run
