// A process forks before it has ever used gRPC: a program of its own, as that cannot be undone.
#include "tests/faults/serving.h"
#include "tests/support/catch.h"
#include "tests/support/in_child.h"

namespace client_forked_first_test {
namespace {

using onecopy::Client;
using namespace onecopy::testing;

}  // namespace

TEST_CASE("a child connects for itself where its parent had not, and so do two beside each other") {
  Node east("east");
  const auto connects = [&](const std::string& name) {
    auto client = Client::Connect({.run_dir = east.run_dir()});
    if (!client.ok()) return 1;
    const auto buffer = client->CreateHostBuffer(name, 4096);
    if (!buffer.ok()) return 2;
    return client->GetBuffer("", name).ok() ? 0 : 3;
  };
  CHECK(InChild([&] { return connects("a"); }) == 0);
  CHECK(InChild([&] { return InChild([&] { return connects("b"); }); }) == 0);
  CHECK(connects("c") == 0);
  CHECK(InChild([&] { return connects("d"); }) == 1);
  CHECK(connects("e") == 0);
}
}  // namespace client_forked_first_test
