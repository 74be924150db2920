// A machine for tests: a shell with a network, processes, /etc/onecopy, /run and /tmp of its own,
// in which lines are typed as people type them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tests/support/process.h"

namespace onecopy::testing {

// One thread at a time. Whatever was started in it ends with it.
class Machine {
 public:
  // Why there can be none here (rights, a program that is missing), or "".
  static std::string WhyNot();

  // `name` is its host name; its shell begins in the folder of that name in `shared`, which other
  // machines may share: there it is /run/shared. The programs of this build are in its PATH. Throws
  // where the kernel refuses.
  Machine(const std::string& name, const std::string& shared);

  struct Said {
    int status = 0;
    std::string text;  // on standard output and standard error
  };
  // Types a line and waits for its end. One that leaves an onecopyd in the background returns once
  // that serves, or has ended.
  Said Type(const std::string& line);
  // The same, which must end with 0. Throws with what was said otherwise.
  std::string Do(const std::string& line);

  // Joins two machines by a wire, and gives each end of it an address, such as "10.0.0.1/24".
  static void Join(Machine& one, const std::string& address, Machine& other,
                   const std::string& other_address);

 private:
  // Of the shell, as this process counts.
  pid_t ShellPid() const;

  const std::string line_file_;  // what is typed, here and in the machine
  const std::string shared_line_;
  std::unique_ptr<Process> shell_;
};

}  // namespace onecopy::testing
