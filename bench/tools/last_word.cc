#include "bench/tools/last_word.h"

#include <fstream>

namespace onecopy::bench {

std::string LastWord(const std::string& log) {
  std::ifstream file(log);
  std::string last;
  for (std::string line; std::getline(file, line);) {
    if (!line.empty()) last = ": " + line;
  }
  return last;
}

}  // namespace onecopy::bench
