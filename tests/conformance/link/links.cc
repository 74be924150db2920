#include "tests/conformance/link/links.h"

#include <signal.h>

#include <map>

#include "tests/support/certificates.h"
#include "transport/link/tcp/factory.h"
#include "transport/tls/trust.h"

namespace onecopy::testing {
namespace {

Result<std::unique_ptr<Link>> MakeTcp(const std::string& node, int64_t lanes, int64_t threads,
                                      const std::string& zero_copy,
                                      std::vector<std::string> addresses) {
  Backend<Link> tcp = tcp::Describe();
  BackendContext context{node, Settings(tcp.settings), {}, {}};
  context.lanes = std::move(addresses);
  context.settings.Set("lanes", lanes);
  context.settings.Set("threads", threads);
  context.settings.Set("zero_copy", zero_copy);
  return tcp.create(context);
}

// The same with a certificate, so that lanes are encrypted.
Result<std::unique_ptr<Link>> MakeTls(const std::string& node, int64_t lanes) {
  static Authority authority;
  static std::map<std::string, std::shared_ptr<tls::Trust>> identities;
  std::shared_ptr<tls::Trust>& trust = identities[node];
  if (trust == nullptr) {
    const Authority::Files files = authority.Issue(node, "DNS:" + node);
    ONECOPY_ASSIGN_OR_RETURN(
        trust, tls::Trust::Open({authority.ca(), files.certificate, files.key, ""}, node));
  }
  Backend<Link> tcp = tcp::Describe();
  BackendContext context{node, Settings(tcp.settings), {}, {}};
  context.lanes = {"127.0.0.1:0"};
  context.settings.Set("lanes", lanes);
  context.settings.Set("threads", lanes);
  context.trust = trust;
  return tcp.create(context);
}

Result<std::unique_ptr<LinkPair>> MakeTlsPair(int64_t lanes) {
  ::signal(SIGPIPE, SIG_IGN);  // as in a daemon
  auto pair = std::make_unique<LinkPair>();
  ONECOPY_ASSIGN_OR_RETURN(pair->owner, MakeTls("owner", lanes));
  ONECOPY_ASSIGN_OR_RETURN(pair->reader, MakeTls("reader", lanes));
  return pair;
}

Result<std::unique_ptr<LinkPair>> MakeTcpPair(int64_t lanes, int64_t threads,
                                              const std::string& zero_copy = "off",
                                              std::vector<std::string> addresses = {
                                                  "127.0.0.1:0"}) {
  auto pair = std::make_unique<LinkPair>();
  ONECOPY_ASSIGN_OR_RETURN(pair->owner, MakeTcp("owner", lanes, threads, zero_copy, addresses));
  ONECOPY_ASSIGN_OR_RETURN(pair->reader,
                           MakeTcp("reader", lanes, threads, zero_copy, {"127.0.0.1:0"}));
  return pair;
}

}  // namespace

const std::vector<LinkUnderTest>& Links() {
  static const std::vector<LinkUnderTest> links = {
      {"tcp, one lane, one thread", [] { return MakeTcpPair(1, 1); }},
      {"tcp, four lanes, three threads", [] { return MakeTcpPair(4, 3); }},
      {"tcp, two lanes, from where the bytes lie", [] { return MakeTcpPair(2, 2, "always"); }},
      {"tcp, one lane for each of three addresses",
       [] {
         return MakeTcpPair(1, 2, "measured", {"127.0.0.1:0", "127.0.0.2:0", "127.0.0.3:0"});
       }},
      {"tcp, one lane, encrypted", [] { return MakeTlsPair(1); }},
      {"tcp, three lanes, encrypted", [] { return MakeTlsPair(3); }},
  };
  return links;
}

}  // namespace onecopy::testing
