// Runs a fuzz target on its corpus: in every build, with whichever sanitizer that has.
//
//   ONECOPY_WRITE_SEEDS=1 bin/tests/fuzz/NAME    writes what Seeds() gives to the corpus
#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/fuzz/fuzz.h"
#include "tests/support/catch.h"

namespace {

namespace fs = std::filesystem;

void Run(const std::string& input) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(input.data()), input.size());
}

std::string Read(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

}  // namespace

TEST_CASE("what is right is taken, and so is what is nearly so") {
  const std::vector<std::string> seeds = onecopy::fuzz::Seeds();
  REQUIRE_FALSE(seeds.empty());
  const bool write = std::getenv("ONECOPY_WRITE_SEEDS") != nullptr;
  if (write) fs::create_directories(ONECOPY_CORPUS);
  for (size_t i = 0; i < seeds.size(); ++i) {
    const std::string& seed = seeds[i];
    Run(seed);
    if (write) {
      std::ofstream(fs::path(ONECOPY_CORPUS) / ("seed-" + std::to_string(i)), std::ios::binary)
          << seed;
    }
    // Cut short, and with a byte changed, at some places.
    const size_t step = std::max<size_t>(seed.size() / 64, 1);
    for (size_t at = 0; at < seed.size(); at += step) {
      Run(seed.substr(0, at));
      std::string changed = seed;
      changed[at] = static_cast<char>(changed[at] ^ 0x81);
      Run(changed);
    }
    Run(seed + seed);
  }
}

TEST_CASE("everything in the corpus") {
  if (!fs::is_directory(fs::path(ONECOPY_CORPUS).parent_path())) {
    WARN("SKIP: the corpora are not on this machine");
    return;
  }
  INFO(ONECOPY_CORPUS);
  REQUIRE(fs::is_directory(ONECOPY_CORPUS));  // each target has one, of its seeds at the least
  size_t inputs = 0;
  for (const auto& entry : fs::directory_iterator(ONECOPY_CORPUS)) {
    Run(Read(entry.path()));
    ++inputs;
  }
  CHECK(inputs > 0);
}
