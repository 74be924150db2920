// A program of ours as a child process of a test.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "transport/os/base/unique_fd.h"

namespace onecopy::testing {

// Where the programs of this build are: $ONECOPY_BIN_DIR, else two folders above the test's own.
std::filesystem::path ProgramFolder();

struct ProcessOptions {
  std::string program;  // its name, "onecopyd", or a path
  std::vector<std::string> arguments = {};
  std::string input_file = "/dev/null";       // empty: a pipe, see Process::Write
  std::string error_file = {};                // created; empty: the test's own stderr
  std::vector<std::string> environment = {};  // "NAME=value", beside the test's own
  std::function<void()> in_child = {};        // last thing before the program takes over
};

// Throws where the process cannot be made. The child does not outlive the test, whatever ends that.
// One thread at a time.
class Process {
 public:
  explicit Process(const ProcessOptions& options);
  ~Process();  // kills it and waits for its end
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  pid_t pid() const { return pid_; }
  bool running() const { return pid_ > 0; }
  // Up to and with the next '\n', or what is there at its end. Throws after a minute of silence.
  std::string ReadLine();
  std::string ReadAll();  // up to its end
  // Into its standard input, where that is a pipe; closing it is the end of the input.
  void Write(const std::string& text);
  void CloseInput() { in_ = os::UniqueFd(); }
  void Signal(int signal) const;
  // Waits for the end, at most a minute: the exit status, or 1000 and the signal that ended it.
  int Wait();

 private:
  pid_t pid_ = 0;
  os::UniqueFd in_;
  os::UniqueFd out_;
  os::UniqueFd ended_;  // pidfd
};

// For ProcessOptions::in_child: the program runs as that user and group, and no other group.
std::function<void()> BecomeUser(uid_t uid);

std::string ReadFile(const std::filesystem::path& path);
void WriteFile(const std::filesystem::path& path, const std::string& text);

// Asks until the answer is yes. Throws after a minute, naming `what`.
void WaitUntil(const std::string& what, const std::function<bool()>& question);

}  // namespace onecopy::testing
