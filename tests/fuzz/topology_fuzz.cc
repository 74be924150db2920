// The topology file that an administrator may write instead of what the machine says of itself.
#include "tests/fuzz/fuzz.h"
#include "transport/topology/topology_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace onecopy;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto topology = ParseTopologyFile(text, "topology.toml");
  if (!topology.ok()) {
    EXPECT(topology.status().code() == Code::kInvalidArgument);
    EXPECT(!topology.status().message().empty());
    return 0;
  }
  EXPECT(topology->devices.size() <= Topology::kMaxDevices);
  EXPECT(topology->distances.size() == Topology::PairCount(topology->devices.size()));
  for (const auto& one : topology->devices) {
    for (const auto& other : topology->devices) (void)topology->Between(one.name, other.address);
  }
  return 0;
}

std::vector<std::string> onecopy::fuzz::Seeds() {
  return {
      "version = 1\ndefault_distance = \"SYS\"\n[[device]]\nkind = \"gpu\"\n"
      "address = \"0000:10:1c.0\"\nnuma_node = 0\ncpus = \"0-23,48-71\"\n"
      "[[device]]\nkind = \"nic\"\nname = \"rdmap0\"\naddress = \"0000:10:1b.0\"\n"
      "[[distance]]\nbetween = [\"0000:10:1c.0\", \"rdmap0\"]\nis = \"PIX\"\n",
      "version = 1\n", "version = 2\n", "[[device]]\n[[device]]\nkind = 7\n"};
}
