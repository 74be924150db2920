// Names as people, scripts and attackers write them, and very many of them.
#include <sys/resource.h>

#include <set>

#include "tests/cluster/receipts.h"
#include "tests/faults/serving.h"
#include "tests/support/catch.h"
#include "tests/support/sanitized.h"

namespace names_test {
namespace {

using onecopy::Client;
using onecopy::Code;
using namespace onecopy::testing;

const std::vector<std::string> kOdd = {" ",
                                       "-x",
                                       ".x",
                                       "_x",
                                       "a b",
                                       "a\tb",
                                       "a\nb",
                                       "a/b",
                                       "a*",
                                       "a\x01",
                                       "a\x7f",
                                       "x\x1b[31m",
                                       "ä",
                                       "\xF0\x9F\x98\x80",
                                       "a\xff",
                                       "$(x)",
                                       "a'b\"",
                                       "a\\b",
                                       "a@b",
                                       "a%sb",
                                       "a/../b",
                                       std::string(64, 'n'),
                                       std::string(10'000, 'n')};

bool IsHarmless(const std::string& text) {
  for (const unsigned char c : text) {
    if (c < ' ' || c == 0x7f) return false;
  }
  return true;
}

// As many open files as shells usually begin with.
void BeginWithShellsLimit() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = 1024;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace

TEST_CASE("odd names are refused by the command, in messages that no terminal obeys") {
  Node east("east");
  const Kept kept(east);
  for (const std::string& name : kOdd) {
    INFO("name of " << name.size() << " bytes, first " << static_cast<int>(name[0]));
    for (const std::vector<std::string>& words :
         {std::vector<std::string>{"buffer", "create", "--size", "16", "--", name},
          {"buffer", "show", "--", name},
          {"cp", "--", name, "kept"},
          {"cp", "--", "kept", "east:" + name}}) {
      const CommandResult refused = east.Run(words);
      CHECK(refused.exit_status == 2);
      REQUIRE(refused.json.is_object());
      CHECK((refused.reason() == "BAD_NAME" || refused.reason() == "BAD_ENDPOINT"));
      CHECK(refused.json["error"].value("code", "") == "INVALID_ARGUMENT");
      CHECK(refused.message().size() < 500);
      CHECK(IsHarmless(refused.message()));
      CHECK(IsHarmless(RemedyOf(refused)));
    }
  }
  for (const char* nothing : {"", ":", "east:", "@", "@x", "@0+1"}) {
    CheckRefused(east.Run({"cp", nothing, "kept"}), 2, "INVALID_ARGUMENT",
                 std::string(nothing) == "@0+1" ? "BAD_NAME" : "BAD_ENDPOINT");
  }
  CHECK(east.Do({"buffer", "ls"}).size() == 1);
  kept.CheckUnchanged();
  CheckServes(east);
}

TEST_CASE("odd names are refused by the daemon, whatever the client") {
  Node east("east");
  const Kept kept(east);
  Client client = east.Connect();
  for (const std::string& name : kOdd) {
    INFO("name of " << name.size() << " bytes, first " << static_cast<int>(name[0]));
    CheckFailed(client.CreateBuffer({.name = name, .bytes = 1, .memory = "host"}).status(),
                Code::kInvalidArgument, "BAD_NAME");
    CheckFailed(client.CreateHostBuffer(name, 1).status(), Code::kInvalidArgument, "BAD_NAME");
    for (const onecopy::Status& unknown :
         {client.GetBuffer("", name).status(), client.DeleteBuffer(name),
          client.SumBuffer({"", name, {}, {}}).status(), client.GetNode(name).status(),
          client.GetBuffer(name, "kept").status(),
          client.StartTransfer({.source = {"", "kept", {}, {}}, .destination = {name, "b", {}, {}}})
              .status()}) {
      INFO(unknown.ToString());
      CHECK((unknown.code() == Code::kNotFound || unknown.code() == Code::kInvalidArgument));
      CHECK(unknown.message().size() < 500);
      CHECK(IsHarmless(unknown.message()));
    }
  }
  CHECK(Must(client.ListBuffers()).size() == 1);
  kept.CheckUnchanged();
  CheckServes(east);
}

TEST_CASE("the longest name and every allowed character serve") {
  Node east("east");
  const std::string longest = "0" + std::string(62, 'n');
  for (const std::string& name : {longest, std::string("A.b-c_9"), std::string("9")}) {
    east.Do({"buffer", "create", name, "--size", "16"});
    CheckReceipt(east.Do({"cp", name + "@0+8", name + "@8"}), {"local", 8, false});
    CheckRefused(east.Run({"buffer", "create", name, "--size", "16"}), 2, "ALREADY_EXISTS",
                 "NAME_TAKEN");
    east.Do({"buffer", "rm", name});
  }
  CheckServes(east);
}

TEST_CASE("thousands of names are made, listed, and removed") {
  constexpr size_t kMany = kAddressSanitizer ? 2'000 : 10'000;
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_max < kMany + 200) {
    ONECOPY_SKIP("each buffer is a descriptor, and the hard limit here is " +
                 std::to_string(limit.rlim_max));
  }
  Node east("east", {.in_child = BeginWithShellsLimit});
  const Kept kept(east);
  Client client = east.Connect();
  std::set<std::string> names = {"kept"};
  CHECK(Must(client.ListBuffers()).size() == 1);  // now it is wholly connected
  const size_t descriptors = OpenDescriptors(east.process().pid());
  for (size_t i = 0; i < kMany; ++i) {
    const std::string name = "n" + std::to_string(i);
    REQUIRE_OK(client.CreateBuffer({.name = name, .bytes = 1, .memory = "host"}));
    names.insert(name);
  }
  std::set<std::string> listed;
  for (const Json& buffer : east.Do({"buffer", "ls"})) listed.insert(buffer.at("name"));
  CHECK(listed == names);
  CheckReceipt(east.Do({"cp", "n0", "n" + std::to_string(kMany - 1)}), {"local", 1, false});
  names.erase("kept");
  for (const std::string& name : names) REQUIRE_OK(client.DeleteBuffer(name));
  CHECK(Must(client.ListBuffers()).size() == 1);
  WaitUntil("the descriptors are closed",
            [&] { return OpenDescriptors(east.process().pid()) <= descriptors; });
  kept.CheckUnchanged();
  CheckServes(east);
}
}  // namespace names_test
