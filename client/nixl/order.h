// What NIXL's descriptors ask for, as requests of onecopy.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "client/nixl/abi.h"
#include "onecopy/result.h"
#include "onecopy/transfer.h"

namespace onecopy::nixl {

// Where memory that was registered lies: `address` is that of the first byte of the buffer, in the
// process that has it.
struct Place {
  std::string node;    // empty: the agent's own
  std::string buffer;  // empty: memory without bytes
  uintptr_t address = 0;
};

// A piece of it.
struct Piece {
  const Place* place;
  uintptr_t address;
  uint64_t bytes;
};

// From local[i] to remote[i] for a write, the other way for a read; neighbours are joined, and what
// has no bytes asks for nothing: without any, there is no request. INVALID_ARGUMENT (SIZE_MISMATCH)
// for unlike numbers or sizes; OUT_OF_RANGE (RANGE_OUT_OF_BUFFER) for a piece that begins before
// its place; where places end the daemons know.
Result<std::vector<TransferRequest>> MakeRequests(abi::Operation operation,
                                                  const std::vector<Piece>& local,
                                                  const std::vector<Piece>& remote,
                                                  const Policy& policy);

}  // namespace onecopy::nixl
