#include "tests/conformance/link/links.h"

#include "transport/link/tcp/factory.h"

namespace onecopy::testing {
namespace {

Result<std::unique_ptr<Link>> MakeTcp(const std::string& node, int64_t lanes, int64_t threads,
                                      const std::string& zero_copy) {
  Backend<Link> tcp = tcp::Describe();
  BackendContext context{node, Settings(tcp.settings), {}, {}};
  context.lanes = "127.0.0.1:0";
  context.settings.Set("lanes", lanes);
  context.settings.Set("threads", threads);
  context.settings.Set("zero_copy", zero_copy);
  return tcp.create(context);
}

Result<std::unique_ptr<LinkPair>> MakeTcpPair(int64_t lanes, int64_t threads,
                                              const std::string& zero_copy = "off") {
  auto pair = std::make_unique<LinkPair>();
  ONECOPY_ASSIGN_OR_RETURN(pair->owner, MakeTcp("owner", lanes, threads, zero_copy));
  ONECOPY_ASSIGN_OR_RETURN(pair->reader, MakeTcp("reader", lanes, threads, zero_copy));
  return pair;
}

}  // namespace

const std::vector<LinkUnderTest>& Links() {
  static const std::vector<LinkUnderTest> links = {
      {"tcp, one lane, one thread", [] { return MakeTcpPair(1, 1); }},
      {"tcp, four lanes, three threads", [] { return MakeTcpPair(4, 3); }},
      {"tcp, two lanes, from where the bytes lie", [] { return MakeTcpPair(2, 2, "always"); }},
  };
  return links;
}

}  // namespace onecopy::testing
