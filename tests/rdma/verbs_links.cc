// The conformance suite of links on verbs, between the guest's two devices.
#include "tests/conformance/link/links.h"
#include "transport/core/toolkit/rdma_settings.h"
#include "transport/link/verbs/factory.h"

namespace onecopy::testing {
namespace {

struct Shape {
  std::vector<std::string> owner_devices;
  std::vector<std::string> reader_devices;
  int64_t queue_pairs = 1;
  int64_t read_bytes = 1 << 20;
};

Result<std::unique_ptr<Link>> MakeVerbs(const std::string& node,
                                        const std::vector<std::string>& devices,
                                        const Shape& shape) {
  Backend<Link> verbs = verbs::Describe();
  BackendContext context{node, Settings(verbs.settings), {}, {}};
  context.rdma = Settings(RdmaSettings());
  context.rdma.Set("devices", devices);
  context.settings.Set("queue_pairs", shape.queue_pairs);
  context.settings.Set("read_bytes", shape.read_bytes);
  return verbs.create(context);
}

Result<std::unique_ptr<LinkPair>> MakePair(const Shape& shape) {
  auto pair = std::make_unique<LinkPair>();
  ONECOPY_ASSIGN_OR_RETURN(pair->owner, MakeVerbs("owner", shape.owner_devices, shape));
  ONECOPY_ASSIGN_OR_RETURN(pair->reader, MakeVerbs("reader", shape.reader_devices, shape));
  return pair;
}

}  // namespace

const std::vector<LinkUnderTest>& Links() {
  static const std::vector<LinkUnderTest> links = {
      {"verbs, one lane",
       [] {
         return MakePair({{"rxe0"}, {"rxe1"}});
       }},
      {"verbs, two devices at each end, two queue pairs, small reads",
       [] {
         return MakePair({{"rxe*"}, {"rxe0", "rxe1"}, 2, 100'000});
       }},
  };
  return links;
}

}  // namespace onecopy::testing
