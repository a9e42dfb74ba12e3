// A view that is drawn again and again: in place on a terminal, one after another elsewhere.
// Thread-safety: none.
#pragma once

#include <functional>
#include <string>

#include "base/result.h"
#include "cli/books.h"
#include "cli/command.h"
#include "cli/look.h"

namespace berth::cli {

inline constexpr Option kWatchOption{
    .name = "--watch", .letter = 'w', .help = "go on showing it, until Ctrl-C"};
inline constexpr Option kIntervalOption{.name = "--interval",
                                        .kind = ValueKind::text,
                                        .value = "TIME",
                                        .help = "with --watch: how often it is looked at",
                                        .fallback = "2s"};

// Draws once, or with --watch for ever; with `-o wide` no window cuts the table. A daemon that does
// not answer ends the first drawing; later ones say so and go on, since it may be starting again.
// Errors: those of `draw`, and invalid_argument (--interval).
Result<void> show(const Arguments& arguments, Console& console,
                  const std::function<Result<std::string>(const Look&)>& draw);

// The same of what books tell; what should be known of them is said once, on stderr.
Result<void> show_books(const Arguments& arguments, Console& console, const Books& books,
                        const std::function<Result<std::string>(const Look&)>& draw);

}  // namespace berth::cli
