// A program of ours as a child process.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

#include "onecopy/result.h"
#include "transport/os/base/unique_fd.h"

namespace onecopy::bench {

// Ends with the object: asked to by SIGTERM, made to by SIGKILL where it takes longer than a few
// seconds. It also ends when the thread that started it does. One thread at a time.
class Process {
 public:
  // Its standard output is read here, what it says on standard error goes to the end of
  // `error_file`. NOT_FOUND if the program does not exist. A terminal's Ctrl-C does not reach it:
  // the caller decides when it ends.
  static Result<Process> Start(const std::string& program,
                               const std::vector<std::string>& arguments,
                               const std::string& error_file);
  Process(Process&& other) noexcept;
  Process& operator=(Process&& other) noexcept;
  ~Process();

  pid_t pid() const { return pid_; }

  // The next line of its output, without the line's end. DEADLINE_EXCEEDED where none comes,
  // UNAVAILABLE where the program ends first.
  Result<std::string> ReadLine(std::chrono::milliseconds limit);

 private:
  Process() = default;
  void End();
  bool EndsWithin(std::chrono::milliseconds limit);

  pid_t pid_ = 0;
  os::UniqueFd output_;
  os::UniqueFd ended_;  // pidfd
};

}  // namespace onecopy::bench
