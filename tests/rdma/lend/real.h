// The library behind this one. The header hides some functions behind macros of the same name;
// whoever defines or names them includes this instead.
#pragma once

#include <infiniband/verbs.h>

#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_reg_mr_iova

namespace onecopy::lend {

#define ONECOPY_LEND_FUNCTIONS(X) \
  X(ibv_alloc_pd)                 \
  X(ibv_close_device)             \
  X(ibv_create_cq)                \
  X(ibv_create_qp)                \
  X(ibv_create_srq)               \
  X(ibv_dereg_mr)                 \
  X(ibv_get_async_event)          \
  X(ibv_get_device_list)          \
  X(ibv_get_device_name)          \
  X(ibv_modify_qp)                \
  X(ibv_open_device)              \
  X(ibv_query_device)             \
  X(ibv_query_port)               \
  X(ibv_reg_dmabuf_mr)            \
  X(ibv_reg_mr)                   \
  X(ibv_reg_mr_iova)              \
  X(ibv_reg_mr_iova2)

struct RealVerbs {
// NOLINTNEXTLINE(bugprone-macro-parentheses): a name that is declared takes none
#define ONECOPY_LEND_MEMBER(name) decltype(&::name) name = nullptr;
  ONECOPY_LEND_FUNCTIONS(ONECOPY_LEND_MEMBER)
#undef ONECOPY_LEND_MEMBER
};

// libibverbs.so.1, which this library is linked to and so finds loaded. Ends the process where it
// lacks a function. Any thread.
const RealVerbs& Real();

}  // namespace onecopy::lend
