// libibverbs, opened at run time and never linked. What verbs.h defines inline (posting, polling)
// goes through the device's own table and needs no library; what it exports is here.
#pragma once

#include <infiniband/verbs.h>

#include <memory>
#include <string>

#include "onecopy/result.h"

namespace onecopy::shim {

// Member of VerbsApi, and the symbol behind it. The header hides some of them behind macros or
// inline functions that would need the library at link time.
#define ONECOPY_VERBS_FUNCTIONS(X)                \
  X(GetDeviceList, ibv_get_device_list)           \
  X(FreeDeviceList, ibv_free_device_list)         \
  X(GetDeviceName, ibv_get_device_name)           \
  X(OpenDevice, ibv_open_device)                  \
  X(CloseDevice, ibv_close_device)                \
  X(QueryDevice, ibv_query_device)                \
  X(QueryPortCompat, ibv_query_port)              \
  X(QueryGidEx, _ibv_query_gid_ex)                \
  X(QueryPkey, ibv_query_pkey)                    \
  X(AllocPd, ibv_alloc_pd)                        \
  X(DeallocPd, ibv_dealloc_pd)                    \
  X(RegMr, ibv_reg_mr_iova2)                      \
  X(DeregMr, ibv_dereg_mr)                        \
  X(CreateCompChannel, ibv_create_comp_channel)   \
  X(DestroyCompChannel, ibv_destroy_comp_channel) \
  X(CreateCq, ibv_create_cq)                      \
  X(DestroyCq, ibv_destroy_cq)                    \
  X(GetCqEvent, ibv_get_cq_event)                 \
  X(AckCqEvents, ibv_ack_cq_events)               \
  X(CreateSrq, ibv_create_srq)                    \
  X(DestroySrq, ibv_destroy_srq)                  \
  X(CreateQp, ibv_create_qp)                      \
  X(ModifyQp, ibv_modify_qp)                      \
  X(QueryQp, ibv_query_qp)                        \
  X(DestroyQp, ibv_destroy_qp)                    \
  X(GetAsyncEvent, ibv_get_async_event)           \
  X(AckAsyncEvent, ibv_ack_async_event)           \
  X(WcStatusText, ibv_wc_status_str)              \
  X(EventText, ibv_event_type_str)                \
  X(PortStateText, ibv_port_state_str)

// Functions that an older library may lack; null then.
#define ONECOPY_VERBS_OPTIONAL_FUNCTIONS(X) X(RegDmaBufMr, ibv_reg_dmabuf_mr)

// The library's functions. A plain value: a test takes a copy and wraps the calls that it watches.
struct VerbsApi {
// NOLINTNEXTLINE(bugprone-macro-parentheses): a name that is declared takes none
#define ONECOPY_VERBS_MEMBER(member, symbol) decltype(&::symbol) member = nullptr;
  ONECOPY_VERBS_FUNCTIONS(ONECOPY_VERBS_MEMBER)
  ONECOPY_VERBS_OPTIONAL_FUNCTIONS(ONECOPY_VERBS_MEMBER)
#undef ONECOPY_VERBS_MEMBER

  // The whole of the attributes; 0, or an errno.
  int QueryPort(ibv_context* context, uint8_t port, ibv_port_attr* attributes) const;
};

// Opens `path`, or libibverbs.so.1 where that is empty. Any thread. FAILED_PRECONDITION with the
// reason LINK_MISSING where it is not there, cannot be loaded, or lacks a function.
Result<std::shared_ptr<const VerbsApi>> LoadVerbs(const std::string& path = {});

}  // namespace onecopy::shim
