// How much one user of this node may have at a time, and all of them together: section [limits] of
// the configuration. See Ledger.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace onecopy::engine {

struct Limit {
  uint64_t each = 0;   // of one who pays
  uint64_t total = 0;  // of all together, what is reserved for administrators included
};

struct Limits {
  // In bytes: of all that the daemon keeps, queues and promises, beside the buffers themselves.
  Limit memory{uint64_t{256} << 20, uint64_t{1} << 30};
  Limit sessions{1024, 4096};
  Limit namespaces{64, 256};      // in which one user is connected to api.sock
  Limit descriptors{1024, 8192};  // passed on attach.sock and not used yet
  Limit requests{8192, 32'768};   // that are not answered, or whose answers are not read
  Limit connections{1024, 4096};  // of an address, to each port
  Limit buffers{8192, 65'536};
  Limit grants{8192, 65'536};       // given
  Limit transfers{16'384, 65'536};  // under way
  Limit rings{256, 1024};
  Limit routes{4096, 32'768};     // of rings
  Limit openings{4096, 65'536};   // for rings of other nodes
  Limit files{512, 4096};         // of exports, open for users of other nodes
  Limit files_of_one{256, 4096};  // the same of each of a node's users, by that node's word
  Limit arrivals{4096, 65'536};   // that no watcher has acknowledged
  size_t arrivals_per_buffer = 1024;
  Limit watches{1024, 8192};  // of arrivals
  Limit slabs{64, 256};
  Limit mappings{1024, 4096};  // of buffers, by clients that use them in place
  // Whose requests' ids are remembered.
  Limit request_ids{2'097'152, 8'388'608};
  // For how long at least: what the API promises.
  std::chrono::milliseconds request_memory{600'000};
  // Of each total, for administrators alone.
  size_t reserved_percent = 5;
};

}  // namespace onecopy::engine
