// The program `onecopy-manual DIR`, which the build runs: writes manual pages and completions.
#include <exception>
#include <iostream>

#include "deploy/manual/pages.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: onecopy-manual DIR\n";
    return 2;
  }
  try {
    onecopy::manual::WriteAll(argv[1]);
  } catch (const std::exception& failure) {
    std::cerr << "onecopy-manual: " << failure.what() << '\n';
    return 1;
  }
}
