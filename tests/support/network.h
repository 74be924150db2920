// Networks of a test's own: namespaces, and what is done in them.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "transport/os/base/unique_fd.h"

namespace onecopy::testing {

// A network namespace, with its loopback up. It lives for as long as this, or a process in it,
// does.
class NetworkNamespace {
 public:
  // Throws where the kernel refuses. The caller keeps its own.
  NetworkNamespace();

  // Runs a command of iproute2 inside: what it says. Throws where it fails.
  std::string Do(const std::string& command) const;
  // Waits until a device there is up, of which the kernel finds out a little later.
  void WaitForLink(const std::string& device) const;
  // What that device there has sent so far, headers included.
  uint64_t BytesSent(const std::string& device) const;
  // Under which another command finds it, as in "ip link set … netns NAME".
  std::string name() const;

  // Runs in a process that is about to become another program, or in a thread: what it starts
  // afterwards has this network, and a /sys that shows it. Ends the process where that fails.
  std::function<void()> Inside() const;

 private:
  os::UniqueFd namespace_;
};

// "" if that program of iproute2 is installed; otherwise a sentence that says that it is not.
std::string WhyNoProgram(const std::string& name);

}  // namespace onecopy::testing
