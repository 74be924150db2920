// The conformance suite of memories on dma-bufs of udmabuf.
#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <cstring>

#include "tests/conformance/memory/subject.h"
#include "tests/support/catch.h"
#include "tests/support/guest.h"
#include "transport/memory/dmabuf/dmabuf_memory.h"
#include "transport/os/base/unique_fd.h"

namespace onecopy::testing {
namespace {

class DmaBufSubject final : public Subject {
 public:
  Memory& memory() override { return memory_; }
  std::vector<std::string> devices() override { return {""}; }
  bool allocates() const override { return false; }

  // The daemon's descriptor alone keeps the memory.
  Result<std::unique_ptr<Region>> Make(const std::string&, uint64_t bytes) override {
    const DmaBuf buffer(bytes);
    return memory_.Import(Request(buffer.fd(), 0, bytes));
  }
  uint64_t large_bytes() override { return uint64_t{128} << 20; }
  std::vector<std::string> forms() override { return {"dmabuf"}; }

  Shared Share(const std::string&, const std::string&, uint64_t offset,
               const Bytes& content) override {
    const auto buffer = std::make_shared<DmaBuf>(offset + content.size());
    std::byte* const piece = buffer->bytes().data() + offset;
    std::memcpy(piece, content.data(), content.size());
    Shared shared;
    shared.request = Request(buffer->fd(), offset, content.size());
    shared.keep = buffer;
    shared.read = [piece, bytes = content.size()] {
      Bytes read(bytes);
      std::memcpy(read.data(), piece, bytes);
      return read;
    };
    return shared;
  }

  std::vector<std::pair<std::string, Shared>> BadRequests() override {
    const auto of = [](int fd) {
      Shared shared;
      const auto kept = std::make_shared<os::UniqueFd>(fd);
      shared.request = Request(kept->get(), 0, 4096);
      shared.keep = kept;
      return shared;
    };
    const DmaBuf buffer(4096);
    std::array<int, 2> ends{};
    REQUIRE(::pipe(ends.data()) == 0);
    const os::UniqueFd writer(ends[1]);
    return {{"no descriptor", of(-1)},
            {"the memory behind a dma-buf",
             of(os::UniqueFd::DuplicateOf(buffer.memory_fd()).Release())},
            {"a pipe", of(ends[0])},
            {"an eventfd", of(::eventfd(0, EFD_CLOEXEC))},
            {"a device", of(::open("/dev/zero", O_RDWR | O_CLOEXEC))},
            {"a file", of(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC))}};
  }

  std::string copied_by() const override { return "cpu"; }

 private:
  static ImportRequest Request(int fd, uint64_t offset, uint64_t bytes) {
    ImportRequest request;
    request.form = "dmabuf";
    request.fd = fd;
    request.offset = offset;
    request.bytes = bytes;
    return request;
  }

  dmabuf::DmaBufMemory memory_{"test", 2};
};

}  // namespace

std::unique_ptr<Subject> MakeSubject(std::string& why) {
  why = DmaBuf::WhyNot();
  return why.empty() ? std::make_unique<DmaBufSubject>() : nullptr;
}

}  // namespace onecopy::testing
