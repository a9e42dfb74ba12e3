// gpu-client: a program that uses a GPU as it is told, word by word. See README.md.
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <string>
#include <sys/stat.h>
#include <unistd.h>

#include "clients/families.h"

namespace {

using namespace berth::client;  // NOLINT(google-build-using-namespace): the whole kit

constexpr int kRefused = 3;  // an allocation was refused, as asked for by nobody
constexpr int kUsage = 2;

int usage(const char* text, const char* what) {
  (void)std::fprintf(stderr, "gpu-client: %s: %s\n", text, what);
  return kUsage;
}

// "600MiB", "1G", "4096".
bool size_from(const char* text, std::size_t* bytes) {
  char* end = nullptr;
  const unsigned long long value = std::strtoull(text, &end, 10);
  if (end == text) return false;
  unsigned int shift = 0;
  switch (std::toupper(static_cast<unsigned char>(*end))) {
    case '\0': break;
    case 'K': shift = 10; break;
    case 'M': shift = 20; break;
    case 'G': shift = 30; break;
    default: return false;
  }
  *bytes = static_cast<std::size_t>(value) << shift;
  return true;
}

void say(const char* verb, const char* what, std::size_t bytes, Code code) {
  (void)std::printf("{\"do\":\"%s\",\"what\":\"%s\",\"bytes\":%zu,\"code\":%d}\n", verb, what,
                    bytes, code);
  (void)std::fflush(stdout);
}

void show_memory(const Session& session) {
  std::size_t free_bytes = 0;
  std::size_t total = 0;
  std::size_t device_total = 0;
  const Code code = session.calls.cuMemGetInfo_v2(&free_bytes, &total);
  (void)session.calls.cuDeviceTotalMem_v2(&device_total, session.device);
  (void)std::printf(
      "{\"do\":\"info\",\"free\":%zu,\"total\":%zu,\"device_total\":%zu,\"code\":%d}\n", free_bytes,
      total, device_total, code);
  (void)std::fflush(stdout);
}

// Waits until every participant of the barrier has written its byte into the file.
void barrier(const char* path, long participants) {
  const int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (fd < 0) return;
  (void)!write(fd, "x", 1);
  struct stat info{};
  while (fstat(fd, &info) == 0 && info.st_size < participants) {
  }
  (void)close(fd);
}

void sleep_ms(long milliseconds) {
  const timespec time{.tv_sec = milliseconds / 1000, .tv_nsec = milliseconds % 1000 * 1'000'000};
  (void)nanosleep(&time, nullptr);
}

struct Script {
  int argc;
  char** argv;
  int at;
  Session session{};
  bool stop_on_refusal = false;

  const char* next() { return at < argc ? argv[at++] : nullptr; }

  int take_some();
  int run();
  int command(const std::string& word);
};

// take FAMILY SIZE [COUNT]
int Script::take_some() {
  const char* name = next();
  const char* size = next();
  const Family* family = name == nullptr ? nullptr : family_named(name);
  std::size_t bytes = 0;
  if (family == nullptr) return usage("take: no such family", name == nullptr ? "" : name);
  if (size == nullptr || !size_from(size, &bytes)) {
    return usage("take: no size", size == nullptr ? "" : size);
  }
  long count = 1;
  if (at < argc && std::isdigit(static_cast<unsigned char>(argv[at][0])) != 0) {
    count = std::strtol(argv[at++], nullptr, 10);
  }
  for (long number = 0; number < count; ++number) {
    const Code code = take(session, *family, bytes);
    say("take", family->name, bytes, code);
    if (code != 0 && stop_on_refusal) return kRefused;
    if (code != 0) break;
  }
  return 0;
}

int Script::command(const std::string& word) {
  if (word == "take") return take_some();
  if (word == "free") {
    say("free", "last", 0, give_back_last(session));
  } else if (word == "free-all") {
    say("free", "all", 0, give_back_all(session));
  } else if (word == "info") {
    show_memory(session);
  } else if (word == "strict") {
    stop_on_refusal = true;
  } else if (word == "hold") {  // until standard input ends
    char byte = 0;
    while (read(STDIN_FILENO, &byte, 1) > 0) {
    }
  } else if (word == "sleep") {
    const char* time = next();
    if (time == nullptr) return usage("sleep: milliseconds are missing", "");
    sleep_ms(std::strtol(time, nullptr, 10));
  } else if (word == "barrier") {
    const char* path = next();
    const char* count = next();
    if (count == nullptr) return usage("barrier: FILE COUNT", "");
    barrier(path, std::strtol(count, nullptr, 10));
  } else if (word == "destroy-context") {
    say("destroy-context", "", 0, session.calls.cuCtxDestroy_v2(session.context));
    session.held.clear();
  } else if (word == "churn") {  // SIZE COUNT: allocate and free that often
    const char* size = next();
    const char* count = next();
    std::size_t bytes = 0;
    if (count == nullptr || !size_from(size, &bytes)) return usage("churn: SIZE COUNT", "");
    Code code = 0;
    for (long left = std::strtol(count, nullptr, 10); left > 0 && code == 0; --left) {
      Pointer pointer = 0;
      code = session.calls.cuMemAlloc_v2(&pointer, bytes);
      if (code == 0) code = session.calls.cuMemFree_v2(pointer);
    }
    say("churn", "linear", bytes, code);
  } else {
    return usage("no such command", word.c_str());
  }
  return 0;
}

int Script::run() {
  Road road = Road::dlsym_handle;
  int device = 0;
  while (at < argc && std::strncmp(argv[at], "--", 2) == 0) {
    const std::string option = next();
    const char* value = next();
    if (value == nullptr) return usage("an option without value", option.c_str());
    if (option == "--road" && road_named(value, &road)) continue;
    if (option == "--device") {
      device = std::atoi(value);
      continue;
    }
    return usage("unknown option or value", option.c_str());
  }
  const char* why = "";
  if (!load(road, &session.calls, &why)) {
    (void)std::printf("{\"do\":\"load\",\"road\":\"%s\",\"code\":-1}\n", road_name(road));
    (void)std::fprintf(stderr, "gpu-client: %s\n", why);
    return 1;
  }
  const Code code = session.open(device);
  say("open", road_name(road), 0, code);
  if (code != 0) return 1;
  while (const char* word = next()) {
    if (const int failed = command(word); failed != 0) return failed;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Script script{.argc = argc, .argv = argv, .at = 1};
  return script.run();
}
