// Svg: the few shapes from which the report's figures are drawn, as one string.
//
// Colours come from classes and CSS variables of the page (page_style.cc), never from here, so that
// light, dark and print share one drawing. Texts are escaped.
// Thread-safety: none.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace berth::sim {

std::string html_escaped(std::string_view text);

// Maps a range of values to a range of pixels.
struct Scale {
  double from = 0;
  double to = 1;
  double pixel_from = 0;
  double pixel_to = 1;

  double operator()(double value) const {
    return pixel_from + (value - from) / (to - from) * (pixel_to - pixel_from);
  }
};

struct Point {
  double x = 0;
  double y = 0;
};

struct Rect {
  double x = 0;
  double y = 0;
  double width = 0;
  double height = 0;
};

enum class Anchor : std::uint8_t { start, middle, end };

class Svg {
 public:
  struct Frame {
    double width = 0;
    double height = 0;
    std::string_view title;            // what the figure shows, for those who cannot see it
    std::string_view attributes = {};  // further attributes of the element, as written
  };

  explicit Svg(const Frame& frame);

  void line(Point from, Point to, std::string_view css);
  void polyline(const std::vector<Point>& points, std::string_view css);
  // The area between two lines of the same length.
  void band(const std::vector<Point>& upper, const std::vector<Point>& lower, std::string_view css);
  void rect(const Rect& rect, std::string_view css, std::string_view tooltip = {});
  void path(std::string_view commands, std::string_view css);
  void text(Point at, std::string_view text, std::string_view css, Anchor anchor = Anchor::start);

  std::string finish();

 private:
  std::string out_;
};

// Round steps for an axis: about `count` of them between `from` and `to`.
std::vector<double> axis_ticks(double from, double to, int count);
std::string tick_label(double value, double step);

}  // namespace berth::sim
