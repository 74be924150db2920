// The configuration file, with a backend's section beside the daemon's own.
#include "daemon/config/config.h"
#include "tests/fuzz/fuzz.h"

namespace {

const onecopy::config::Schema& TheSchema() {
  using onecopy::SettingType;
  static const onecopy::config::Schema schema{
      {{"tcp",
        {{"lanes", SettingType::kInteger, int64_t{16}, "How many.", 1, 64},
         {"chunk_bytes", SettingType::kBytes, int64_t{1} << 20, "Of a get.", 4096, 64 << 20},
         {"devices", SettingType::kTextList, std::vector<std::string>(), "Which."},
         {"fast", SettingType::kBool, true, "Whether."},
         {"zero_copy", SettingType::kText, std::string("off"), "How."},
         {"patience", SettingType::kDuration, int64_t{1000}, "How long."}}}},
      {"cuda", "ucx"}};
  return schema;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace onecopy;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  auto parsed = config::Parse(text, "onecopy.toml", TheSchema());
  if (!parsed.ok()) {
    EXPECT(parsed.status().code() == Code::kInvalidArgument);
    EXPECT(!parsed.status().message().empty());
    return 0;
  }
  if (config::Apply({}, *parsed).ok()) (void)config::CheckSecurity(*parsed);
  return 0;
}

std::vector<std::string> onecopy::fuzz::Seeds() {
  return {config::PrintDefault(TheSchema()),
          "version = 1\nname = \"east\"\nlisten = \"127.0.0.1:7701\"\n"
          "[peers.west]\naddress = \"127.0.0.1:7711\"\nuid_domain = \"cluster\"\n"
          "[tls]\nca = \"ca.pem\"\ncertificate = \"east.pem\"\nkey = \"east.key\"\n"
          "[tcp]\nlanes = 4\nchunk_bytes = \"64KiB\"\ndevices = [\"eth0\", \"eth1\"]\n"
          "patience = \"2s\"\n[log]\nlevel = \"debug\"\n",
          "version = 2\n", "lanes = [[[\n", "[tcp]\nlanes = 99999999999999999999\nlames = 3\n"};
}
