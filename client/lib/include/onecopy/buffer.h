// What a client asks of buffers and grants and what it is told about them.
#pragma once

#include "onecopy/language.h"  // first

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "onecopy/transfer.h"
#include "transport/core/ids.h"
#include "transport/core/range.h"

namespace onecopy {

struct BufferInfo {
  std::string node;
  std::string name;
  std::string id;      // changes when a buffer is made anew under the same name
  std::string memory;  // "host", "cuda", "dmabuf"
  std::string device;  // UUID of the GPU; empty for host memory
  uint64_t bytes = 0;
  std::string owner;        // uid@node
  bool registered = false;  // a client's own memory, rather than allocated by the daemon
  WallTime create_time;
  uint32_t transfers = 0;  // that use it now
};

struct CreateBufferRequest {
  std::string name = {};        // [A-Za-z0-9][A-Za-z0-9._-]{0,62}
  uint64_t bytes = 0;           // at least 1
  std::string memory = {};      // "host", "cuda:N" (nvidia-smi's order), a PCI address, a UUID
  std::string request_id = {};  // as in TransferRequest
};

// Checksum of a range as it was when it was read.
struct BufferSum {
  std::string algorithm;
  std::string value;  // in hexadecimal
  uint64_t bytes = 0;
};

// The right of another owner on a range of a buffer, until a time.
struct GrantInfo {
  GrantId id;
  std::string buffer;
  ByteRange range;
  std::string to;  // uid@node
  bool read = false;
  bool write = false;
  std::optional<WallTime> expire_time;  // absent: until it or the buffer is deleted
  std::string owner;                    // of the buffer, uid@node
  std::string node;                     // that has the buffer
};

struct CreateGrantRequest {
  Endpoint range = {};  // of a buffer of the node that the client is attached to
  std::string to = {};  // "1000@west", or "1000" for a uid of this node
  bool read = false;
  bool write = false;
  std::optional<std::chrono::milliseconds> lifetime = {};  // absent: no end
};

}  // namespace onecopy
