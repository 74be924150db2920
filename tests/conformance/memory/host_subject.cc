// The suite on host memory.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstring>

#include "tests/conformance/memory/subject.h"
#include "tests/support/catch.h"
#include "transport/memory/host/host_memory.h"
#include "transport/os/memory/mapping.h"

namespace onecopy::testing {
namespace {

class HostSubject final : public Subject {
 public:
  Memory& memory() override { return memory_; }
  std::vector<std::string> devices() override { return {""}; }
  uint64_t large_bytes() override { return uint64_t{4} << 30; }  // pages come on first touch
  std::vector<std::string> forms() override { return {"memfd"}; }

  Shared Share(const std::string&, const std::string&, uint64_t offset,
               const Bytes& content) override {
    auto fd = std::make_shared<os::UniqueFd>();
    auto made = os::SealedMemfd("client", offset + content.size());
    REQUIRE_OK(made);
    *fd = std::move(*made);
    const auto length = static_cast<ssize_t>(content.size());
    const auto at = static_cast<off_t>(offset);
    REQUIRE(::pwrite(fd->get(), content.data(), content.size(), at) == length);
    Shared shared = Request(fd, content.size());
    shared.request.offset = offset;
    shared.read = [fd, length, at] {
      Bytes read(static_cast<size_t>(length));
      REQUIRE(::pread(fd->get(), read.data(), read.size(), at) == length);
      return read;
    };
    return shared;
  }

  std::vector<std::pair<std::string, Shared>> BadRequests() override {
    const auto memfd = [](unsigned flags, int seals) {
      auto fd = std::make_shared<os::UniqueFd>(::memfd_create("client", flags | MFD_CLOEXEC));
      REQUIRE(::ftruncate(fd->get(), 4096) == 0);
      if (seals != 0) REQUIRE(::fcntl(fd->get(), F_ADD_SEALS, seals) == 0);
      return Request(fd, 4096);
    };
    std::array<int, 2> ends{};
    REQUIRE(::pipe(ends.data()) == 0);
    const os::UniqueFd writer(ends[1]);
    return {
        {"a memfd that cannot be written", memfd(MFD_ALLOW_SEALING, F_SEAL_SHRINK | F_SEAL_WRITE)},
        {"a pipe", Request(std::make_shared<os::UniqueFd>(ends[0]), 4096)},
        {"a file",
         Request(std::make_shared<os::UniqueFd>(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC)),
                 4096)},
    };
  }

  std::string copied_by() const override { return "cpu"; }

 private:
  static Shared Request(const std::shared_ptr<os::UniqueFd>& fd, uint64_t bytes) {
    Shared shared;
    shared.request.form = "memfd";
    shared.request.fd = fd->get();
    shared.request.bytes = bytes;
    shared.keep = fd;
    return shared;
  }

  host::HostMemory memory_{"test", 2};
};

}  // namespace

std::unique_ptr<Subject> MakeSubject(std::string&) { return std::make_unique<HostSubject>(); }

}  // namespace onecopy::testing
