#include <algorithm>
#include <functional>
#include <map>
#include <numeric>

#include <fmt/format.h>

#include "sim/output.h"
#include "sim/report/figures.h"
#include "sim/report/svg.h"

namespace berth::sim {

namespace {

constexpr std::size_t kFills = 11;  // empty, ten steps, the last one is full
constexpr double kTitle = 18;
constexpr double kWidestTitle = 230;
constexpr double kGap = 14;

// 0 = nothing on it, 10 = full, 1 … 9 between.
std::size_t fill_step(int left_milli) {
  const int filled = kWholeDeviceMilli - left_milli;
  if (filled == 0) return 0;
  if (left_milli == 0) return kFills - 1;
  return static_cast<std::size_t>(1 + std::min(8, filled * 9 / kWholeDeviceMilli));
}

struct Column {
  std::vector<int> left;  // milli per device, fullest first
  int sum = 0;
};

// The nodes of one model.
struct Block {
  std::string model;
  std::vector<Column> columns;
  std::size_t height = 0;  // devices of the largest node
  std::int64_t devices = 0;
  std::int64_t left = 0;
};

std::vector<Block> blocks_of(const Scene& scene, const std::vector<std::int16_t>& left) {
  std::map<std::string, Block> by_model;
  std::size_t first = 0;
  for (const TraceNode& node : scene.nodes) {
    const auto count = static_cast<std::size_t>(node.devices);
    if (count == 0) continue;
    Block& block = by_model[node.model];
    Column column;
    for (std::size_t i = first; i < first + count; ++i)
      column.left.push_back(left[i]);
    first += count;
    std::ranges::sort(column.left);
    column.sum = std::accumulate(column.left.begin(), column.left.end(), 0);
    block.model = node.model;
    block.height = std::max(block.height, count);
    block.devices += node.devices;
    block.left += column.sum;
    block.columns.push_back(std::move(column));
  }
  std::vector<Block> blocks;
  for (auto& [model, block] : by_model) {
    // Large nodes first, then full ones: holes gather at the right end of each group.
    std::ranges::stable_sort(block.columns, [](const Column& a, const Column& b) {
      return a.left.size() != b.left.size() ? a.left.size() > b.left.size() : a.sum < b.sum;
    });
    blocks.push_back(std::move(block));
  }
  std::ranges::stable_sort(blocks, std::greater{}, &Block::devices);
  return blocks;
}

class HeatMap {
 public:
  HeatMap(std::vector<Block> blocks, std::size_t nodes)
      : blocks_(std::move(blocks)),
        cell_(nodes > 4000   ? 2.0
              : nodes > 1500 ? 3.5
                             : 5.0) {}

  std::string draw(std::string_view title) {
    lay_out();
    Svg svg({.width = kFigureWidth, .height = bottom_, .title = title});
    for (const Text& text : texts_)
      svg.text({text.x, text.y}, text.text, "tick");
    for (std::size_t i = 0; i < kFills; ++i) {
      if (!paths_[i].empty()) svg.path(paths_[i], fmt::format("f{}", i));
    }
    return svg.finish();
  }

 private:
  struct Text {
    double x;
    double y;
    std::string text;
  };

  void lay_out() {
    const auto per_line = static_cast<std::size_t>(kFigureWidth / cell_);
    double x = 0;
    double line_bottom = 0;
    for (const Block& block : blocks_) {
      const std::size_t wide = std::min(block.columns.size(), per_line);
      const double width = std::max(kWidestTitle, static_cast<double>(wide) * cell_);
      if (x > 0 && x + width > kFigureWidth) {
        x = 0;
        bottom_ = line_bottom + kGap;
      }
      texts_.push_back(
          {x, bottom_ + 12,
           fmt::format(
               "{}: {} GPUs, {:.1f} % filled", block.model, with_commas(block.devices),
               100 - static_cast<double>(block.left) / 10 / static_cast<double>(block.devices))});
      line_bottom = std::max(line_bottom, place(block, x, bottom_ + kTitle, per_line));
      x += width + kGap;
    }
    bottom_ = line_bottom + 2;
  }

  // Draws the columns of a block and returns where it ends.
  double place(const Block& block, double left, double top, std::size_t per_line) {
    const double line = static_cast<double>(block.height) * cell_ + 3;
    double y = top;
    for (std::size_t i = 0; i < block.columns.size(); ++i) {
      if (i > 0 && i % per_line == 0) y += line;
      const double x = left + static_cast<double>(i % per_line) * cell_;
      const Column& column = block.columns[i];
      for (std::size_t d = 0; d < column.left.size(); ++d) {
        paths_[fill_step(column.left[d])] +=
            fmt::format("M{:g} {:g}h{:g}v{:g}h-{:g}z", x, y + static_cast<double>(d) * cell_,
                        cell_ - 0.5, cell_ - 0.5, cell_ - 0.5);
      }
    }
    return y + line;
  }

  std::vector<Block> blocks_;
  double cell_;
  double bottom_ = 2;
  std::array<std::string, kFills> paths_;
  std::vector<Text> texts_;
};

}  // namespace

std::string heat_figure(const Scene& scene, const RunResult& run) {
  const std::string title =
      fmt::format("Fill of every device under policy {} with seed {}, grouped by model",
                  run.spec.policy, run.spec.seed);
  return HeatMap(blocks_of(scene, run.device_left), scene.nodes.size()).draw(title);
}

std::string heat_legend() {
  std::string legend = "<ul class=\"legend scale\">\n";
  for (std::size_t i = 0; i < kFills; ++i) {
    const std::string text = i == 0 ? "empty" : i == kFills - 1 ? "full" : i == 5 ? "half" : "";
    legend += fmt::format("<li><span class=\"swatch f{}\"></span>{}</li>", i, text);
  }
  return legend + "\n</ul>\n";
}

}  // namespace berth::sim
