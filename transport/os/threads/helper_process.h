// Runs a program that may crash, hang or never end, in a process of its own.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "onecopy/result.h"

namespace onecopy::os {

struct HelperRequest {
  std::vector<std::string> arguments;                            // the program's file first
  std::vector<std::pair<std::string, std::string>> environment;  // set besides this process's own
  std::string folder;                                            // where it runs; empty: here
  std::chrono::milliseconds limit{10000};
  size_t most_output = 65536;  // bytes kept of each stream; the rest is read, and dropped
};

struct HelperOutcome {
  bool ended = false;   // by itself, in time
  int exit_status = 0;  // where it was not a signal that ended it
  int signal = 0;       // that ended it: a crash; 0: none
  std::string output;   // of its standard output, as far as it came
  std::string errors;   // likewise
  bool gone = true;     // false: it does not even die, as what waits in a driver may not

  bool succeeded() const { return ended && signal == 0 && exit_status == 0; }
  // "crashed (SIGSEGV)", "did not end within 10 s and was killed": in words, for people.
  std::string Describe(std::chrono::milliseconds limit) const;
};

// Blocks, for little more than the limit; any thread. The process has a group of its own, which is
// killed as a whole at the end, whatever it has started; it inherits no descriptor but its three
// streams, the first of which is empty. Fails where no process can be made, or the program is not
// there.
Result<HelperOutcome> RunHelper(const HelperRequest& request);

}  // namespace onecopy::os
