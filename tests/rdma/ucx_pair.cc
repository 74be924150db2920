#include "tests/rdma/ucx_pair.h"

#include <cstdlib>

#include "transport/core/toolkit/rdma_settings.h"
#include "transport/link/ucx/factory.h"
#include "transport/shim/ucx.h"

namespace onecopy::testing {
namespace {

// What UCX 1.13 needs on Soft-RoCE, and what its user would set there: its ud transport takes no
// packet of an IPv4 address otherwise, and retry count 7 means for ever.
[[maybe_unused]] const bool kPrepared = [] {
  shim::PrepareUcxEnvironment();
  ::setenv("UCX_UD_VERBS_ETH_DGID_CHECK", "n", 1);
  ::setenv("UCX_RC_RETRY_COUNT", "6", 1);
  ::setenv("UCX_RC_TIMEOUT", "100ms", 1);
  return true;
}();

Result<std::unique_ptr<Link>> MakeUcx(const std::string& node, const std::string& device) {
  Backend<Link> ucx = ucx::Describe();
  BackendContext context{node, Settings(ucx.settings), {}, {}};
  context.rdma = Settings(RdmaSettings());
  context.rdma.Set("devices", std::vector<std::string>{device});
  context.settings.Set("transports", std::vector<std::string>{"rc_verbs", "ud_verbs"});
  return ucx.create(context);
}

}  // namespace

Result<std::unique_ptr<LinkPair>> MakeUcxPair(const std::string& owner, const std::string& reader) {
  auto pair = std::make_unique<LinkPair>();
  ONECOPY_ASSIGN_OR_RETURN(pair->owner, MakeUcx("owner", owner));
  ONECOPY_ASSIGN_OR_RETURN(pair->reader, MakeUcx("reader", reader));
  return pair;
}

}  // namespace onecopy::testing
