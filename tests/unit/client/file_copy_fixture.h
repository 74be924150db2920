// A daemon, a client of it, and files in its folder.
#pragma once

#include <fstream>
#include <sstream>
#include <string>

#include "onecopy/file_copy.h"
#include "tests/unit/client/client_fixture.h"

namespace onecopy::testing {

struct FileCopyFixture : ClientFixture {
  using ClientFixture::ClientFixture;

  std::string Write(const std::string& name, const std::string& content) {
    std::ofstream(dir / name, std::ios::binary) << content;
    return dir / name;
  }

  std::string Read(const std::string& name) {
    std::ifstream file(dir / name, std::ios::binary);
    std::ostringstream content;
    content << file.rdbuf();
    return content.str();
  }
};

// Options of a copy that goes by windows of so many bytes.
inline FileCopyOptions Windows(uint64_t bytes) {
  FileCopyOptions options;
  options.window_bytes = bytes;
  return options;
}

// Bytes in which every position can be told from its neighbours'.
inline std::string Pattern(size_t bytes, unsigned seed = 1) {
  std::string text(bytes, '\0');
  unsigned state = seed;
  for (char& c : text) {
    state = state * 1664525u + 1013904223u;
    c = static_cast<char>(state >> 24);
  }
  return text;
}

}  // namespace onecopy::testing
