#include "longhaul/report/picture.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "longhaul/base/xml_text.h"
#include "longhaul/report/page.h"
#include "longhaul/report/verdict.h"

namespace longhaul::report {
namespace {

using nlohmann::ordered_json;

// As in web/page.js.
constexpr const char* kLineColours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                        "#e69f00", "#56b4e9", "#8a6d00", "#7f7f7f"};
constexpr const char* kDashes[] = {"", "8 4", "2 3", "10 3 2 3"};

constexpr double kWidth = 1280, kTop = 64, kPanelHeight = 420, kMargin = 76, kGap = 90;
constexpr double kLetter = 8.2;  // mean width of a letter of the legend

struct Curve {
  std::size_t group = 0;                               // number of its group, for the colour
  std::vector<std::pair<double, double>> points = {};  // by x
};

struct Axis {
  double from = 0, to = 1, step = 1;
  std::string unit = {};
  double size = 1;  // of a unit

  int digits() const {
    for (int d = 0; d < 12; ++d) {
      const double scaled = step / size * std::pow(10, d);
      if (scaled > 0.5 && std::abs(scaled - std::round(scaled)) < 1e-6) return d;
    }
    return 12;
  }
  std::string label(double value) const { return fmt::format("{:.{}f}", value / size, digits()); }
  // Multiples of the step.
  std::vector<double> marks() const {
    std::vector<double> all;
    for (double i = std::ceil(from / step - 1e-9) + 0.0; i * step <= to + 1e-9 * step; ++i)
      all.push_back(i * step);
    return all;
  }
};

// Returns the least step of 1, 2, 2.5 or 5 times a power of ten, of which at most `most` fit.
double nice_step(double span, int most) {
  const double power = std::pow(10, std::floor(std::log10(span / most)));
  for (const double m : {1., 2., 2.5, 5., 10.})
    if (span / (m * power) <= most * (1 + 1e-9)) return m * power;
  return 10 * power;
}

// Starts at 0; in minutes or hours if there are many.
Axis time_axis(double to) {
  Axis axis{.to = to > 0 ? to : 1, .unit = "s"};
  if (axis.to > 7200)
    axis.unit = "h", axis.size = 3600;
  else if (axis.to > 300)
    axis.unit = "min", axis.size = 60;
  axis.step = nice_step(axis.to / axis.size, 8) * axis.size;
  return axis;
}

Axis bytes_axis(double to) {
  Axis axis{.to = to, .unit = "B"};
  for (const char* unit : {"kB", "MB", "GB", "TB"})
    if (to >= 1000 * axis.size) axis.size *= 1000, axis.unit = unit;
  axis.step = nice_step(axis.to, 6);
  return axis;
}

// Returns the axis of the score, with room at both ends; for an accuracy only a little beyond 0 and
// 100 %.
Axis score_axis(double low, double high, bool accuracy) {
  const double span = std::max(high - low, accuracy ? 0.02 : std::max(0.02 * high, 1e-9));
  Axis axis{.from = low - 0.08 * span, .to = std::max(high, low + span) + 0.08 * span};
  if (accuracy) {
    axis.from = std::max(axis.from, low == 0 ? -0.02 * span : 0);
    axis.to = std::min(axis.to, 1 + 0.02 * span);
    if (high - low < span) axis.from = std::min(axis.from, std::max(0., axis.to - span));
    axis.size = 0.01;
  }
  axis.step = nice_step(axis.to - axis.from, 8);
  return axis;
}

class Picture {
 public:
  explicit Picture(const ordered_json& data)
      : runs_(data.at("runs").get<std::vector<ordered_json>>()) {
    const auto& first = runs_.at(0);
    accuracy_ = first.value("score_unit", "") == "accuracy";
    if (first.at("target").is_number()) target_ = first.at("target").get<double>();
    by_time_ = curves("time_s");
    by_bytes_ = curves("wan_bytes");
    mixed_ = has_both_clocks(runs_);
  }
  bool empty() const { return by_time_.empty(); }

  std::string draw() && {
    const bool bytes = end_of(by_bytes_) > 0;
    const double wide = bytes ? (kWidth - 2 * kMargin - kGap + 50) / 2 : kWidth - kMargin - 30;
    const std::string clock = runs_.at(0).value("clock", "");
    const std::string what = accuracy_ ? "Accuracy on the test set, %" : "Bits per byte";
    panel(kMargin, wide, what + ", over time", time_axis(end_of(by_time_)), by_time_,
          mixed_ || clock.empty() ? "" : clock + " time, ");
    if (bytes)
      panel(kMargin + wide + kGap, wide, "... and over bytes between sites",
            bytes_axis(end_of(by_bytes_)), by_bytes_, "");
    const double height = legend(kTop + kPanelHeight + 78);
    return fmt::format(
               "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
               "viewBox=\"0 0 {0:.0f} {1:.0f}\" font-family=\"sans-serif\" font-size=\"16\">\n"
               "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n",
               kWidth, height) +
           text_ + "</svg>\n";
  }

