// The conformance suite of links on UCX's RDMA transports, between the guest's two devices.
#include "tests/conformance/link/links.h"
#include "tests/rdma/ucx_pair.h"

namespace onecopy::testing {

const std::vector<LinkUnderTest>& Links() {
  static const std::vector<LinkUnderTest> links = {
      {"ucx, rxe0 read by rxe1", [] { return MakeUcxPair("rxe0", "rxe1"); }, {}, true},
      {"ucx, both devices at each end", [] { return MakeUcxPair("rxe*", "rxe*"); }, {}, true},
  };
  return links;
}

}  // namespace onecopy::testing
