#include "tests/conformance/link/links.h"

#include "transport/link/tcp/factory.h"

namespace onecopy::testing {
namespace {

Result<std::unique_ptr<Link>> MakeTcp(const std::string& node, int64_t lanes, int64_t threads) {
  Backend<Link> tcp = tcp::Describe();
  BackendContext context{node, Settings(tcp.settings), {}, {}};
  context.lanes = "127.0.0.1:0";
  context.settings.Set("lanes", lanes);
  context.settings.Set("threads", threads);
  return tcp.create(context);
}

Result<std::unique_ptr<LinkPair>> MakeTcpPair(int64_t lanes, int64_t threads) {
  auto pair = std::make_unique<LinkPair>();
  ONECOPY_ASSIGN_OR_RETURN(pair->owner, MakeTcp("owner", lanes, threads));
  ONECOPY_ASSIGN_OR_RETURN(pair->reader, MakeTcp("reader", lanes, threads));
  return pair;
}

}  // namespace

const std::vector<LinkUnderTest>& Links() {
  static const std::vector<LinkUnderTest> links = {
      {"tcp, one lane, one thread", [] { return MakeTcpPair(1, 1); }},
      {"tcp, four lanes, three threads", [] { return MakeTcpPair(4, 3); }},
  };
  return links;
}

}  // namespace onecopy::testing
