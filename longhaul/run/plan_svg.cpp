#include "longhaul/run/plan_svg.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <optional>

#include <fmt/format.h>

#include "longhaul/base/xml_text.h"
#include "longhaul/run/progress.h"

namespace longhaul::run {
namespace {

constexpr std::size_t kMostUpright = 16;  // sites; names of more stand along the radius
constexpr std::size_t kMaxLabels = 40;    // more hide what they are about
constexpr double kSide = 230;             // between the circle and the edge: names
constexpr double kThin = 1;
constexpr const char* kColours[] = {"#9ebcda", "#6a9fce", "#3b7fbd", "#7b3294", "#c51b3a"};

struct Point {
  double x = 0, y = 0;
  Point operator+(Point b) const { return {x + b.x, y + b.y}; }
  Point operator-(Point b) const { return {x - b.x, y - b.y}; }
  Point operator*(double by) const { return {x * by, y * by}; }
};
double length(Point p) { return std::hypot(p.x, p.y); }
Point unit(Point p) { return p * (1 / std::max(length(p), 1e-9)); }
Point turned(Point p) { return {-p.y, p.x}; }  // to the right, as y grows downwards

struct Box {  // of text
  Point centre;
  double width = 0, height = 0;
  bool meets(const Box& b) const {
    return std::abs(centre.x - b.centre.x) * 2 < width + b.width &&
           std::abs(centre.y - b.centre.y) * 2 < height + b.height;
  }
};

struct Curve {  // a quadratic Bezier
  Point from, bend, to;
  Point at(double t) const {
    return from * ((1 - t) * (1 - t)) + bend * (2 * t * (1 - t)) + to * (t * t);
  }
};

std::string size(std::uint64_t bytes) { return bytes_text(double(bytes)); }

// Returns the part of the name that fits next to a site.
std::string shortened(const std::string& name) {
  constexpr std::size_t kMost = 22;
  if (name.size() <= kMost) return name;
  std::size_t cut = kMost - 2;
  while (cut > 0 && (std::uint8_t(name[cut]) & 0xc0) == 0x80) --cut;  // not within a character
  return name.substr(0, cut) + "..";
}

const char* colour(std::optional<double> share) {
  const double used = share.value_or(0);
  constexpr std::size_t kCount = std::size(kColours);
  return kColours[std::min(kCount - 1, std::size_t(used * double(kCount)))];
}

class Map {
 public:
  explicit Map(const SitePlan& plan)
      : plan_(plan),
        upright_(plan.sites.size() <= kMostUpright),
        node_(upright_ ? 16 : 9),
        top_(upright_ ? 150 : 290),
        below_(upright_ ? 155 : 300),
        radius_(radius_of(plan.sites.size())),
        thick_(std::clamp(22 / std::sqrt(double(plan.pairs.size()) + 1), 2., 8.)) {
    for (const SitePlan::Pair& pair : plan.pairs) most_ = std::max(most_, pair.bytes());
  }

  std::string draw() && {
    text_ = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
        "viewBox=\"0 0 {0:.0f} {1:.0f}\" font-family=\"sans-serif\">\n"
        "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n",
        width(), height());
    head();
    for (std::uint32_t site = 0; site < plan_.sites.size(); ++site) reserve(site);
    const std::size_t arrows = std::min(plan_.pairs.size(), kMaxArrows);
    for (std::size_t i = arrows; i-- > 0;) arrow(plan_.pairs[i]);  // the most used on top
    for (std::uint32_t site = 0; site < plan_.sites.size(); ++site) draw_site(site);
    for (std::size_t i = 0; i < arrows; ++i) label(plan_.pairs[i]);
    legend();
    return std::move(text_) + "</svg>\n";
  }

 private:
  static constexpr double kPi = std::numbers::pi;
  double width() const { return 2 * (radius_ + kSide); }
  double height() const { return top_ + 2 * radius_ + below_; }
  double angle(std::uint32_t site) const {  // clockwise from the top
    return 2 * kPi * site / double(plan_.sites.size()) - kPi / 2;
  }
  Point on_circle(std::uint32_t site, double radius) const {
    return Point{width() / 2, top_ + radius_} +
           Point{std::cos(angle(site)), std::sin(angle(site))} * radius;
  }
  // Sites keep their distance, so that there is room for arrows between neighbours.
  static double radius_of(std::size_t sites) {
    const double n = double(sites);
    return sites <= kMostUpright ? std::max(290., 210 + 14 * n)
                                 : std::max(430., n * 34 / (2 * kPi));
  }

