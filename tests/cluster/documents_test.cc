// What README and the documents say to type does what they say.
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "tests/support/catch.h"
#include "tests/support/machine.h"
#include "tests/support/markdown.h"
#include "tests/support/temp_folder.h"

namespace {

using namespace onecopy::testing;

const std::filesystem::path kSources = ONECOPY_SOURCE_DIR;

// A block of a document, by its first line or (all of them) by "```" and their language, and what
// is done about it.
struct Known {
  const char* file;
  std::string_view begins;
  enum class What { kTyped, kNothingToType, kElsewhere, kNeeds } what;
  const char* why = "";
};

using enum Known::What;

constexpr Known kBlocks[] = {
    {"README.md", "onecopyd --name west --listen 127.0.0.1:7811 --run-dir /tmp/west &", kTyped},
    {"README.md", "# on east", kTyped},
    {"README.md", "# on west", kTyped},
    {"README.md", "# on both", kTyped},
    {"README.md", "# /etc/onecopy/config.toml on east", kTyped},
    {"README.md", "# /etc/onecopy/config.toml on west", kTyped},
    {"bench/README.md", "onecopy-bench run ", kElsewhere,
     "cluster/bench runs and reports with fewer sizes: all of them take minutes"},

    {"README.md", "deploy/quickstart ", kElsewhere,
     "suite checks; it builds, and installs packages"},
    {"README.md", "deploy/package ", kElsewhere, "suite packages; it takes root and minutes"},
    {"docs/setup.md", "deploy/quickstart", kElsewhere, "the same"},
    {"docs/setup.md", "deploy/package ", kElsewhere, "suite packages"},
    {"deploy/package.d/README.md", "podman build", kNeeds, "podman and a registry of images"},
    {"docs/kubernetes.md", "    podman build", kNeeds, "podman and a registry of images"},
    {"docs/kubernetes.md", "    kubectl apply -k", kNeeds,
     "a cluster; suite kubernetes renders what is applied, and runs its pods in namespaces"},
    {"docs/kubernetes.md", "kubectl exec reader", kNeeds, "a cluster"},
    {"docs/kubernetes.md", "onecopy cert init-ca", kElsewhere,
     "README's two machines have theirs so"},
    {"docs/kubernetes.md", "onecopy cert issue-user", kElsewhere, "suite python issues such"},
    {"docs/kubernetes.md", "kubectl -n onecopy exec POD", kNeeds, "a cluster"},
    {"docs/slurm.md", "sudo install -m 755 deploy/slurm/prolog", kNeeds,
     "Slurm; suite kubernetes runs prolog and epilog"},
    {"docs/slurm.md", "Prolog=", kNothingToType, "lines of a file"},
    {"docs/setup.md", "head -c 64M /dev/urandom > weights.bin", kElsewhere, "suite packages"},
    {"docs/setup.md", "tests/run", kElsewhere, "it is what runs this"},
    {"docs/setup.md", "deploy/bootstrap --for build", kElsewhere,
     "tests/run begins with both lines"},
    {"docs/setup.md", "sudo cmake --install build/release", kNeeds,
     "root and systemd; suite checks installs into a folder and verifies the unit"},
    {"bench/README.md", "west$ onecopy-bench lend", kNeeds,
     "two machines with onecopy-bench on both"},
    {"bench/competitors/README.md", "bench/competitors/install build/competitors", kNeeds, "PyPI"},
    {"bench/ingest/README.md", "client/python/build-wheel", kNeeds, "PyPI"},
    {"bench/ingest/README.md", "bench/ingest/run --onecopyd", kElsewhere,
     "tests/python/test_ingest.py runs it"},
    {"docs/operate.md", "sudo onecopy init --name east", kElsewhere, "cluster/init types it"},
    {"docs/operate.md", "onecopy cert init-ca authority", kElsewhere,
     "README's two machines have theirs so"},
    {"docs/operate.md", "onecopy node drain --wait", kTyped},
    {"docs/operate.md", "[peers.\"gpu-*\"]", kNothingToType, "lines of a file"},
    {"docs/operate.md", "listen = \"0.0.0.0:7701\"", kElsewhere,
     "unit/config reads such lines, faults/two_wires uses them"},
    {"docs/operate.md", "[discovery]", kNothingToType, "lines of a file"},
    {"docs/measurements/README.md", "onecopy-bench run --filter 'peer gpu to gpu*'", kNeeds,
     "two GPUs"},
    {"docs/rdma.md", "sudo onecopy doctor", kNeeds,
     "RDMA hardware, for an answer other than why not"},
    {"docs/rdma.md", "ib_read_bw -d mlx5_0", kNeeds, "two machines with RDMA hardware"},
    {"docs/rdma.md", "[rdma]", kNothingToType, "lines of a file"},
    {"docs/rdma.md", "sudo onecopy probe gpu-01", kNeeds,
     "two machines with GPUs and RDMA hardware"},
    {"docs/rdma.md", "[ucx]", kNothingToType, "lines of a file"},
    {"docs/operate.md", "sudo onecopyd config check /etc/onecopy/config.toml", kNeeds,
     "root, systemd and several machines; README's two machines do it by hand"},
    {"docs/api.md", "import socket", kNeeds, "grpcio and googleapis-common-protos of PyPI"},
    {"docs/grpc.md", "pip install grpcio-tools", kElsewhere,
     "tests/python/grpc_only does so, as it needs PyPI"},
    {"docs/grpc.md", "import sys", kElsewhere, "tests/python/grpc_only runs it"},
    {"docs/grpc.md", "api_listen = ", kNothingToType, "a line of a file"},
    {"docs/metrics.md", "scrape_configs:", kNothingToType,
     "lines of Prometheus' file; suite prometheus has their like"},
    {"docs/metrics.md", "sum by (copies", kNothingToType, "a query of Prometheus"},
    {"docs/metrics.md", "sum by (reason", kNothingToType, "a query of Prometheus"},
    {"docs/metrics.md", "sum by (path", kNothingToType, "a query of Prometheus"},
    {"docs/metrics.md", "ssh -N -L", kNeeds, "another machine"},
    {"docs/grpc.md", "def secure(", kElsewhere, "tests/python/grpc_only calls it"},
    {"docs/grpc.md", "from google.rpc import", kElsewhere, "tests/python/grpc_only calls it"},
    {"docs/api.md", "request = transfer_pb2", kElsewhere, "tests/python/grpc_only asks likewise"},
    {"docs/python.md", "client/python/build-wheel", kElsewhere, "the suite python begins with it"},
    {"docs/python.md", "```python", kElsewhere, "tests/python/test_docs.py runs them"},
    {"docs/python.md", "pool = node.pool(device=0", kNeeds,
     "a GPU; tests/python/test_gpu_pool.py has its like"},
    {"docs/python.md", "loaded = onecopy.load(", kNeeds,
     "a GPU; tests/python/test_gpu_formats.py has its like"},
    {"docs/integrations/nixl.md", "export NIXL_PLUGIN_DIR=", kElsewhere,
     "tests/python/test_nixl_docs.py types it, and the same line of the pages beside"},
    {"docs/integrations/nixl.md", "from nixl_cu13._api", kElsewhere, "the same runs it"},
    {"docs/integrations/torch.md", "import torch", kElsewhere, "the same runs it"},
    {"docs/integrations/torch.md", "export NIXL_PLUGIN_DIR=", kElsewhere, "as nixl.md's"},
    {"docs/integrations/sglang.md", "export NIXL_PLUGIN_DIR=", kElsewhere, "as nixl.md's"},
    {"docs/integrations/vllm.md", "export NIXL_PLUGIN_DIR=", kElsewhere, "as nixl.md's"},
    {"docs/integrations/vllm.md", "pip install onecopy-*.whl", kNeeds, "vLLM, and a model"},
    {"docs/integrations/vllm.md", "import onecopy.vllm", kElsewhere,
     "tests/python/test_vllm.py does so, with vLLM's own classes"},
    {"docs/integrations/vllm.md", "with trainer.offer(weights) as offered:", kElsewhere,
     "the same"},
    {"docs/integrations/vllm.md", "from onecopy.vllm import", kElsewhere, "the same"},
    {"docs/integrations/pools.md", "pool = onecopy.torch.pool(", kNeeds,
     "a GPU; tests/python/test_gpu_allocators.py has its like"},
    {"docs/decisions/hash-tree.md", "```python", kElsewhere, "tests/python/test_docs.py runs it"},
    {"docs/integrations/ray.md", "import ray", kElsewhere, "tests/python/test_docs.py runs it"},
    {"docs/integrations/lmcache.md", "nixl_backends: ", kNothingToType, "a line of a file"},
    {"tests/fuzz/README.md", "tests/run fuzz ", kElsewhere, "the suite fuzz itself"},
    {"tests/rdma/README.md", "tests/run rdma ", kElsewhere, "the suite rdma itself"},
    {"tests/rdma/README.md", "tests/rdma/guest/run-in-guest ", kElsewhere,
     "the suite rdma does so"},

    {"README.md", "east:a@0+1073741824 -> west:b@0+1073741824", kNothingToType, "a receipt"},
    {"README.md", "east:a@0+67108864 -> west:b@0+67108864", kNothingToType, "a receipt"},
    {"README.md", "auto client = onecopy::Client::Connect();", kNothingToType, "C++"},
    {"README.md", "onecopy::TransferRequest request", kNothingToType, "C++"},
    {"README.md", "request.more_sources = ", kNothingToType, "C++"},
    {"README.md", "node east  ", kNothingToType, "a drawing"},
    {"docs/architecture.md", "client/cli   client/python", kNothingToType, "a drawing"},
    {"docs/cpp.md", "// 65,536 blocks of 16 KiB", kNothingToType, "C++; unit/core has its like"},
    {"docs/cpp.md", "const auto stream = ", kNothingToType, "C++; unit/client has its like"},
    {"docs/cpp.md", "onecopy::ArrayShape column", kNothingToType, "C++; unit/client has its like"},
    {"docs/cpp.md", "auto copies = client->Broadcast", kNothingToType,
     "C++; cluster/broadcast has its like"},
    {"docs/cpp.md", "auto queue = ", kNothingToType, "C++; unit/client has its like"},
    {"docs/cpp.md", "auto pool = ", kNothingToType, "C++; cluster/pool has its like"},
    {"docs/cpp.md", "auto weights = client->MapBuffer", kNothingToType,
     "C++; cluster/mapping has its like"},
    {"docs/cpp.md", "auto saved = client->RunTransfer", kNothingToType,
     "C++; cluster/export_writes has its like"},
    {"docs/setup.md", "#include <onecopy/client.h>", kNothingToType, "C++"},
    {"docs/concepts.md", "node east, the source", kNothingToType, "two drawings"},
    {"docs/concepts.md", "east:weights@0+67108864 -> west:weights@0+67108864", kNothingToType,
     "a receipt"},
    {"docs/operate.md", "# /etc/onecopy/config.toml on gpu-01", kNothingToType,
     "a file of one of sixteen machines; README's two have such"},
    {"docs/operate.md", "[exports.models]", kNothingToType,
     "a part of a file; cluster/exports has its like"},
    {"docs/operate.md", "[qos.training]", kNothingToType,
     "a part of a file; cluster/shares has its like"},
    {"client/doctor/README.md", "Gather (files", kNothingToType, "a drawing"},
    {"transport/topology/README.md", "version = 1", kNothingToType,
     "a file; unit/topology reads such"},
};

std::vector<CodeBlock> AllBlocks() {
  std::vector<CodeBlock> all;
  std::set<std::string> documents;
  for (std::filesystem::recursive_directory_iterator entry(kSources), end; entry != end; ++entry) {
    const std::string name = entry->path().filename().string();
    if (entry->is_directory() && (name == "build" || name.starts_with('.'))) {
      entry.disable_recursion_pending();
    } else if (name.ends_with(".md")) {
      documents.insert(std::filesystem::relative(entry->path(), kSources).string());
    }
  }
  for (const std::string& name : documents) {
    for (CodeBlock& block : CodeBlocksOf(kSources / name, name)) all.push_back(std::move(block));
  }
  return all;
}

bool Is(const CodeBlock& block, const Known& known) {
  if (block.file != known.file) return false;
  if (!known.begins.starts_with("```")) return block.begins().starts_with(known.begins);
  return block.language == known.begins.substr(3);
}

std::vector<CodeBlock> BlocksOf(const std::string& file) {
  std::vector<CodeBlock> blocks = AllBlocks();
  std::erase_if(blocks, [&](const CodeBlock& block) { return block.file != file; });
  return blocks;
}

// Commands whose answer is, on a machine like this, that something is not so.
bool MayEndWith(const std::string& line, int status) {
  constexpr int kUnmet = 7;
  const bool asks = line.starts_with("onecopy doctor") || line.starts_with("onecopy explain");
  return status == 0 || (asks && status == kUnmet);
}

// Types a block's lines; what all of them said.
std::string TypeAll(Machine& machine, const std::vector<std::string>& lines) {
  std::string said_before;
  for (const std::string& line : lines) {
    if (line.empty() || line.starts_with('#')) continue;
    const Machine::Said said = machine.Type(line);
    INFO(said_before << line << "\n" << said.text);
    CHECK(MayEndWith(line, said.status));
    said_before += "$ " + line + "\n" + said.text;
  }
  return said_before;
}

}  // namespace

