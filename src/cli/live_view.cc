#include "cli/live_view.h"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <ostream>
#include <string_view>
#include <thread>

#include <fmt/format.h>

#include "cli/words_for_people.h"

namespace berth::cli {

namespace {

std::string clock_text() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  localtime_r(&now, &parts);
  return fmt::format("{:02}:{:02}:{:02}", parts.tm_hour, parts.tm_min, parts.tm_sec);
}

// The first lines that fit, the last of them saying that there is more.
std::string fitted(const std::string& text, std::size_t rows) {
  const auto lines = static_cast<std::size_t>(std::ranges::count(text, '\n'));
  if (rows == 0 || lines < rows) {
    return text;
  }
  std::size_t end = 0;
  for (std::size_t i = 0; i + 2 < rows; ++i) {
    end = text.find('\n', end) + 1;
  }
  return text.substr(0, end) + fmt::format("… {} lines more\n", lines - (rows - 2));
}

}  // namespace

namespace {

// A wide table is as wide as it needs to be; the window does not cut it.
Look look_for(const Arguments& arguments, const Console& console) {
  Look look = look_of(console);
  if (arguments.value("--output") == "wide") {
    look.columns = 0;
  }
  return look;
}

}  // namespace

Result<void> show(const Arguments& arguments, Console& console,
                  const std::function<Result<std::string>(const Look&)>& draw) {
  TRY(const Duration interval,
      time_given(kIntervalOption.name, *arguments.value(kIntervalOption.name)));
  TRY(std::string text, draw(look_for(arguments, console)));
  if (!arguments.has(kWatchOption.name)) {
    console.out << text;
    return success();
  }
  const bool terminal = console.out_is_terminal;
  std::ptrdiff_t lines = 0;  // of what stands there and is to be drawn over
  while (console.out) {
    const Look look = look_of(console);  // the window may have changed
    if (terminal) {
      text = fitted(text, look.rows);
      if (lines > 0) {
        console.out << fmt::format("\x1b[{}F", lines);
      }
      console.out << "\x1b[J" << text;
      lines = std::ranges::count(text, '\n');
    } else {
      console.out << text;
    }
    console.out << std::flush;
    std::this_thread::sleep_for(
        std::chrono::milliseconds(std::max<std::int64_t>(interval.count(), 100)));
    Result<std::string> next = draw(look_for(arguments, console));
    // Tables are set apart; what programs read (one document a line) is not.
    const bool apart = !terminal && next && !next->starts_with('{') && !next->starts_with('-');
    text = next ? (apart ? "\n" : "") + *next
                : fmt::format("{}: {}\n", clock_text(), next.error().message());
  }
  return success();
}

Result<void> show_books(const Arguments& arguments, Console& console, const Books& books,
                        const std::function<Result<std::string>(const Look&)>& draw) {
  bool said = false;
  return show(arguments, console, [&](const Look& look) {
    Result<std::string> text = draw(look);
    if (const std::string remark = books.remark(); !said && !remark.empty()) {
      console.err << remark << "\n";
      said = true;
    }
    return text;
  });
}

}  // namespace berth::cli
