#include "bench/work/works.h"

namespace onecopy::bench {

const std::vector<Work>& AllWorks() {
  static const std::vector<Work> works = {
      {"tcp host to host", HostOverTcp},
      {"tcp gpu to gpu", GpuOverTcp},
      {"local host to host", HostInNode},
      {"peer gpu to gpu", GpuInNode},
      {"rdma host to host", HostOverRdma},
      {"ucx host to host", HostOverUcx},
      {"rdma after losses", RdmaAfterLosses},
      {"daemon memory", DaemonMemory},
      {"idle cpu", IdleCpu},
      {"ready", ReadyTime},
  };
  return works;
}

}  // namespace onecopy::bench
