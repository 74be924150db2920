// The program `onecopy` without its process.
#pragma once

#include <ostream>
#include <string>
#include <vector>

namespace onecopy::cli {

// Runs the command line (without the program's name) and returns the exit status. Standard input
// and output are used only where an end of a copy is "-"; all else goes to `out` and `err`.
int RunProgram(const std::vector<std::string>& arguments, std::ostream& out, std::ostream& err);

}  // namespace onecopy::cli