  void write(Point at, double size, const std::string& style, std::string_view words) {
    text_ += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" font-size=\"{:g}\" {}>{}</text>\n", at.x,
                         at.y, size, style, xml_text(words));
  }

  void head() {
    const char* kCentred = "text-anchor=\"middle\"";
    const std::uint64_t all =
        std::accumulate(plan_.sites.begin(), plan_.sites.end(), std::uint64_t{0},
                        [](std::uint64_t sum, const auto& site) { return sum + site.out; });
    if (plan_.measured)
      write({width() / 2, 34}, 20, kCentred,
            fmt::format("{}: {} sent between {} sites", plan_.name, size(all), plan_.sites.size()));
    else
      write({width() / 2, 34}, 20, kCentred,
            fmt::format("{}: a round of {:g} MB over {}, {} sites", plan_.name, plan_.mbytes,
                        plan_.overlay, plan_.sites.size()));
    write({width() / 2, 58}, 14, kCentred, busiest_text(plan_));
    if (plan_.pairs.size() > kMaxArrows)
      write({width() / 2, 78}, 14, kCentred,
            fmt::format("The {} most used ways of {}", kMaxArrows, plan_.pairs.size()));
  }

  Curve curve(const SitePlan::Pair& pair) const {
    const Point from = on_circle(pair.from, radius_), to = on_circle(pair.to, radius_);
    return {from, (from + to) * 0.5 + turned(to - from) * 0.14, to};
  }
  double stroke(const SitePlan::Pair& pair) const {
    const double share = double(pair.bytes()) / double(most_);
    return kThin + (thick_ - kThin) * share;
  }

  void arrow(const SitePlan::Pair& pair) {
    const Curve way = curve(pair);
    const double w = stroke(pair), head = 5 + 1.6 * w, half = 2.5 + 0.9 * w;
    const Point ahead = unit(way.to - way.bend), side = turned(ahead) * half;
    const Point start = way.from + unit(way.bend - way.from) * node_;
    const Point tip = way.to - ahead * node_, base = tip - ahead * head;
    const Point left = base - side, right = base + side;
    text_ += fmt::format(
        "<g><title>{}</title><path d=\"M{:.1f} {:.1f}Q{:.1f} {:.1f} {:.1f} {:.1f}\" fill=\"none\" "
        "stroke=\"{}\" stroke-width=\"{:.1f}\"/>"
        "<path d=\"M{:.1f} {:.1f}L{:.1f} {:.1f}L{:.1f} {:.1f}Z\" fill=\"{}\"/></g>\n",
        xml_text(words(pair)), start.x, start.y, way.bend.x, way.bend.y, base.x, base.y,
        colour(pair.used), w, tip.x, tip.y, left.x, left.y, right.x, right.y, colour(pair.used));
  }
  std::string words(const SitePlan::Pair& pair) const {
    std::string text = fmt::format("{} to {}: {}", plan_.sites[pair.from].name,
                                   plan_.sites[pair.to].name, size(pair.bytes()));
    if (!plan_.measured)
      text +=
          fmt::format(" (reduce {}, spread {})", size(pair.load.reduce), size(pair.load.spread));
    return pair.used ? text + ", " + percent_text(pair.used) : text;
  }

  // The two lines of a site's name, centred; upright names only.
  Box name_box(std::uint32_t site) const {
    const double wide = std::max(8.6 * double(shortened(plan_.sites[site].name).size()), 140.);
    const Point out{std::cos(angle(site)), std::sin(angle(site))};
    const Point near = on_circle(site, radius_ + node_ + 12);
    return {near + Point{out.x * wide / 2, out.y * 24}, wide, 36};
  }
  void reserve(std::uint32_t site) {
    taken_.push_back({on_circle(site, radius_), 2 * node_, 2 * node_});
    if (upright_) taken_.push_back(name_box(site));
  }

