#include "sim/report/svg.h"

#include <cmath>

#include <fmt/format.h>

namespace berth::sim {

namespace {

std::string pixels(double value) {
  std::string text = fmt::format("{:.1f}", value);
  if (text.ends_with(".0")) text.resize(text.size() - 2);
  return text == "-0" ? "0" : text;
}

std::string point_list(const std::vector<Point>& points) {
  std::string list;
  for (const Point& point : points) {
    list += list.empty() ? "M" : "L";
    list += pixels(point.x) + " " + pixels(point.y);
  }
  return list;
}

std::string_view anchor_name(Anchor anchor) {
  if (anchor == Anchor::middle) return "middle";
  return anchor == Anchor::end ? "end" : "start";
}

}  // namespace

std::string html_escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      case '\'': out += "&#39;"; break;
      default: out += c;
    }
  }
  return out;
}

Svg::Svg(const Frame& frame) {
  out_ = fmt::format("<svg role=\"img\" viewBox=\"0 0 {} {}\" {}><title>{}</title>\n",
                     pixels(frame.width), pixels(frame.height), frame.attributes,
                     html_escaped(frame.title));
}

void Svg::line(Point from, Point to, std::string_view css) {
  out_ += fmt::format("<line x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\" class=\"{}\"/>\n",
                      pixels(from.x), pixels(from.y), pixels(to.x), pixels(to.y), css);
}

void Svg::polyline(const std::vector<Point>& points, std::string_view css) {
  if (points.size() < 2) return;
  path(point_list(points), css);
}

void Svg::band(const std::vector<Point>& upper, const std::vector<Point>& lower,
               std::string_view css) {
  if (upper.size() < 2) return;
  std::vector<Point> outline = upper;
  outline.insert(outline.end(), lower.rbegin(), lower.rend());
  path(point_list(outline) + "Z", css);
}

void Svg::rect(const Rect& rect, std::string_view css, std::string_view tooltip) {
  out_ += fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" class=\"{}\"",
                      pixels(rect.x), pixels(rect.y), pixels(rect.width), pixels(rect.height), css);
  out_ +=
      tooltip.empty() ? "/>\n" : fmt::format("><title>{}</title></rect>\n", html_escaped(tooltip));
}

void Svg::path(std::string_view commands, std::string_view css) {
  out_ += fmt::format("<path d=\"{}\" class=\"{}\"/>\n", commands, css);
}

void Svg::text(Point at, std::string_view text, std::string_view css, Anchor anchor) {
  out_ += fmt::format("<text x=\"{}\" y=\"{}\" class=\"{}\" text-anchor=\"{}\">{}</text>\n",
                      pixels(at.x), pixels(at.y), css, anchor_name(anchor), html_escaped(text));
}

std::string Svg::finish() { return std::move(out_) + "</svg>\n"; }

std::vector<double> axis_ticks(double from, double to, int count) {
  const double rough = (to - from) / count;
  const double magnitude = std::pow(10, std::floor(std::log10(rough)));
  double step = magnitude * 10;
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (magnitude * factor >= rough * 0.999) {
      step = magnitude * factor;
      break;
    }
  }
  std::vector<double> ticks;
  for (double tick = std::ceil(from / step - 1e-9) * step; tick <= to + step * 1e-6; tick += step) {
    ticks.push_back(std::abs(tick) < step * 1e-6 ? 0 : tick);
  }
  return ticks;
}

std::string tick_label(double value, double step) {
  return fmt::format("{:.{}f}", value, step >= 0.999 ? 0 : step >= 0.0999 ? 1 : 2);
}

}  // namespace berth::sim
