// Names of namespaces: the same for the same, and never given twice.
#include "transport/os/machine/namespace_names.h"

#include <fcntl.h>

#include <set>
#include <vector>

#include "tests/support/catch.h"

using namespace onecopy;
using os::NamespaceNames;

namespace {

os::NamespaceView Own() { return {.own = true}; }
os::NamespaceView Numbered(uint64_t number) {
  return {.number = number,
          .held = std::make_shared<os::UniqueFd>(::open("/dev/null", O_RDONLY | O_CLOEXEC))};
}
os::ProcessNamespaces Seen(os::NamespaceView user, os::NamespaceView pid,
                           const std::string& cgroup = {}) {
  return {std::move(user), std::move(pid), cgroup, cgroup};
}

}  // namespace

TEST_CASE("the daemon's own namespaces have no name") {
  NamespaceNames names;
  CHECK(names.Of(Seen(Own(), Own(), "5")).text.empty());
}

TEST_CASE("namespaces are named by the numbers that the kernel shows") {
  NamespaceNames names;
  CHECK(names.Of(Seen(Own(), Numbered(7))).text == "pid7");
  CHECK(names.Of(Seen(Numbered(6), Own())).text == "user6");
  CHECK(names.Of(Seen(Numbered(6), Numbered(7))).text == "user6.pid7");
  CHECK(names.Of(Seen(Own(), Numbered(7), "another group")).text == "pid7");
}

TEST_CASE("without numbers each is alone, also those of one control group") {
  NamespaceNames names;
  CHECK(names.Of(Seen(Own(), {}, "5")).text == "alone-1");
  CHECK(names.Of(Seen(Own(), {}, "5")).text == "alone-2");
  CHECK(names.Of(Seen({}, {}, "5")).text == "user.alone-3");
  CHECK(names.Of(Seen({}, Own(), "5")).text == "user.alone-4");
  CHECK(names.Of(Seen({}, Numbered(7), "5")).alone);
}

TEST_CASE("a name that was forgotten is not given again, though its numbers come back") {
  NamespaceNames names;
  const NamespaceNames::Name kept = names.Of(Seen(Own(), Numbered(1)));
  CHECK(names.Of(Seen(Own(), Numbered(2))).text == "pid2");
  std::vector<std::weak_ptr<os::UniqueFd>> descriptors;
  for (uint64_t number = 3; number < 203; ++number) {
    os::NamespaceView pid = Numbered(number);
    descriptors.push_back(pid.held);
    names.Of(Seen(Own(), std::move(pid)));
  }
  const auto open = std::count_if(descriptors.begin(), descriptors.end(),
                                  [](const auto& held) { return !held.expired(); });
  CHECK(open <= 64);                                             // it does not hold ever more open
  CHECK(names.Of(Seen(Own(), Numbered(1))).text == "pid1");      // a client is known by it
  CHECK(names.Of(Seen(Own(), Numbered(202))).text == "pid202");  // the last ones are kept
  CHECK(names.Of(Seen(Own(), Numbered(2))).text == "pid2-2");
  CHECK(names.Of(Seen(Own(), Numbered(2))).text == "pid2-2");
}
