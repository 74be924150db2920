// A store, folders on unlike file systems, and calls that wait for their end.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/conformance/store/subject.h"
#include "tests/support/memory.h"
#include "transport/os/base/unique_fd.h"

namespace onecopy::testing {

// A folder that goes with the test.
class Folder {
 public:
  explicit Folder(const std::string& below);
  ~Folder();
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

// Where there is one: a folder on a disk, one on a tmpfs, and one on xfs.
std::vector<std::string> FileSystems();
bool IsTmpfs(const std::string& path);

struct Moved {
  Status status;
  FilePass pass = FilePass::kPageCache;
  bool on_executor = false;
};

class StoreCase {
 public:
  StoreCase();  // skips where there is no store to be had

  Store& store() { return *store_; }

  // `direct`: with a second descriptor of the same file, where its file system has such.
  Result<std::shared_ptr<StoreFile>> Open(const std::string& path, FileUse use, bool direct = false,
                                          const Uid& owner = 0);
  Result<std::shared_ptr<StoreFile>> Open(OpenFileRequest request);

 private:
  std::unique_ptr<Store> store_;
};

// Waits for the end, which comes once and on the file's executor.
Moved Read(StoreFile& file, uint64_t offset, const Span& into);
Moved Write(StoreFile& file, uint64_t offset, const Span& from);

// A file of so many bytes of the pattern, on the disk and out of the page cache.
void WritePattern(const std::string& path, uint64_t bytes, uint64_t seed);
// Whether the file is exactly that pattern.
bool IsPattern(const std::string& path, uint64_t bytes, uint64_t seed);

}  // namespace onecopy::testing
