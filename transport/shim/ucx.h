// UCX (libucp), opened at run time and never linked. Typed by the headers of UCX 1.13; its
// structures carry masks of their valid fields, so what is compiled here runs on newer libraries.
#pragma once

#include <ucp/api/ucp.h>

#include <memory>
#include <string>

#include "onecopy/result.h"

namespace onecopy::shim {

// What is asked for: older libraries are refused, newer ones keep to it.
inline constexpr unsigned kOldestUcxMajor = 1;
inline constexpr unsigned kOldestUcxMinor = 13;

// Member of UcxApi, and the symbol behind it. ucs_status_string is libucs's, which libucp brings.
#define ONECOPY_UCX_FUNCTIONS(X)                        \
  X(GetVersion, ucp_get_version)                        \
  X(GetVersionString, ucp_get_version_string)           \
  X(StatusText, ucs_status_string)                      \
  X(ConfigRead, ucp_config_read)                        \
  X(ConfigModify, ucp_config_modify)                    \
  X(ConfigRelease, ucp_config_release)                  \
  X(InitVersion, ucp_init_version)                      \
  X(Cleanup, ucp_cleanup)                               \
  X(ContextQuery, ucp_context_query)                    \
  X(ContextPrintInfo, ucp_context_print_info)           \
  X(WorkerCreate, ucp_worker_create)                    \
  X(WorkerDestroy, ucp_worker_destroy)                  \
  X(WorkerGetAddress, ucp_worker_get_address)           \
  X(WorkerReleaseAddress, ucp_worker_release_address)   \
  X(WorkerProgress, ucp_worker_progress)                \
  X(WorkerGetEfd, ucp_worker_get_efd)                   \
  X(WorkerArm, ucp_worker_arm)                          \
  X(WorkerSetAmHandler, ucp_worker_set_am_recv_handler) \
  X(EpCreate, ucp_ep_create)                            \
  X(EpClose, ucp_ep_close_nbx)                          \
  X(MemMap, ucp_mem_map)                                \
  X(MemUnmap, ucp_mem_unmap)                            \
  X(RkeyPack, ucp_rkey_pack)                            \
  X(RkeyBufferRelease, ucp_rkey_buffer_release)         \
  X(RkeyUnpack, ucp_ep_rkey_unpack)                     \
  X(RkeyDestroy, ucp_rkey_destroy)                      \
  X(Get, ucp_get_nbx)                                   \
  X(AmSend, ucp_am_send_nbx)                            \
  X(RequestQuery, ucp_request_query)                    \
  X(RequestStatus, ucp_request_check_status)            \
  X(RequestFree, ucp_request_free)

// The library's functions. A plain value.
struct UcxApi {
// NOLINTNEXTLINE(bugprone-macro-parentheses): a name that is declared takes none
#define ONECOPY_UCX_MEMBER(member, symbol) decltype(&::symbol) member = nullptr;
  ONECOPY_UCX_FUNCTIONS(ONECOPY_UCX_MEMBER)
#undef ONECOPY_UCX_MEMBER

  std::string library;      // the path or soname that was opened
  std::string passed_over;  // a better one that could not be, and why; empty: there was none

  // Whether the library is at least that version.
  bool NotOlderThan(unsigned major, unsigned minor) const;
};

// Sets what UCX reads once, when it is loaded, and that a daemon needs otherwise than UCX has it;
// what the user has set stays. Changes the environment: to be called by a program's main function,
// before it starts threads and before anything of UCX is loaded. See README.md of
// transport/link/ucx for the choices.
void PrepareUcxEnvironment();

// Opens `path`. Where that is empty: the vendor's library that ChooseUcx names, or, if there is
// none or it cannot be used (`passed_over`), the system's libucp.so.0. Any thread.
// FAILED_PRECONDITION with the reason LINK_MISSING where it is not there, cannot be loaded, or is
// older than 1.13.
Result<std::shared_ptr<const UcxApi>> LoadUcx(const std::string& path = {});

}  // namespace onecopy::shim