TEST_CASE("each block of every document is typed by a test, or listed with the reason why not") {
  const std::vector<CodeBlock> blocks = AllBlocks();
  REQUIRE(blocks.size() >= 20);
  for (const CodeBlock& block : blocks) {
    INFO(block.file << ":" << block.line << ": " << block.begins());
    const auto known = std::find_if(std::begin(kBlocks), std::end(kBlocks),
                                    [&](const Known& one) { return Is(block, one); });
    CHECK(known != std::end(kBlocks));
  }
  for (const Known& known : kBlocks) {
    INFO(known.file << ": " << known.begins << " (is in no document any more)");
    CHECK(std::any_of(blocks.begin(), blocks.end(),
                      [&](const CodeBlock& block) { return Is(block, known); }));
    CHECK((known.what == kTyped) == std::string(known.why).empty());
  }
}

TEST_CASE("README's examples on one machine work as they are typed") {
  if (const std::string why = Machine::WhyNot(); !why.empty()) ONECOPY_SKIP(why);
  const TempFolder shared;
  Machine machine("here", shared.path().string());
  std::string said;
  size_t typed = 0;
  for (const CodeBlock& block : BlocksOf("README.md")) {
    if (!block.begins().starts_with("onecopyd --name west")) continue;
    said += TypeAll(machine, block.lines);
    ++typed;
  }
  INFO(said);
  CHECK(typed == 1);
  CHECK(said.find("equal at both ends") != std::string::npos);  // of cp --checksum
  CHECK(said.find("3.91 KiB") != std::string::npos);  // a float of each of 1,000 structures
  machine.Do("cmp weights.bin <(onecopy cp weights -)");
}

