#pragma once
// The tables of a job file that the fair-share model of links knows beside [wan] and [[wan.link]].
#include "longhaul/flow/trace.h"
#include "longhaul/run/job/tables.h"

namespace longhaul::run {

struct SharedTable {  // [[wan.shared]]: a backbone that several pairs of sites cross
  std::string name;
  std::optional<double> mbps;
  std::vector<std::string> from, to;
  bool both = false;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit(Field{.name = "name", .doc = "letters, digits, - and _; unique", .max = 64}, self.name);
    visit(Field{.name = "mbps",
                .doc = "rate that all pairs share; required",
                .max = kLargestRate,
                .unit = "Mbit/s",
                .positive = true},
          self.mbps);
    visit(Field{.name = "from", .doc = "sites; every pair of one of them ...", .max = 64},
          self.from);
    visit(Field{.name = "to", .doc = "... and one of these crosses the link", .max = 64}, self.to);
    visit(Field{.name = "both", .doc = "the other direction crosses it too"}, self.both);
  }
};

// [[wan.trace]]: a quantity that changes with time. Values in Mbit/s, ms or shares, as in the
// table where the quantity itself stands.
struct TraceTable {
  std::string what = "rate";
  std::string site, from, to, shared;
  std::string kind = "steps";
  std::string file;  // "" once it is read: see trace_file.h
  std::vector<double> at_s, values;
  double repeat_s = 0;
  double low = 0, high = 0;
  double every_s = 60;
  double low_s = 60, high_s = 60;
  double period_s = 86400, peak_s = 0;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit(Field{.name = "what",
                .doc = "a site's uplink or downlink (Mbit/s); a pair's rate (Mbit/s), delay (ms) or"
                       " loss; the rate of a shared link (Mbit/s)",
                .choices = {"up", "down", "rate", "delay", "loss", "shared"}},
          self.what);
    visit(Field{.name = "site",
                .doc = "up, down: of this site (empty: of every site, each by itself)",
                .max = 64},
          self.site);
    visit(Field{.name = "from",
                .doc = "rate, delay, loss: of pairs from this site (empty: from every site)",
                .max = 64},
          self.from);
    visit(Field{.name = "to", .doc = "... to this site (empty: to every site)", .max = 64},
          self.to);
    visit(Field{.name = "shared", .doc = "shared: the name of the link", .max = 64}, self.shared);
    visit(Field{.name = "kind",
                .doc = "values at given times; uniform between low and high, drawn again every "
                       "every_s; two states of random length; a cosine over a day",
                .choices = {"steps", "redraw", "markov", "day"}},
          self.kind);
    steps(self, visit);
    visit(Field{.name = "low",
                .doc = "least value, or that of the lower state",
                .min = 0,
                .max = kLargestRate},
          self.low);
    visit(Field{.name = "high",
                .doc = "largest value, or that of the upper state",
                .min = 0,
                .max = kLargestRate},
          self.high);
    seconds(visit, "every_s", "redraw: between two draws; day: between two steps", self.every_s);
    seconds(visit, "low_s", "markov: mean time in the lower state", self.low_s);
    seconds(visit, "high_s", "markov: mean time in the upper state, which is the first",
            self.high_s);
    seconds(visit, "period_s", "day: its length", self.period_s);
    visit(
        Field{
            .name = "peak_s", .doc = "day: when it is highest", .min = 0, .max = 1e9, .unit = "s"},
        self.peak_s);
  }

 private:
  template <class Self, class Visit>
  static void steps(Self& self, Visit&& visit) {
    visit(Field{.name = "file",
                .doc = "steps: a CSV file of both, seconds,value (docs/wan.md), relative to the "
                       "job file; at_s and values are put in its place",
                .max = 4096,
                .local = true},
          self.file);
    visit(Field{.name = "at_s",
                .doc = "steps: when each of the values begins; the first is 0",
                .min = 0,
                .max = 1e9,
                .unit = "s"},
          self.at_s);
    visit(Field{.name = "values",
                .doc = "steps: one for each of at_s; 0: nothing passes",
                .min = 0,
                .max = kLargestRate},
          self.values);
    visit(Field{.name = "repeat_s",
                .doc = "steps: begin anew so often; 0: the last value stays",
                .min = 0,
                .max = 1e9,
                .unit = "s"},
          self.repeat_s);
  }
  template <class Visit>
  static void seconds(Visit& visit, std::string_view name, std::string_view doc, auto& member) {
    visit(Field{.name = name, .doc = doc, .max = 1e9, .unit = "s", .positive = true}, member);
  }
};

// In bytes per second, seconds and shares; rates times `rate_scale`.
flow::Trace trace_of(const TraceTable&, double rate_scale);

}  // namespace longhaul::run