  void draw_site(std::uint32_t number) {
    const SitePlan::Site& site = plan_.sites[number];
    const Point at = on_circle(number, radius_);
    const std::string links =
        fmt::format("up {}, down {}", percent_text(site.up_used), percent_text(site.down_used));
    text_ += fmt::format(
        "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{:g}\" fill=\"#fff7e0\" stroke=\"#333333\" "
        "stroke-width=\"1.5\"><title>{}</title></circle>\n",
        at.x, at.y, node_,
        xml_text(fmt::format("{}: sends {}, gets {}; {}", site.name, size(site.out), size(site.in),
                             links)));
    if (upright_) {
      const Point centre = name_box(number).centre;
      write(centre + Point{0, -3}, 15, "text-anchor=\"middle\" font-weight=\"bold\"",
            shortened(site.name));
      return write(centre + Point{0, 14}, 12, "text-anchor=\"middle\" fill=\"#555555\"", links);
    }
    const Point near = on_circle(number, radius_ + node_ + 6);
    const bool left = std::cos(angle(number)) < 0;  // read from the left in either half
    const double degrees = angle(number) * 180 / kPi + (left ? 180 : 0);
    write(near, 13,
          fmt::format("text-anchor=\"{}\" dominant-baseline=\"middle\" "
                      "transform=\"rotate({:.1f} {:.1f} {:.1f})\"",
                      left ? "end" : "start", degrees, near.x, near.y),
          shortened(site.name));
  }

  // Where it meets nothing else, along the arrow; if that is nowhere, the arrow's title has it.
  void label(const SitePlan::Pair& pair) {
    if (labels_ == kMaxLabels || !pair.used) return;
    const std::string share = percent_text(pair.used);
    const Curve way = curve(pair);
    for (const double t : {0.5, 0.42, 0.58, 0.35, 0.65, 0.28, 0.72, 0.22, 0.78}) {
      const Box box{way.at(t), 8. * double(share.size()), 15};
      if (std::any_of(taken_.begin(), taken_.end(), [&](const Box& b) { return b.meets(box); }))
        continue;
      taken_.push_back(box);
      ++labels_;
      return write(box.centre + Point{0, 4.5}, 12.5,
                   "text-anchor=\"middle\" stroke=\"#ffffff\" stroke-width=\"4\" "
                   "stroke-linejoin=\"round\" paint-order=\"stroke\"",
                   share);
    }
  }

  void legend() {
    constexpr double kStep = 112;
    const double y = height() - 62, x = width() / 2 - kStep * double(std::size(kColours)) / 2;
    for (std::size_t i = 0; i < std::size(kColours); ++i) {
      const double left = x + kStep * double(i);
      text_ +=
          fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"18\" height=\"10\" fill=\"{}\"/>\n",
                      left, y - 10, kColours[i]);
      write({left + 23, y}, 12, "", fmt::format("{} to {} %", 20 * i, 20 * (i + 1)));
    }
    write({width() / 2, y + 24}, 12, "text-anchor=\"middle\" fill=\"#555555\"",
          fmt::format("Width: bytes, the widest {}. Label and colour: share of what the way can "
                      "carry while the busiest link is busy",
                      size(most_)));
    if (labels_ < std::min(plan_.pairs.size(), kMaxArrows))
      write({width() / 2, y + 44}, 12, "text-anchor=\"middle\" fill=\"#555555\"",
            "What has no label says its share when it is pointed at");
  }

  const SitePlan& plan_;
  const bool upright_;      // names
  const double node_;       // radius of a site
  const double top_;        // height above the circle: title, names
  const double below_;      // height below it: names, legend
  const double radius_;     // radius of the circle
  const double thick_;      // width of the widest arrow
  std::uint64_t most_ = 0;  // bytes of a pair
  std::size_t labels_ = 0;
  std::vector<Box> taken_;
  std::string text_;
};

}  // namespace

std::string plan_svg(const SitePlan& plan) { return Map(plan).draw(); }

}  // namespace longhaul::run
