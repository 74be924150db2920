// Programs that measure networks: ib_read_bw and ucx_perftest, over RDMA devices a server at the
// east port and a client at the west one, which reads. They do not look at what they move.
#pragma once

#include <memory>
#include <string>

#include "bench/measure/mover.h"
#include "bench/tools/rdma_ports.h"

namespace onecopy::bench {

// NOT_FOUND where the program is not installed.
Result<std::unique_ptr<Mover>> MakeReadBw(const RdmaPorts& ports, uint64_t bytes,
                                          uint64_t read_bytes);
Result<std::unique_ptr<Mover>> MakeUcxPerftest(const RdmaPorts& ports, uint64_t bytes,
                                               uint64_t read_bytes);

// Puts of 16 MiB, or of all bytes where those are fewer, between two processes over TCP on
// loopback, with UCX's own settings; `gpu`: into memory of a GPU, where this UCX knows any.
Result<std::unique_ptr<Mover>> MakeUcxPut(uint64_t bytes, bool gpu);

// Bytes per second in a line that the program prints, or 0.
double ReadBwRate(const std::string& line);
double UcxPerftestRate(const std::string& line);

}  // namespace onecopy::bench
