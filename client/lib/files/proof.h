// Which blocks of a local file and of a buffer are equal already.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "client/lib/calls/waiter.h"
#include "client/lib/memory/remote_range.h"
#include "onecopy/client.h"
#include "onecopy/range.h"
#include "onecopy/result.h"

namespace onecopy::client {

inline constexpr uint64_t kProofBlockBytes = uint64_t{1} << 20;

struct Proof {
  uint64_t proven_bytes = 0;
  std::vector<ByteRange> missing = {};  // the rest, in order, from the range's beginning on
};

// A file that is open for reading, whose byte at `offset` is to be the range's first.
struct ProvenFile {
  std::string name;
  int fd = -1;
  uint64_t offset = 0;
  // What is a hole is missing, and neither end reads it: as where nothing was written yet.
  bool holes_are_missing = false;
  // Only whether all is equal is asked: a first difference ends the reading.
  bool all_or_nothing = false;
};

// Compares checksums of blocks: the daemon reads the buffer's, this process the file's, and no
// payload moves. Where differences lie in very many places, blocks between them count as missing.
// Blocks; fails like Client::SumBlocks and Waiter::Check, and where the file cannot be read.
Result<Proof> ProveBlocks(Client& client, const ProvenFile& file, const RemoteRange& range,
                          const Waiter& waiter);

}  // namespace onecopy::client
