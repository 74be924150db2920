// Memory of any exporter of dma-bufs as a backend of the daemon.
#pragma once

#include "transport/core/contracts/backend.h"

namespace onecopy::dmabuf {

// Always viable: whether a buffer can be used is for its own dma-buf to show. Settings:
// copy_threads.
Backend<Memory> Describe();

}  // namespace onecopy::dmabuf
