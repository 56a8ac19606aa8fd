// Text of an SVG picture, without scripts and fonts of its own, readable on light and dark pages.
#pragma once

#include <cstdio>
#include <string>

namespace bench {

class svg {
 public:
  void line(double x1, double y1, double x2, double y2, char const* kind) {
    body_ += "<line class=\"" + std::string{kind} + "\"" + number("x1", x1) + number("y1", y1) + number("x2", x2) +
             number("y2", y2) + "/>\n";
  }
  void box(double x, double y, double width, double height, char const* kind) {
    body_ += "<rect class=\"" + std::string{kind} + "\"" + number("x", x) + number("y", y) + number("width", width) +
             number("height", height) + " rx=\"2\"/>\n";
  }
  void dot(double x, double y, double radius, char const* kind, std::string const& title = "") {
    body_ += "<circle class=\"" + std::string{kind} + "\"" + number("cx", x) + number("cy", y) + number("r", radius) +
             (title.empty() ? "/>\n" : "><title>" + escaped(title) + "</title></circle>\n");
  }
  void text(double x, double y, std::string const& words, char const* kind) {
    body_ += "<text class=\"" + std::string{kind} + "\"" + number("x", x) + number("y", y) + ">" + escaped(words) +
             "</text>\n";
  }

  [[nodiscard]] std::string finished(double width, double height, std::string const& title) const {
    char size[160];
    std::snprintf(size, sizeof size, "width=\"%.0f\" height=\"%.0f\" viewBox=\"0 0 %.0f %.0f\"", width, height, width,
                  height);
    return "<svg xmlns=\"http://www.w3.org/2000/svg\" " + std::string{size} + " role=\"img\">\n<title>" +
           escaped(title) + "</title>\n<style>\n" + style +
           "</style>\n<rect class=\"page\" width=\"100%\" height=\"100%\"/>\n" + body_ + "</svg>\n";
  }

 private:
  static std::string number(char const* name, double v) {
    char text[48];
    std::snprintf(text, sizeof text, " %s=\"%.1f\"", name, v);
    return text;
  }
  static std::string escaped(std::string const& words) {
    std::string out;
    for (char const c : words) out += c == '&' ? "&amp;" : c == '<' ? "&lt;" : c == '>' ? "&gt;" : std::string(1, c);
    return out;
  }
  static constexpr char const* style =
      "text { font: 12px system-ui, 'DejaVu Sans', sans-serif; fill: #24292f }\n"
      ".head { font-size: 17px; font-weight: 600 } .part { font-size: 13px; font-weight: 600 }\n"
      ".name, .axis, .faint { font-size: 11.5px } .name { text-anchor: end } .axis { text-anchor: middle }\n"
      ".axis, .faint { fill: #57606a } .miss { font-size: 11.5px; font-weight: 600; fill: #b35900 }\n"
      ".page { fill: #ffffff } .grid { stroke: #d0d7de } .same { stroke: #8c959f }\n"
      ".held { fill: #9ec5f0 } .beyond { fill: #f5c27a } .open { fill: #d0d7de }\n"
      ".goal { stroke: #cf222e; stroke-width: 2.5 } .round { fill: #0b4a8f; fill-opacity: .75 }\n"
      ".other { fill: none; stroke: #b35900; stroke-width: 1.3 }\n"
      "@media (prefers-color-scheme: dark) {\n"
      "text { fill: #e6edf3 } .axis, .faint { fill: #9198a1 } .miss { fill: #ffb366 }\n"
      ".page { fill: #0d1117 } .grid { stroke: #2a3038 } .same { stroke: #6e7681 }\n"
      ".held { fill: #1f4f86 } .beyond { fill: #7a4a08 } .open { fill: #3d444d }\n"
      ".goal { stroke: #ff7b72 } .round { fill: #a5d0ff } .other { stroke: #ffb366 } }\n";

  std::string body_;
};

}  // namespace bench
