// Getting a lease for `berth run`: reserve, wait in the queue, be told.
// Thread-safety: one thread.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "cli/command.h"
#include "cli/lease_wire.h"
#include "json/value.h"
#include "local/files.h"

namespace berth::cli {

// A line of `berth run` about itself, and one that is written over on a terminal.
class StatusLine {
 public:
  explicit StatusLine(Console& console) : console_(console) {}
  ~StatusLine() { clear(); }
  StatusLine(const StatusLine&) = delete;
  StatusLine& operator=(const StatusLine&) = delete;

  // Replaces what was shown. Where standard error is no terminal it is written once for each
  // `kind`, and again after five minutes.
  void show(const std::string& text, const std::string& kind);
  void clear();
  // A line that stays.
  void say(const std::string& text);

 private:
  Console& console_;
  bool shown_ = false;
  std::string last_kind_;
  std::int64_t last_ms_ = 0;
};

// While one lives, Ctrl-C, TERM, HUP and QUIT make a descriptor readable instead of ending us.
class SignalWatch {
 public:
  SignalWatch();
  int fd() const { return signals_.get(); }
  // The one that came; 0: none.
  int take() const;

 private:
  local::Descriptor signals_;
};

// What came of waiting.
struct Obtained {
  enum class Kind : std::uint8_t { granted, signalled, refused };
  Kind kind = Kind::refused;
  json::Value lease = {};            // granted
  int signal = 0;                    // signalled: the queue was left
  ExitCode code = ExitCode::failed;  // refused, said on stderr already
};

// Reserves (or asks again about) this reservation and waits until it is granted. What happens is
// shown on `line`. A daemon that does not answer is waited for; it may be restarting.
Obtained obtain_lease(const std::string& address, const json::Value& reservation,
                      const SignalWatch& signals, StatusLine& line);

}  // namespace berth::cli
