// What this library defines of libibverbs; dlsym on it finds everything else in the real one.
#include <cerrno>

#include "tests/rdma/lend/control.h"
#include "tests/rdma/lend/device.h"
#include "tests/rdma/lend/dmabuf.h"
#include "tests/rdma/lend/real.h"

using onecopy::lend::IsRemoved;
using onecopy::lend::NoQueuePairs;
using onecopy::lend::NoWindows;
using onecopy::lend::Real;
using onecopy::lend::RealEvents;

namespace {

template <typename T>
T* Refuse(int error) {
  errno = error;
  return nullptr;
}

}  // namespace

extern "C" {

ibv_device** ibv_get_device_list(int* count) { return onecopy::lend::ListDevices(count); }

ibv_context* ibv_open_device(ibv_device* device) { return onecopy::lend::OpenDevice(device); }

int ibv_close_device(ibv_context* context) { return onecopy::lend::CloseDevice(context); }

int ibv_get_async_event(ibv_context* context, ibv_async_event* event) {
  return onecopy::lend::NextAsyncEvent(context, event);
}

ibv_mr* ibv_reg_dmabuf_mr(ibv_pd* pd, uint64_t offset, size_t length, uint64_t iova, int fd,
                          int access) {
  if (IsRemoved(pd->context)) return Refuse<ibv_mr>(EIO);
  return onecopy::lend::RegisterDmaBuf(pd, offset, length, iova, fd, access);
}

ibv_mr* ibv_reg_mr(ibv_pd* pd, void* address, size_t length, int access) {
  if (IsRemoved(pd->context)) return Refuse<ibv_mr>(EIO);
  return Real().ibv_reg_mr(pd, address, length, access);
}

ibv_mr* ibv_reg_mr_iova(ibv_pd* pd, void* address, size_t length, uint64_t iova, int access) {
  if (IsRemoved(pd->context)) return Refuse<ibv_mr>(EIO);
  return Real().ibv_reg_mr_iova(pd, address, length, iova, access);
}

ibv_mr* ibv_reg_mr_iova2(ibv_pd* pd, void* address, size_t length, uint64_t iova,
                         unsigned int access) {
  if (IsRemoved(pd->context)) return Refuse<ibv_mr>(EIO);
  return Real().ibv_reg_mr_iova2(pd, address, length, iova, access);
}

int ibv_dereg_mr(ibv_mr* mr) { return onecopy::lend::Deregister(mr); }

ibv_pd* ibv_alloc_pd(ibv_context* context) {
  return IsRemoved(context) ? Refuse<ibv_pd>(EIO) : Real().ibv_alloc_pd(context);
}

ibv_cq* ibv_create_cq(ibv_context* context, int entries, void* cq_context,
                      ibv_comp_channel* channel, int vector) {
  if (IsRemoved(context)) return Refuse<ibv_cq>(EIO);
  const RealEvents events(context);
  return Real().ibv_create_cq(context, entries, cq_context, channel, vector);
}

ibv_srq* ibv_create_srq(ibv_pd* pd, ibv_srq_init_attr* attributes) {
  if (IsRemoved(pd->context)) return Refuse<ibv_srq>(EIO);
  const RealEvents events(pd->context);
  return Real().ibv_create_srq(pd, attributes);
}

ibv_qp* ibv_create_qp(ibv_pd* pd, ibv_qp_init_attr* attributes) {
  if (IsRemoved(pd->context)) return Refuse<ibv_qp>(EIO);
  if (NoQueuePairs()) return Refuse<ibv_qp>(ENOMEM);
  const RealEvents events(pd->context);
  return Real().ibv_create_qp(pd, attributes);
}

int ibv_modify_qp(ibv_qp* qp, ibv_qp_attr* attributes, int mask) {
  return IsRemoved(qp->context) ? EIO : Real().ibv_modify_qp(qp, attributes, mask);
}

int ibv_query_device(ibv_context* context, ibv_device_attr* attributes) {
  if (IsRemoved(context)) return EIO;
  const int error = Real().ibv_query_device(context, attributes);
  if (error == 0 && NoWindows()) {
    attributes->device_cap_flags &=
        ~(IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_WINDOW_TYPE_2A | IBV_DEVICE_MEM_WINDOW_TYPE_2B);
    attributes->max_mw = 0;
  }
  return error;
}

int ibv_query_port(ibv_context* context, uint8_t port, _compat_ibv_port_attr* attributes) {
  return IsRemoved(context) ? EIO : Real().ibv_query_port(context, port, attributes);
}

}  // extern "C"
