#include "tests/support/lent_verbs.h"

#include <unistd.h>

#include <cstdlib>

#include "tests/support/process.h"

namespace onecopy::testing {
namespace {

constexpr const char* kVariable = "ONECOPY_TEST_VERBS";

}  // namespace

LentVerbs::LentVerbs() {
  std::filesystem::create_directory(folder_ / "dmabufs");
  std::filesystem::create_directory(folder_ / "removed");
}

std::filesystem::path LentVerbs::Library() {
  return ProgramFolder() / "support/libonecopy_test_verbs.so";
}

std::string LentVerbs::Environment() const {
  return std::string(kVariable) + "=" + folder_.path().string();
}

void LentVerbs::ControlThisProcess() const { ::setenv(kVariable, folder_.path().c_str(), 1); }

void LentVerbs::Tell(const DmaBuf& buffer, const DmaBuf& memory) {
  std::filesystem::create_symlink(
      "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(memory.memory_fd()),
      folder_.path() / "dmabufs" / std::to_string(buffer.inode()));
}

void LentVerbs::Forget(const DmaBuf& buffer) {
  std::filesystem::remove(folder_.path() / "dmabufs" / std::to_string(buffer.inode()));
}

void LentVerbs::Remove(const std::string& device) {
  WriteFile(folder_.path() / "removed" / device, "");
}

void LentVerbs::PutBack(const std::string& device) {
  std::filesystem::remove(folder_.path() / "removed" / device);
}

void LentVerbs::SetQueuePairsUsedUp(bool used_up) { SetFile("no-queue-pairs", used_up); }

void LentVerbs::SetNoWindows(bool none) { SetFile("no-windows", none); }

void LentVerbs::SetFile(const std::string& name, bool there) {
  const std::filesystem::path file = folder_.path() / name;
  if (there) {
    WriteFile(file, "");
  } else {
    std::filesystem::remove(file);
  }
}

}  // namespace onecopy::testing
