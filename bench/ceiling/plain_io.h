// The ceilings of files: plain programs that read or write one as fast as they can.
#pragma once

#include <memory>
#include <string>

#include "bench/ceiling/payload_file.h"
#include "bench/measure/mover.h"
#include "transport/os/memory/mapping.h"

namespace onecopy::bench {

struct PlainIoParams {
  std::string file = {};  // which does not exist yet, and goes with the object
  uint64_t bytes = 1;
  bool writes = false;  // a new file each time
  bool cold = false;    // what is read is not in the page cache
  bool direct = false;  // O_DIRECT; a part of a page at the end goes through the page cache
  // By an io_uring with so many calls under way, or, where that is 0, by so many threads that call
  // pread or pwrite.
  unsigned ring_depth = 0;
  unsigned threads = 16;
  uint64_t call_bytes = uint64_t{1} << 20;  // a multiple of 4096
};

// Between a file and resident memory of the kind that the daemon's buffers are (a memfd). One
// thread at a time.
class PlainIo final : public Mover {
 public:
  // As PayloadFile; FAILED_PRECONDITION without io_uring.
  static Result<std::unique_ptr<PlainIo>> Create(const PlainIoParams& params);

  Status Fill(uint64_t seed) override;
  Result<Moved> Move() override;
  Result<bool> Verify(uint64_t seed) override;

 private:
  explicit PlainIo(const PlainIoParams& params) : params_(params) {}
  Status ByThreads(int fd, uint64_t bytes, double& seconds);
  Status ByRing(int fd, uint64_t bytes);
  Status Call(int fd, uint64_t at, uint64_t bytes) const;
  Status Failed(int64_t result) const;

  const PlainIoParams params_;
  std::unique_ptr<PayloadFile> file_;
  os::Mapping memory_;
};

}  // namespace onecopy::bench
