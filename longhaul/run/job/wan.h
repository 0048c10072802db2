#pragma once
// The network that a job file describes: [wan] with its preset or matrices, [[wan.link]] and the
// sites' own links, combined as a flow::Wan. Precedence for one pair, strongest first:
// [[wan.link]], the window model, the preset or matrices, [wan] mbps and delay_ms. For a site:
// [[site]], [wan] up_mbps and down_mbps, the preset. rate_scale multiplies the rates between sites,
// not those of the sites' own links.
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "longhaul/base/result.h"
#include "longhaul/flow/wan.h"
#include "longhaul/run/job/job.h"
#include "longhaul/run/job/site_index.h"

namespace longhaul::run {

// The window model: one connection carries at most min(max, window / round trip).
struct Window {
  double mbytes = 10.5;
  double max_mbps = 1140;
};

// A network that comes with the program, from a compiled-in file of presets/: measured, synthetic,
// or made up to show one effect. docs/wan.md lists them with sources and caveats.
struct WanPreset {
  std::string name, summary;
  std::string standing;  // "measured", "synthetic", "made"
  std::vector<std::string> sources, caveats;
  flow::Wan wan;  // rates at their highest, without the window model
  enum class Windowed { no, pair, connection };
  Windowed windowed = Windowed::no;  // limited by the window model
  bool any_sites = false;            // accepts sites of any name; `wan` has the default ones
  struct Redraw {                    // every pair's rate is redrawn on its own
    double every_s = 0, lowest_mbps = 0, highest_mbps = 0;
  };
  std::optional<Redraw> redraw;
};

// Returns measured ones first, then synthetic ones, then made-up ones; by name.
const std::vector<WanPreset>& wan_presets();
const WanPreset* find_wan_preset(std::string_view name);
std::vector<std::string_view> wan_preset_names();

struct TextFile {
  std::string_view name, text;
};
std::span<const TextFile> preset_files();  // written by cmake/LonghaulEmbed.cmake

// Reads one preset; its matrices are among `files`. Returns an Error if it is malformed.
Result<WanPreset> parse_wan_preset(const TextFile&, std::span<const TextFile> files);

// Returns the trace in bytes per second, seconds and shares; rates times `rate_scale`.
flow::Trace trace_of(const TraceTable&, double rate_scale);

// Adds the shared links; like add_traces(), with the index of the job's sites.
void add_shared(flow::Wan&, const Job&, const SiteIndex&);
// Adds the traces. The first table of a quantity has precedence, and the preset's are last.
// `preset`: null if there is none. Returns an Error if earlier tables cover all quantities of a
// table, but not for the preset. A rate of [[wan.link]] has precedence over the preset's.
Status add_traces(flow::Wan&, const Document&, const Job&, const SiteIndex&,
                  const WanPreset* preset);

// Adds all sites of its preset or matrices to a job without [[site]] tables.
Status add_sites(Document&);

// Replaces the file's network by the value of --wan: this preset, or the [wan] of this file if it
// ends in .toml. Keys of the command line, which are applied later, still count.
Status replace_wan(Document&, const std::string& network);

// Returns the job's network, with sites in the job's order; the tables must agree (check_job). Sets
// [wan] matrices, so that a job only continues with the matrices that it began with.
Result<flow::Wan> build_wan(const Document&, Job&);

// Returns the network of a job that only sets the preset.
flow::Wan preset_network(const WanPreset&);

// Returns min(max, window / round trip) in bytes per second.
double window_rate(const Window&, double round_trip_s);

}  // namespace longhaul::run
