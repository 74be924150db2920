// What people type wrongly at the ends of a copy, in its policy and in sizes.
#include "tests/cluster/receipts.h"
#include "tests/faults/serving.h"
#include "tests/support/catch.h"

namespace input_test {
namespace {

using namespace onecopy::testing;
using Words = std::vector<std::string>;

constexpr char kEndless[] = "18446744073709551615";  // 2^64 - 1
constexpr char kTooLarge[] = "18446744073709551616";

struct Refusal {
  Words words;
  int exit_status;
  std::string code;
  std::string reason;
  std::string names;
};

// Each with a remedy.
void CheckAll(const Node& node, const std::vector<Refusal>& refusals) {
  for (const Refusal& expected : refusals) {
    std::string typed;
    for (const std::string& word : expected.words) typed += " " + word;
    INFO("onecopy" << typed);
    const CommandResult result = node.Run(expected.words);
    CheckRefusedNaming(result, expected.exit_status, expected.code, expected.reason,
                       expected.names);
    CHECK(RemedyOf(result) != "");
  }
}

Refusal Bad(const std::string& reason, const std::string& names, Words words) {
  return {std::move(words), 2, "INVALID_ARGUMENT", reason, names};
}
Refusal Missing(const std::string& reason, const std::string& names, Words words) {
  return {std::move(words), 3, "NOT_FOUND", reason, names};
}
Refusal Outside(const std::string& names, Words words) {
  return {std::move(words), 2, "OUT_OF_RANGE", "RANGE_OUT_OF_BUFFER", names};
}

}  // namespace

TEST_CASE("an end of a copy that is not there is refused by its name") {
  Survivors nodes;
  CheckAll(nodes.east, {
                           Missing("PEER_NOT_FOUND", "nowhere", {"cp", "kept", "nowhere:b"}),
                           Missing("PEER_NOT_FOUND", "nowhere", {"cp", "nowhere:a", "kept"}),
                           Missing("PEER_NOT_FOUND", "nowhere", {"buffer", "ls", "nowhere"}),
                           Missing("PEER_NOT_FOUND", "nowhere", {"node", "show", "nowhere"}),
                           Missing("BUFFER_NOT_FOUND", "node east has no buffer \"nope\"",
                                   {"cp", "nope", "west:kept"}),
                           Missing("BUFFER_NOT_FOUND", "node west has no buffer \"nope\"",
                                   {"cp", "kept", "west:nope"}),
                           Missing("BUFFER_NOT_FOUND", "node west has no buffer \"nope\"",
                                   {"cp", "west:nope", "kept"}),
                           Missing("BUFFER_NOT_FOUND", "nope", {"explain", "nope", "kept"}),
                           Missing("BUFFER_NOT_FOUND", "nope", {"buffer", "rm", "nope"}),
                           Missing("BUFFER_NOT_FOUND", "nope", {"buffer", "sum", "west:nope"}),
                           Missing("TRANSFER_NOT_FOUND", "123", {"transfer", "cancel", "123"}),
                           Missing("GRANT_NOT_FOUND", "123", {"grant", "rm", "123"}),
                           Missing("DEVICE_NOT_FOUND", "vram",
                                   {"buffer", "create", "x", "--size", "4", "--memory", "vram"}),
                       });
  nodes.Check();
}

TEST_CASE("a policy that nothing can mean is refused, and told from one that cannot be met") {
  Survivors nodes;
  const Words copy = {"cp", "kept", "west:kept"};
  const auto with = [&](Words more) {
    more.insert(more.begin(), copy.begin(), copy.end());
    return more;
  };
  CheckAll(nodes.east,
           {
               Bad("BAD_POLICY", "nonsense", with({"--path", "nonsense"})),
               Bad("BAD_POLICY", "0 copies", with({"--at-most", "0"})),
               Bad("BAD_ARGUMENT", "\"-1\" is not a number of copies", with({"--at-most", "-1"})),
               Bad("BAD_ARGUMENT", "\"abc\" is not a number of copies", with({"--at-most", "abc"})),
               Bad("BAD_ARGUMENT", "\"3x\" is not a number of copies", with({"--at-most", "3x"})),
               Bad("BAD_ARGUMENT", kTooLarge, with({"--at-most", kTooLarge})),
               Bad("BAD_POLICY", "carrier", with({"--link", "carrier"})),
               Bad("BAD_ARGUMENT", "parsecs", with({"--deadline", "5parsecs"})),
               Bad("BAD_ARGUMENT", "\"5\"", with({"--deadline", "5"})),
               Bad("BAD_ARGUMENT", "negative", with({"--deadline", "-1s"})),
               Bad("BAD_ARGUMENT", "0s", with({"--deadline", "0s"})),
               Bad("BAD_ARGUMENT", "too long", with({"--deadline", "99999999999999999999s"})),
               {with({"--at-most", "1"}), 7, "FAILED_PRECONDITION", "POLICY_UNMET", "1"},
               {with({"--path", "rdma-*"}), 7, "FAILED_PRECONDITION", "POLICY_UNMET", "rdma-"},
               {with({"--link", "ucx"}), 7, "FAILED_PRECONDITION", "POLICY_UNMET", "ucx"},
           });
  // Every path that was passed over says why.
  const Json error = nodes.east.Run(with({"--at-most", "1"})).json.at("error");
  CHECK(error.at("refused").size() >= 5);
  for (const Json& refusal : error.at("refused")) CHECK(refusal.at("reason") != "");
  nodes.Check();
}

TEST_CASE("a range outside the buffer moves nothing, also where it overflows") {
  Survivors nodes;
  const std::string endless(kEndless);
  for (const char* command : {"cp", "explain"}) {
    CheckAll(nodes.east,
             {
                 Outside("@5000 ", {command, "kept@5000", "west:kept"}),
                 Outside("@0+4097", {command, "kept@0+4097", "west:kept"}),
                 Outside("@4096+1", {command, "kept@4096+1", "west:kept"}),
                 Outside("\"kept\" of 4096 bytes", {command, "kept@1+4096", "west:kept"}),
                 Outside("@" + endless, {command, "kept@" + endless, "west:kept"}),
                 Outside("2^64", {command, "kept@" + endless + "+1", "west:kept"}),
                 Outside("2^64", {command, "kept@1+" + endless, "west:kept"}),
                 Outside("\"kept\" of 4096 bytes", {command, "kept", "west:kept@1"}),
                 Outside("@" + endless, {command, "kept@0+1", "west:kept@" + endless}),
                 Outside("@5000", {command, "west:kept@5000", "kept"}),
             });
  }
  CheckAll(nodes.east,
           {
               Outside("@4096+1", {"buffer", "sum", "west:kept@4096+1"}),
               Outside("@4097", {"grant", "add", "kept@4097", "--to", "1", "--read"}),
               Bad("BAD_ENDPOINT", "kept@-1", {"cp", "kept@-1", "west:kept"}),
               Bad("BAD_ENDPOINT", "kept@1+", {"cp", "kept@1+", "west:kept"}),
               Bad("BAD_SIZE", kTooLarge, {"cp", "kept@" + std::string(kTooLarge), "west:kept"}),
               Bad("SIZE_MISMATCH", "10", {"cp", "kept@0+10", "west:kept@0+11"}),
               Bad("RANGES_OVERLAP", "kept", {"cp", "kept@0+10", "kept@9"}),
           });
  nodes.Check();
}

TEST_CASE("sizes of nothing, beyond memory, and of unknown units make no buffer") {
  Node east("east");
  const Kept kept(east);
  const auto sized = [](const std::string& size) {
    return Words{"buffer", "create", "x", "--size", size};
  };
  CheckRefusedNaming(east.Run(sized("0")), 2, "INVALID_ARGUMENT", "BAD_SIZE", "at least one byte");
  std::vector<Refusal> refusals;
  for (const std::string wrong :
       {"-1", "12XB", "0x10", "1e3", "4k", "", " 4", "KiB", "1000EiB", "1.0000001B", kTooLarge}) {
    refusals.push_back(Bad("BAD_SIZE", "\"" + wrong + "\" is not a size", sized(wrong)));
  }
  for (const char* huge : {"9223372036854775808", kEndless, "15EiB"}) {
    refusals.push_back(
        {sized(huge), 9, "RESOURCE_EXHAUSTED", "NO_MEMORY", "more than any machine"});
  }
  refusals.push_back({sized("1000TiB"), 9, "RESOURCE_EXHAUSTED", "NO_MEMORY", "available"});
  CheckAll(east, refusals);
  CHECK(east.Do({"buffer", "ls"}).size() == 1);
  CHECK(east.Do(sized("1GB")).at("bytes") == 1'000'000'000);  // what people write on disks
  east.Do({"buffer", "rm", "x"});
  kept.CheckUnchanged();
  CheckServes(east);
}
}  // namespace input_test
