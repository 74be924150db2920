// The command line of onecopy-bench.
#pragma once

#include <functional>
#include <ostream>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace onecopy::bench {

// Calls `use` with the definition of the command line, from which its manual and completions are
// made (deploy/manual).
void WithDefinition(const std::function<void(const CLI::App&)>& use);

struct ProgramIo {
  std::ostream& out;       // the table
  std::ostream& progress;  // what is being measured, and errors
};

// Runs what the arguments (without the program's name) ask for and returns the exit status: 0 where
// no row FAILED, 1 where one did, 130 where a signal ended the run early, else that of the error
// (docs/architecture.md). SIGINT and SIGTERM end the run after the sample under way. Main thread.
int RunProgram(const std::vector<std::string>& arguments, const ProgramIo& io);

}  // namespace onecopy::bench
