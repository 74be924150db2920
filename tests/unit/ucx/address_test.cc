// Worker addresses in sealed files: what is read, and from whom.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/support/catch.h"
#include "transport/link/ucx/address_file.h"
#include "transport/link/ucx/offer.h"

using namespace onecopy;
using namespace onecopy::ucx;

namespace {

constexpr int kAllSeals = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;

os::UniqueFd MemoryFile(const std::string& bytes, int seals) {
  os::UniqueFd fd(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  REQUIRE(::write(fd.get(), bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
  if (seals != 0) REQUIRE(::fcntl(fd.get(), F_ADD_SEALS, seals) == 0);
  return fd;
}

Result<std::string> Read(const os::UniqueFd& fd) {
  return ReadAddress(static_cast<uint32_t>(::getpid()), static_cast<uint32_t>(fd.get()));
}

}  // namespace

TEST_CASE("an address that was published is read") {
  const auto file = PublishAddress("an address");
  REQUIRE_OK(file);
  const auto address = Read(*file);
  REQUIRE_OK(address);
  CHECK(*address == "an address");
}

TEST_CASE("what is no sealed address of this user is refused") {
  CHECK_FALSE(Read(MemoryFile(Seal("a"), 0)).ok());
  CHECK_FALSE(Read(MemoryFile(Seal("a"), F_SEAL_SHRINK | F_SEAL_GROW)).ok());
  CHECK_FALSE(Read(MemoryFile("a", kAllSeals)).ok());
  CHECK_FALSE(Read(MemoryFile("", kAllSeals)).ok());
  CHECK_FALSE(Read(MemoryFile(std::string(100'000, 'x'), kAllSeals)).ok());
  CHECK_FALSE(Read(os::UniqueFd(::open("/dev/zero", O_RDONLY | O_CLOEXEC))).ok());
  CHECK_FALSE(Read(os::UniqueFd(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC))).ok());
  CHECK_FALSE(ReadAddress(static_cast<uint32_t>(::getpid()), 100'000).ok());
  CHECK(ReadAddress(UINT32_MAX, 0).status().code() == Code::kPermissionDenied);
  int ends[2] = {-1, -1};
  REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);  // nobody writes: must not block
  const os::UniqueFd reading(ends[0]);
  const os::UniqueFd writing(ends[1]);
  CHECK_FALSE(Read(reading).ok());
}
