// A daemon, a client of it, and files in its folder.
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <string_view>
#include <thread>

#include "client/lib/files/output_file.h"
#include "onecopy/file_copy.h"
#include "tests/support/failing_calls.h"
#include "tests/unit/client/client_fixture.h"

namespace onecopy::testing {

inline std::string ContentOf(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Of the file or folder itself, where it is a link.
inline mode_t ModeOf(const std::string& path) {
  struct stat facts {};
  REQUIRE(::lstat(path.c_str(), &facts) == 0);
  return facts.st_mode & 07777;
}

// What `work` returns on a thread whose system calls fail as FailCalls says.
inline Status WithFailingCalls(unsigned number, unsigned error, uint32_t least_bytes,
                               const std::function<Status()>& work) {
  Status done;
  std::thread([&] {
    const bool filtered = FailCalls(number, error, least_bytes);
    done = filtered ? work() : Status(Code::kInternal, "TEST", "no filter for system calls");
  }).join();
  return done;
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