TEST_CASE("a node is drained and comes back as operate.md has it") {
  if (const std::string why = Machine::WhyNot(); !why.empty()) ONECOPY_SKIP(why);
  const TempFolder shared;
  Machine machine("gpu-01", shared.path().string());
  machine.Do("onecopyd --name gpu-01 --listen 127.0.0.1:7701 --metrics-listen off &");
  machine.Do("onecopy buffer create weights --size 4KiB --memory host");
  std::string said;
  size_t typed = 0;
  for (const CodeBlock& block : BlocksOf("docs/operate.md")) {
    if (!block.begins().starts_with("onecopy node drain")) continue;
    for (const std::string& line : block.lines) {
      said += machine.Do(line);
      const bool drained = line.find("undrain") == std::string::npos;
      const Machine::Said moved = machine.Type("onecopy cp weights@0+1 weights@1");
      CHECK(moved.status == (drained ? 5 : 0));
      CHECK((moved.text.find("onecopy node undrain") != std::string::npos) == drained);
      ++typed;
    }
  }
  INFO(said);
  CHECK(typed == 3);
  CHECK(said.find("takes no new transfers; 0 transfers run") != std::string::npos);
  CHECK(said.find("DRAINING") != std::string::npos);
  CHECK(said.find("takes transfers again") != std::string::npos);
}