 private:
  std::vector<Curve> curves(const char* key) const {
    std::vector<Curve> all;
    for (std::size_t i = 0; i < runs_.size(); ++i) {
      const auto &xs = runs_[i].at("scores").at(key), &ys = runs_[i].at("scores").at("score");
      Curve curve{.group = runs_[i].at("group").get<std::size_t>()};
      for (std::size_t k = 0; k < xs.size() && k < ys.size(); ++k)
        if (xs[k].is_number() && ys[k].is_number() &&
            (curve.points.empty() || xs[k].get<double>() >= curve.points.back().first))
          curve.points.emplace_back(xs[k].get<double>(), ys[k].get<double>());
      if (!curve.points.empty()) all.push_back(std::move(curve));
    }
    return all;
  }
  static double end_of(const std::vector<Curve>& curves) {
    double end = 0;
    for (const Curve& curve : curves) end = std::max(end, curve.points.back().first);
    return end;
  }

  void write(double x, double y, const char* style, const std::string& words) {
    text_ +=
        fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" {}>{}</text>\n", x, y, style, xml_text(words));
  }
  void line(double x, double y, double to_x, double to_y, const char* style) {
    text_ += fmt::format("<path d=\"M{:.1f} {:.1f}L{:.1f} {:.1f}\" fill=\"none\" {}/>\n", x, y,
                         to_x, to_y, style);
  }
  static std::string style_of(std::size_t group) {
    const char* const dash = kDashes[group / std::size(kLineColours) % std::size(kDashes)];
    return fmt::format("stroke=\"{}\" stroke-width=\"2.5\"{}",
                       kLineColours[group % std::size(kLineColours)],
                       *dash ? fmt::format(" stroke-dasharray=\"{}\"", dash) : "");
  }

  Axis scores() const {
    double low = target_.value_or(1e300), high = target_.value_or(-1e300);
    for (const Curve& curve : by_time_)
      for (const auto& [x, score] : curve.points)
        low = std::min(low, score), high = std::max(high, score);
    return score_axis(low, high, accuracy_);
  }

  void panel(double left, double wide, const std::string& title, const Axis& over,
             const std::vector<Curve>& curves, const std::string& clock) {
    const Axis score = scores();
    const double bottom = kTop + kPanelHeight;
    const auto x = [&](double v) { return left + wide * (v - over.from) / (over.to - over.from); };
    const auto y = [&](double v) {
      return bottom - kPanelHeight * (v - score.from) / (score.to - score.from);
    };
    constexpr const char* kGrid = "stroke=\"#d8dee4\"";
    write(left, kTop - 24, "font-size=\"20\" font-weight=\"bold\" fill=\"#1b1f24\"", title);
    for (const double mark : score.marks()) {
      line(left, y(mark), left + wide, y(mark), kGrid);
      write(left - 8, y(mark) + 6, "text-anchor=\"end\" fill=\"#57606a\"", score.label(mark));
    }
    for (const double mark : over.marks()) {
      line(x(mark), kTop, x(mark), bottom, kGrid);
      write(x(mark), bottom + 22, "text-anchor=\"middle\" fill=\"#57606a\"", over.label(mark));
    }
    write(left + wide / 2, bottom + 46, "text-anchor=\"middle\" fill=\"#57606a\"",
          clock + over.unit);
    if (target_)
      line(left, y(*target_), left + wide, y(*target_),
           "stroke=\"#57606a\" stroke-dasharray=\"4 4\"");
    for (const Curve& curve : curves) draw(curve, x, y);
  }

  void draw(const Curve& curve, const auto& x, const auto& y) {
    std::string way;
    for (const auto& [at, score] : curve.points)
      way += fmt::format("{}{:.1f} {:.1f}", way.empty() ? "M" : "L", x(at), y(score));
    text_ += fmt::format("<path d=\"{}\" fill=\"none\" stroke-linejoin=\"round\" {}/>\n", way,
                         style_of(curve.group));
    if (curve.points.size() == 1)
      text_ += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\" fill=\"{}\"/>\n",
                           x(curve.points[0].first), y(curve.points[0].second),
                           kLineColours[curve.group % std::size(kLineColours)]);
  }

  // Names of combinations with the figures that matter; returns where it ends.
  double legend(double top) {
    std::vector<std::string> entries;
    std::size_t longest = 0;
    for (const SeedGroup& group : seed_groups(runs_)) {  // in the order of their numbers
      entries.push_back(group.label + ": " + figures_text(group));
      longest = std::max(longest, entries.back().size());
    }
    const auto fit = std::size_t((kWidth - 20) / (60 + kLetter * double(longest)));
    const std::size_t columns = std::clamp<std::size_t>(fit, 1, 4);
    const std::size_t rows = (entries.size() + columns - 1) / columns;
    for (std::size_t i = 0; i < entries.size(); ++i) {
      const double left = 20 + (kWidth - 20) / double(columns) * double(i % columns);
      const double y = top + 28 * double(i / columns);
      line(left, y, left + 34, y, style_of(i).c_str());
      write(left + 44, y + 6, "fill=\"#1b1f24\"", entries[i]);
    }
    return top + 28 * double(rows);
  }

  const std::vector<ordered_json> runs_;
  bool accuracy_ = true, mixed_ = false;
  std::optional<double> target_;
  std::vector<Curve> by_time_, by_bytes_;
  std::string text_;
};

}  // namespace

Result<std::string> picture_svg(const ordered_json& data) {
  Picture picture(data);
  if (picture.empty())
    return unavailable(
        "no model was scored in these runs, so that there is nothing to draw: [report] "
        "every_rounds says how often one is");
  return std::move(picture).draw();
}

}  // namespace longhaul::report
