// In which user and PID namespaces another process lives, as far as may be seen from here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "transport/os/base/unique_fd.h"

namespace onecopy::os {

// What tells one namespace from all others, while it is there.
struct NamespaceIdentity {
  uint64_t device = 0;
  uint64_t number = 0;  // as lsns shows it
  friend bool operator==(const NamespaceIdentity&, const NamespaceIdentity&) = default;
};

// Of the namespace that a descriptor stands for. No value where it cannot be asked.
std::optional<NamespaceIdentity> IdentityOf(int fd);

// One namespace of a process.
struct NamespaceView {
  bool own = false;                     // it is this process's, too
  std::optional<uint64_t> number = {};  // as the kernel shows it (lsns), where it lets us see it
  std::shared_ptr<UniqueFd> held = {};  // while it is open, the kernel gives the number to no other
};

struct ProcessNamespaces {
  NamespaceView user;
  NamespaceView pid;
  // The process's control group: its path, for people, and a name of a-z, 0-9 and '-' that no other
  // group of this machine has or will have, which tells connections apart, and no owners. Both
  // empty for the root group and where it cannot be seen.
  std::string cgroup;
  std::string cgroup_id;
};

// Of the process with that number here (0: it has none) and that pidfd (possibly empty). Never
// fails: what cannot be seen counts as another's. The kernel shows numbers only to a process with a
// debugger's rights over the other; without them, what /proc shows to everybody still tells one's
// own namespaces from others.
ProcessNamespaces LookAtNamespaces(int32_t pid, const UniqueFd& pidfd);

// Who a connection is to be known as again, as long as one of it is open: "uid 1000" for one of
// this process's own namespaces. Two that are told apart nowhere else have one text.
std::string PresenterText(uint32_t uid, const ProcessNamespaces& seen);

// A process that has a socket open.
struct SocketHolder {
  ProcessNamespaces namespaces;
  size_t processes_read = 0;  // whose open files were looked through to find it
};

// Of the socket with that inode, as the kernel's socket tables give it. `likely` is looked at first
// (see socket_mark.h): else this looks through the open files of every process, which takes longer
// the more of them there are. No value: no process that this one may look into has it.
std::optional<SocketHolder> FindSocketHolder(uint64_t inode, std::optional<int32_t> likely);

}  // namespace onecopy::os
