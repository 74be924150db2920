// How connections end.
#include <atomic>

#include "tests/conformance/link/links.h"
#include "tests/support/catch.h"
#include "tests/support/memory.h"

using namespace onecopy;
using namespace onecopy::testing;

namespace {

std::future<Status> Closed(Connection& connection) {
  auto promise = std::make_shared<std::promise<Status>>();
  std::future<Status> future = promise->get_future();
  connection.OnClosed([promise](Status why) { promise->set_value(std::move(why)); });
  return future;
}

}  // namespace

TEST_CASE("closing one end closes the other, and every get completes once") {
  ONECOPY_FOR_EACH_LINK(link);
  auto pair = link.make();
  REQUIRE_OK(pair);
  auto connected = Connect(**pair);
  REQUIRE_OK(connected);
  auto owner_closed = Closed(*connected->owner);
  auto reader_closed = Closed(*connected->reader);

  const RegionRef source = HostRegion(32 << 20);
  const RegionRef sink = HostRegion(32 << 20);
  auto key = connected->Export({source, 0, source->bytes()});
  REQUIRE_OK(key);
  std::vector<std::future<Got>> gets;
  for (uint64_t at = 0; at < source->bytes(); at += 1 << 20) {
    gets.push_back(connected->StartGet({1, &*key, at, {sink, at, 1 << 20}}));
  }
  connected->owner->Close({Code::kUnavailable, "TEST", "closed by the test"});
  for (auto& get : gets) {
    const Status status = get.get().status;  // some may have been quicker than the end
    CHECK((status.ok() || status.code() == Code::kUnavailable));
  }
  CHECK(owner_closed.get().reason() == "TEST");
  CHECK(reader_closed.get().code() == Code::kUnavailable);

  // What comes afterwards is refused, and completes as well.
  CHECK_FALSE(connected->StartGet({1, &*key, 0, {sink, 0, 1}}).get().status.ok());
  CHECK_FALSE(connected->reader->Send(1, {}).ok());
  CHECK_FALSE(connected->Export({source, 0, 1}).ok());
  CHECK_FALSE(Closed(*connected->reader).get().ok());
}

TEST_CASE("a link that shuts down ends its connections on both sides") {
  ONECOPY_FOR_EACH_LINK(link);
  auto pair = link.make();
  REQUIRE_OK(pair);
  auto connected = Connect(**pair);
  REQUIRE_OK(connected);
  auto reader_closed = Closed(*connected->reader);
  connected->owner.reset();
  (*pair)->owner->Shutdown();
  CHECK(reader_closed.get().code() == Code::kUnavailable);
}

TEST_CASE("two connections of one pair of nodes do not disturb each other") {
  ONECOPY_FOR_EACH_LINK(link);
  auto pair = link.make();
  REQUIRE_OK(pair);
  auto first = Connect(**pair);
  auto second = Connect(**pair);
  REQUIRE_OK(first);
  REQUIRE_OK(second);
  const RegionRef source = HostRegion(1 << 20);
  const RegionRef sink = HostRegion(1 << 20);
  auto key = second->Export({source, 0, source->bytes()});
  REQUIRE_OK(key);
  auto closed = Closed(*first->reader);
  first->reader->Close({Code::kCancelled, "TEST", "closed by the test"});
  closed.wait();
  CHECK(second->StartGet({1, &*key, 0, {sink, 0, sink->bytes()}}).get().status.ok());
  // A key is good on its own connection only.
  auto third = Connect(**pair);
  REQUIRE_OK(third);
  CHECK_FALSE(third->StartGet({1, &*key, 0, {sink, 0, 1}}).get().status.ok());
}

TEST_CASE("an offer or an answer that makes no sense is refused") {
  ONECOPY_FOR_EACH_LINK(link);
  auto pair = link.make();
  REQUIRE_OK(pair);
  for (const std::string& offer :
       {std::string(), std::string("x"), std::string(8, '\xff'), std::string(5000, 'x')}) {
    CHECK(Accept(*(*pair)->owner, "reader", offer).status().code() == Code::kInvalidArgument);
  }
  auto dialing = Dial(*(*pair)->reader, "owner");
  REQUIRE_OK(dialing);
  std::promise<Status> done;
  (*dialing)->Establish("127.0.0.1", "garbage",
                        [&](auto connection) { done.set_value(connection.status()); });
  CHECK(done.get_future().get().code() == Code::kInvalidArgument);
}
