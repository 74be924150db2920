// The registration of dma-bufs that Soft-RoCE lacks.
#pragma once

#include "tests/rdma/lend/real.h"

namespace onecopy::lend {

// As ibv_reg_dmabuf_mr, for a dma-buf whose memory the test has told: checks what the kernel checks
// for a device that has it, and registers the memory instead. For any other dma-buf, the real call.
ibv_mr* RegisterDmaBuf(ibv_pd* pd, uint64_t offset, size_t length, uint64_t iova, int fd,
                       int access);

// As ibv_dereg_mr, for regions of every kind.
int Deregister(ibv_mr* mr);

}  // namespace onecopy::lend
