// The program `onecopy-bench`.
#include <iostream>
#include <string>
#include <vector>

#include "bench/program.h"
#include "transport/shim/cuda.h"

int main(int argc, char** argv) {
  onecopy::shim::UsePciBusOrder();  // before any thread: it changes the environment
  const std::vector<std::string> arguments(argv + (argc > 0 ? 1 : 0), argv + argc);
  return onecopy::bench::RunProgram(arguments, {std::cout, std::cerr});
}
