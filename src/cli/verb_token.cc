// berth token new, berth token list.
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <ostream>
#include <string>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/printable.h"
#include "cli/serve_options.h"
#include "cli/verbs.h"
#include "net/token.h"

namespace berth::cli {

namespace {

constexpr Option kFileOption = {
    .name = "--file",
    .kind = ValueKind::file,
    .value = "FILE",
    .help = "the token file (default: tokens_file of the configuration, else /etc/berth/tokens)"};

constexpr Option kNewOptions[] = {
    {.name = "--admin", .help = "sees and ends the leases of all, and drains devices"},
    kFileOption,
};

constexpr Option kListOptions[] = {kFileOption};

constexpr Example kNewExamples[] = {
    {"berth token new airflow", "prints the token once; the file gets its hash"},
    {"berth token new ops --admin --file ./tokens", "an administrator's, into a file of your own"},
};

constexpr Example kListExamples[] = {{"berth token list", "who may come over TCP"}};

std::string token_file(const Arguments& arguments) {
  if (const auto named = arguments.value("--file")) {
    return *named;
  }
  if (const auto path = default_config_file()) {
    const Result<config::DaemonFile> file = load_daemon_file(*path);
    if (file.ok() && !file->config.tokens_file.empty()) {
      return file->config.tokens_file;
    }
  }
  return "/etc/berth/tokens";
}

ExitCode refuse(Console& console, const std::string& message, ExitCode code) {
  console.err << printable_lines(message) << "\n";
  return code;
}

// A line at the end of the file, which belongs to its owner alone. Empty: done.
std::string append_line(const std::string& path, const std::string& line) {
  const auto failed = [&path](std::string_view what) {
    return fmt::format("{} {}: {}", what, printable(path), std::strerror(errno));
  };
  const int fd = ::open(path.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) {
    return failed("cannot write to");
  }
  // A last line that somebody wrote by hand may lack its end.
  struct stat status{};
  char last = '\n';
  if (::fstat(fd, &status) == 0 && status.st_size > 0) {
    static_cast<void>(::pread(fd, &last, 1, status.st_size - 1));
  }
  const std::string text = (last == '\n' ? "" : "\n") + line;
  std::string problem;
  if (::write(fd, text.data(), text.size()) != static_cast<ssize_t>(text.size()) ||
      ::fsync(fd) != 0) {
    problem = failed("cannot write to");
  }
  ::close(fd);
  return problem;
}

ExitCode new_token(const Arguments& arguments, Console& console) {
  const std::string file = token_file(arguments);
  if (const auto known = net::TokenSet::load(file);
      !known.ok() && known.error().code() != ErrorCode::not_found) {
    return refuse(console, known.error().message(), ExitCode::failed);
  }
  const Result<net::NewToken> token =
      net::make_token(arguments.operands().front(), arguments.has("--admin"));
  if (!token.ok()) {
    return refuse(
        console, token.error().message(),
        token.error().code() == ErrorCode::invalid_argument ? ExitCode::usage : ExitCode::failed);
  }
  if (const std::string problem = append_line(file, token->line); !problem.empty()) {
    return refuse(console, problem, ExitCode::failed);
  }
  console.out << token->secret << "\n";
  console.err << fmt::format(
      "its hash is in {}; the token itself is printed this once\n"
      "a running daemon knows it after a reload: systemctl reload berth, or SIGHUP\n",
      printable(file));
  return ExitCode::done;
}

ExitCode list_tokens(const Arguments& arguments, Console& console) {
  const Result<net::TokenSet> tokens = net::TokenSet::load(token_file(arguments));
  if (!tokens.ok()) {
    return refuse(console, tokens.error().message(), ExitCode::failed);
  }
  for (const net::TokenSet::Row& row : tokens->rows()) {
    console.out << fmt::format("{:<24} {:<6} sha256:{}…\n", row.name, row.admin ? "admin" : "user",
                               row.hash);
  }
  return ExitCode::done;
}

}  // namespace

constinit const Command kTokenNewCommand{
    .name = "token new",
    .summary = "make a token for a program that comes over TCP",
    .description =
        "Prints a new token on standard output and adds the line with its hash to the token file, "
        "which cannot be turned back into it. A caller sends it as \"Authorization: Bearer "
        "TOKEN\"; its leases belong to NAME. While a token is replaced, both may stand under one "
        "name; to take one away, delete its line and reload the daemon.\n\n"
        "Exit status: 0 made; 1 the file cannot be written; 2 a wrong name.",
    .options = kNewOptions,
    .operand = {.name = "NAME",
                .help = "who bears it: letters, digits, '.', '_', '-', '@'",
                .required = true},
    .examples = kNewExamples,
    .run = new_token,
};

constinit const Command kTokenListCommand{
    .name = "token list",
    .summary = "list who may come over TCP",
    .options = kListOptions,
    .examples = kListExamples,
    .run = list_tokens,
};

}  // namespace berth::cli
