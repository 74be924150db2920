// UCX's sockets over loopback: what every machine with UCX has. What is measured elsewhere does not
// matter here: a get over them is emulated by UCX.
#include "tests/conformance/link/links.h"
#include "transport/core/toolkit/rdma_settings.h"
#include "transport/link/ucx/factory.h"
#include "transport/shim/ucx.h"

namespace onecopy::testing {
namespace {

[[maybe_unused]] const bool kPrepared = [] {
  shim::PrepareUcxEnvironment();
  return true;
}();

Result<std::unique_ptr<Link>> MakeUcx(const std::string& node, int64_t threads) {
  Backend<Link> ucx = ucx::Describe();
  BackendContext context{node, Settings(ucx.settings), {}, {}};
  context.rdma = Settings(RdmaSettings());
  context.settings.Set("transports", std::vector<std::string>{"tcp"});
  context.settings.Set("threads", threads);
  return ucx.create(context);
}

Result<std::unique_ptr<LinkPair>> MakeUcxPair(int64_t threads) {
  auto pair = std::make_unique<LinkPair>();
  ONECOPY_ASSIGN_OR_RETURN(pair->owner, MakeUcx("owner", threads));
  ONECOPY_ASSIGN_OR_RETURN(pair->reader, MakeUcx("reader", threads));
  return pair;
}

std::string WhyMissing() {
  const auto api = shim::LoadUcx();
  return api.ok() ? std::string() : api.status().message();
}

}  // namespace

const std::vector<LinkUnderTest>& Links() {
  static const std::vector<LinkUnderTest> links = {
      {"ucx over sockets, one thread", [] { return MakeUcxPair(1); }, WhyMissing()},
      {"ucx over sockets, two threads", [] { return MakeUcxPair(2); }, WhyMissing()},
  };
  return links;
}

}  // namespace onecopy::testing
