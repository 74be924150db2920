#include "transport/shim/verbs.h"

#include <cstring>

#include "transport/core/reasons.h"
#include "transport/shim/library.h"

namespace onecopy::shim {

int VerbsApi::QueryPort(ibv_context* context, uint8_t port, ibv_port_attr* attributes) const {
  // The library fills what the structure had when the function was first made, which is a prefix.
  std::memset(attributes, 0, sizeof *attributes);
  return QueryPortCompat(context, port, reinterpret_cast<_compat_ibv_port_attr*>(attributes));
}

Result<std::shared_ptr<const VerbsApi>> LoadVerbs(const std::string& path) {
  ONECOPY_ASSIGN_OR_RETURN(
      const Library library,
      Library::Open(path, "libibverbs.so.1", "ibverbs", reasons::kLinkMissing, "libibverbs1"));
  auto api = std::make_shared<VerbsApi>();
  const char* missing = nullptr;
  auto find = [&](auto& member, const char* symbol, bool required) {
    member = reinterpret_cast<std::remove_reference_t<decltype(member)>>(library.Find(symbol));
    if (member == nullptr && required) missing = symbol;
  };
#define ONECOPY_VERBS_FIND(member, symbol) find(api->member, #symbol, true);
#define ONECOPY_VERBS_TRY(member, symbol) find(api->member, #symbol, false);
  ONECOPY_VERBS_FUNCTIONS(ONECOPY_VERBS_FIND)
  ONECOPY_VERBS_OPTIONAL_FUNCTIONS(ONECOPY_VERBS_TRY)
#undef ONECOPY_VERBS_TRY
#undef ONECOPY_VERBS_FIND
  if (missing != nullptr) {
    return Status(
        Code::kFailedPrecondition, reasons::kLinkMissing,
        library.name() + " has no function " + missing + ": it is older than rdma-core 44",
        "install rdma-core 44 or newer");
  }
  return std::shared_ptr<const VerbsApi>(std::move(api));
}

}  // namespace onecopy::shim
