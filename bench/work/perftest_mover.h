// Other people's programs that read remote memory, as ceilings: ib_read_bw and ucx_perftest.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "bench/measure/mover.h"
#include "bench/work/rdma_ports.h"

namespace onecopy::bench {

// Runs such a program once for each sample, a server at the east port and a client at the west one,
// which reads. They choose their own payload and do not look at it, so there is nothing to verify.
class PerftestMover final : public Mover {
 public:
  struct Programs {
    std::vector<std::string> server;  // with their paths
    std::vector<std::string> client;
    // Bytes per second in what the client prints; 0 where there is none yet.
    double (*rate)(const std::string& line) = nullptr;
  };
  PerftestMover(Programs programs, uint64_t bytes);

  Status Fill(uint64_t) override { return OkStatus(); }
  Result<Moved> Move() override;
  Result<bool> Verify(uint64_t) override { return true; }

 private:
  Result<double> RunOnce();

  const Programs programs_;
  const uint64_t bytes_;
};

// NOT_FOUND where the program is not installed.
Result<std::unique_ptr<Mover>> MakeReadBw(const RdmaPorts& ports, uint64_t bytes,
                                          uint64_t read_bytes);
Result<std::unique_ptr<Mover>> MakeUcxPerftest(const RdmaPorts& ports, uint64_t bytes,
                                               uint64_t read_bytes);

// Bytes per second in a line that the program prints, or 0.
double ReadBwRate(const std::string& line);
double UcxPerftestRate(const std::string& line);

}  // namespace onecopy::bench