TEST_CASE("README's two machines work as they are typed") {
  if (const std::string why = Machine::WhyNot(); !why.empty()) ONECOPY_SKIP(why);
  // The two ends of a wire between machines of an ordinary user belong to two who are strangers.
  if (::geteuid() != 0) ONECOPY_SKIP("only root can join two machines");
  const TempFolder shared;
  std::map<std::string, std::unique_ptr<Machine>> machines;
  for (const char* name : {"east", "west"}) {
    machines[name] = std::make_unique<Machine>(name, shared.path().string());
    // What copies to another machine, where no sshd runs.
    machines[name]->Do(
        "scp() { local to=${@: -1}; cp -r \"${@:1:$#-1}\" \"/run/shared/${to%%:*}/${to#*:}\"; }");
  }
  Machine::Join(*machines.at("east"), "10.0.0.1/24", *machines.at("west"), "10.0.0.2/24");
  std::string said;
  size_t typed = 0;
  for (const CodeBlock& block : BlocksOf("README.md")) {
    const std::string& begins = block.begins();
    const auto on = [&](const std::string& name) {
      return begins.ends_with(" on " + name) || begins == "# on " + name;
    };
    for (auto& [name, machine] : machines) {
      if (!begins.starts_with('#') || !(on(name) || on("both"))) continue;
      ++typed;
      if (begins.starts_with("# /")) {
        WriteFile(shared / (name + "/config"), block.text());
        machine->Do("cp config " + begins.substr(2, begins.find(" on ") - 2));
      } else {
        said += TypeAll(*machine, block.lines);
      }
    }
  }
  INFO(said);
  CHECK(typed == 7);
  CHECK(said.find("DNS:west, URI:onecopy://west") != std::string::npos);
  CHECK(said.find("equal at both ends") != std::string::npos);
  CHECK(said.find("encrypted TLS 1.3") != std::string::npos);
  CHECK(said.find("10.0.0.2") != std::string::npos);
  // It went over the wire, and back again it goes as well.
  machines.at("west")->Do("onecopy cp weights east:weights --checksum");
}
