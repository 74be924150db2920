// The program `onecopy`.
#include <iostream>
#include <string>
#include <vector>

#include "client/cli/program.h"

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + (argc > 0 ? 1 : 0), argv + argc);
  return onecopy::cli::RunProgram(arguments, std::cout, std::cerr);
}
