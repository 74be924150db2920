// The exporter process, as a test drives it.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>

#include "onecopy/status.h"
#include "tests/conformance/memory/subject.h"
#include "tests/gpu/exporter_protocol.h"
#include "transport/core/contracts/memory.h"
#include "transport/os/base/unique_fd.h"

namespace onecopy::testing {

// Memory of the exporter, and what it sent for it.
struct Exported {
  uint32_t id = 0;
  Status status;          // of the export
  ImportRequest request;  // complete where the status is OK; `fd` is borrowed from below
  std::shared_ptr<os::UniqueFd> fd;
};

// A process of its own that uses CUDA as users do. Throws where the process itself fails, with
// its native error. One thread at a time.
class Exporter {
 public:
  Exporter();
  ~Exporter();
  Exporter(const Exporter&) = delete;
  Exporter& operator=(const Exporter&) = delete;

  struct Piece {
    MemoryKind kind = MemoryKind::kMalloc;
    int device = 0;  // N of "cuda:N"
    uint64_t allocation_bytes = 0;
    uint64_t offset = 0;
    bool on_new_thread = false;
  };
  Exported Allocate(const Piece& piece, const Bytes& content);
  Bytes Read(uint32_t id, uint64_t bytes);
  // The piece as a dma-buf, exported as the client library does.
  struct DmaBuf {
    os::UniqueFd fd;
    uint64_t offset = 0;
  };
  DmaBuf ExportDmaBuf(uint32_t id);
  void Flip(uint32_t id);
  void Free(uint32_t id);

  // SIGKILL, and waits until the process is gone.
  void Kill();

 private:
  ExporterReply Ask(const ExporterRequest& request, const Bytes& content, os::UniqueFd* fd);
  void ReadExactly(void* into, size_t bytes);

  os::UniqueFd socket_;
  pid_t pid_ = -1;
};

}  // namespace onecopy::testing
