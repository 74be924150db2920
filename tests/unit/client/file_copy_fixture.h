// A daemon, a client of it, and files in its folder.
#pragma once

#include <cstddef>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

#include "client/lib/files/output_file.h"
#include "onecopy/file_copy.h"
#include "tests/unit/client/client_fixture.h"

namespace onecopy::testing {

inline std::string ContentOf(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Writes a file as a copy does, to its end.
inline Status WriteAsCopy(const LocalFile& to, std::string_view content, bool sync = false) {
  ONECOPY_ASSIGN_OR_RETURN(const auto waiter, client::Waiter::Make({}, {}));
  ONECOPY_ASSIGN_OR_RETURN(client::OutputFile file,
                           client::OutputFile::Open(to, content.size(), {.sync = sync}));
  ONECOPY_RETURN_IF_ERROR(
      file.Write(reinterpret_cast<const std::byte*>(content.data()), content.size(), *waiter));
  return file.Commit();
}

struct FileCopyFixture : ClientFixture {
  using ClientFixture::ClientFixture;

  std::string Write(const std::string& name, const std::string& content) {
    std::ofstream(dir / name, std::ios::binary) << content;
    return dir / name;
  }

  std::string Read(const std::string& name) { return ContentOf(dir / name); }
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
