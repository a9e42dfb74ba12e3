#include "local/signals.h"

#include <cerrno>
#include <csignal>
#include <sys/syscall.h>
#include <unistd.h>

#include "local/files.h"

namespace berth::local {

bool signal_process(const ProcessKey& process, int signal) {
  const auto pid = static_cast<pid_t>(process.pid);
  const Descriptor held(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  if (!held.valid() && errno == ESRCH) return false;
  // Asked after the descriptor was opened: if it is still the process meant, so was the one opened.
  const Processes processes;
  const Process* found = processes.find(process);
  if (found == nullptr || !found->lives()) return false;
  if (held.valid()) return syscall(SYS_pidfd_send_signal, held.get(), signal, nullptr, 0) == 0;
  return kill(pid, signal) == 0;  // before Linux 5.3
}

}  // namespace berth::local
