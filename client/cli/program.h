// The program `onecopy` without its process.
#pragma once

#include <functional>
#include <ostream>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace onecopy::cli {

// Calls `use` with the definition of the command line, from which its manual and completions are
// made (deploy/manual).
void WithDefinition(const std::function<void(const CLI::App&)>& use);

// Runs the command line (without the program's name) and returns the exit status. Standard input
// and output are used only where an end of a copy is "-"; all else goes to `out` and `err`.
int RunProgram(const std::vector<std::string>& arguments, std::ostream& out, std::ostream& err);

}  // namespace onecopy::cli
