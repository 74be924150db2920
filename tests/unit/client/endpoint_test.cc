#include "client/cli/endpoint.h"

#include "onecopy/reasons.h"
#include "tests/support/catch.h"

using onecopy::Code;
using onecopy::cli::ParsedEndpoint;
using onecopy::cli::ParseEndpoint;
using Kind = onecopy::cli::ParsedEndpoint::Kind;

namespace reasons = onecopy::reasons;

namespace {

constexpr uint64_t kNone = UINT64_MAX - 7;  // stands for an absent number in the tables

std::optional<uint64_t> Number(uint64_t value) {
  return value == kNone ? std::nullopt : std::optional(value);
}

}  // namespace

TEST_CASE("buffers are typed with or without a node and a range") {
  const auto [text, node, name, offset, bytes] =
      GENERATE(table<std::string, std::string, std::string, uint64_t, uint64_t>({
          {"name", "", "name", kNone, kNone},
          {":name", "", "name", kNone, kNone},
          {"node:name", "node", "name", kNone, kNone},
          {"node:name@4096", "node", "name", 4096, kNone},
          {"node:name@4096+64MiB", "node", "name", 4096, 64 << 20},
          {"name@1GiB+1.5KiB", "", "name", 1 << 30, 1536},
          {":name@0", "", "name", 0, kNone},
          {"name@0+0", "", "name", 0, 0},
          {"name@18446744073709551615", "", "name", UINT64_MAX, kNone},
          {"name@64KB+1B", "", "name", 64'000, 1},
          {"a", "", "a", kNone, kNone},
          {"7", "", "7", kNone, kNone},
          {"17.3", "", "17.3", kNone, kNone},
          {"weights.bin", "", "weights.bin", kNone, kNone},
          {"gpu-01.rack_2:a.b_c-d", "gpu-01.rack_2", "a.b_c-d", kNone, kNone},
          {"10.0.0.1:name", "10.0.0.1", "name", kNone, kNone},
          {"node:7701", "node", "7701", kNone, kNone},
          {"top", "", "top", kNone, kNone},
          {std::string(63, 'n') + ":" + std::string(63, 'x'), std::string(63, 'n'),
           std::string(63, 'x'), kNone, kNone},
      }));
  INFO(text);
  const auto end = ParseEndpoint(text);
  REQUIRE_OK(end);
  CHECK(end->kind == Kind::kBuffer);
  CHECK(end->node == node);
  CHECK(end->name == name);
  CHECK(end->offset_bytes == Number(offset));
  CHECK(end->bytes == Number(bytes));
  CHECK(end->typed == text);
  CHECK(end->bare == (text.find(':') == std::string::npos));
  CHECK(end->ToEndpoint() == onecopy::Endpoint{node, name, Number(offset), Number(bytes)});
}

TEST_CASE("files here begin like paths, and a range only where the end looks like one") {
  const auto [text, path, offset, bytes] =
      GENERATE(table<std::string, std::string, uint64_t, uint64_t>({
          {"/path", "/path", kNone, kNone},
          {"/", "/", kNone, kNone},
          {"./path", "./path", kNone, kNone},
          {"../path", "../path", kNone, kNone},
          {".", ".", kNone, kNone},
          {"..", "..", kNone, kNone},
          {":/path", "/path", kNone, kNone},
          {"./path@4096", "./path", 4096, kNone},
          {"./path@4096+64MiB", "./path", 4096, 64 << 20},
          {"./odd@4096@0", "./odd@4096", 0, kNone},
          {"./odd@4096@0+5", "./odd@4096", 0, 5},
          {"./user@host", "./user@host", kNone, kNone},
          {"./user@10.x", "./user@10.x", kNone, kNone},
          {"./a@4096+", "./a@4096+", kNone, kNone},
          {"./a@+4096", "./a@+4096", kNone, kNone},
          {"./a@1+2+3", "./a@1+2+3", kNone, kNone},
          {"./a@-5", "./a@-5", kNone, kNone},
          {"./a@1kib", "./a@1kib", kNone, kNone},
          {"./a@", "./a@", kNone, kNone},
          {"./a@0x10", "./a@0x10", kNone, kNone},
          {"./a@ 5", "./a@ 5", kNone, kNone},
          {"./with:colon", "./with:colon", kNone, kNone},
          {"./with space\n", "./with space\n", kNone, kNone},
          {"/a/b@c/d", "/a/b@c/d", kNone, kNone},
          {"./\xff", "./\xff", kNone, kNone},
      }));
  INFO(text);
  const auto end = ParseEndpoint(text);
  REQUIRE_OK(end);
  CHECK(end->kind == Kind::kFile);
  CHECK(end->path == path);
  CHECK(end->offset_bytes == Number(offset));
  CHECK(end->bytes == Number(bytes));
  CHECK_FALSE(end->bare);
}

TEST_CASE("a file on a node is named by its absolute path") {
  const auto end = ParseEndpoint("node:/a/path@1+2");
  REQUIRE_OK(end);
  CHECK(end->kind == Kind::kRemoteFile);
  CHECK(end->node == "node");
  CHECK(end->path == "/a/path");
  CHECK(end->offset_bytes == 1U);
  CHECK(end->bytes == 2U);
  const onecopy::Status relative = ParseEndpoint("node:./path").status();
  CHECK(relative.reason() == reasons::kBadEndpoint);
  CHECK(relative.remedy().find("absolute") != std::string::npos);
  CHECK_FALSE(ParseEndpoint(":./path").ok());
}

TEST_CASE("a minus sign alone is standard input or output, which have no ranges") {
  const auto end = ParseEndpoint("-");
  REQUIRE_OK(end);
  CHECK(end->kind == Kind::kStream);
  CHECK_FALSE(ParseEndpoint("-@5").ok());
  CHECK_FALSE(ParseEndpoint("-@5+6").ok());
}

TEST_CASE("what is no end of a copy is refused with its text and how to write it") {
  const auto [text, reason] = GENERATE(table<std::string, std::string>({
      {"", "BAD_ENDPOINT"},
      {":", "BAD_ENDPOINT"},
      {"node:", "BAD_ENDPOINT"},
      {"@5", "BAD_NAME"},
      {":@5", "BAD_ENDPOINT"},
      {"node:@5", "BAD_ENDPOINT"},
      {"-x", "BAD_NAME"},
      {"--", "BAD_NAME"},
      {".hidden", "BAD_NAME"},
      {"_x", "BAD_NAME"},
      {"data/x.bin", "BAD_NAME"},
      {"data/x:1", "BAD_NAME"},
      {"with space", "BAD_NAME"},
      {"caf\xc3\xa9", "BAD_NAME"},
      {"na\nme", "BAD_NAME"},
      {"~/file", "BAD_NAME"},
      {"node:na me", "BAD_NAME"},
      {"name@", "BAD_ENDPOINT"},
      {"name@x", "BAD_ENDPOINT"},
      {"name@-5", "BAD_ENDPOINT"},
      {"name@5+", "BAD_ENDPOINT"},
      {"name@+5", "BAD_ENDPOINT"},
      {"name@5+-5", "BAD_ENDPOINT"},
      {"name@1+2+3", "BAD_ENDPOINT"},
      {"name@1@2", "BAD_ENDPOINT"},
      {"name@5kib", "BAD_ENDPOINT"},
      {"name@1.5", "BAD_SIZE"},
      {"name@0.3KiB", "BAD_SIZE"},
      {"name@1.2.3", "BAD_SIZE"},
      {"name@18446744073709551616", "BAD_SIZE"},
      {"name@0+16EiB", "BAD_SIZE"},
      {"./file@99999999999999999999", "BAD_SIZE"},
      {"name@1+18446744073709551615", "RANGE_OUT_OF_BUFFER"},
      {"fe80::1:name", "BAD_ENDPOINT"},
      {"::1:name", "BAD_ENDPOINT"},
      {"::", "BAD_ENDPOINT"},
      {"[::1]:name", "BAD_ENDPOINT"},
      {"[fe80::1]:7701:name", "BAD_ENDPOINT"},
      {"host:7701:name", "BAD_ENDPOINT"},
      {"a:b:c", "BAD_ENDPOINT"},
      {"no de:name", "BAD_ENDPOINT"},
      {"-node:name", "BAD_ENDPOINT"},
      {std::string(64, 'x'), "BAD_NAME"},
      {std::string(10'000, 'x'), "BAD_NAME"},
      {std::string(254, 'n') + ":x", "BAD_ENDPOINT"},
  }));
  INFO(text);
  const onecopy::Status status = ParseEndpoint(text).status();
  REQUIRE_FALSE(status.ok());
  CHECK(status.reason() == reason);
  CHECK((status.code() == Code::kInvalidArgument || status.code() == Code::kOutOfRange));
  CHECK_FALSE(status.remedy().empty());
  CHECK(status.message().size() < 300);
  CHECK(status.message().find('\n') == std::string::npos);
}

TEST_CASE("a word that is no buffer's name suggests how to name a file") {
  CHECK(ParseEndpoint("data/x.bin").status().remedy().find("./data/x.bin") != std::string::npos);
  CHECK(ParseEndpoint("my file").status().remedy().find("'./my file'") != std::string::npos);
  CHECK(ParseEndpoint("node:my file").status().remedy().find("./") == std::string::npos);
}
