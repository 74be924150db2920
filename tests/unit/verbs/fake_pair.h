// Links on devices of the fake library (tests/support/fake_verbs).
#pragma once

#include <dlfcn.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/fake_verbs/fake_verbs.h"
#include "tests/support/link_pair.h"
#include "tests/support/test_library.h"
#include "transport/core/toolkit/rdma_settings.h"
#include "transport/link/verbs/factory.h"

namespace onecopy::testing {

inline std::string FakeVerbsPath() { return TestLibrary("libonecopy_fake_verbs.so"); }

inline fake_verbs::Control& FakeVerbs() {
  static fake_verbs::Control* const control = [] {
    void* const library = ::dlopen(FakeVerbsPath().c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) throw std::runtime_error(::dlerror());
    return reinterpret_cast<fake_verbs::Control* (*)()>(::dlsym(library, "onecopy_fake_verbs"))();
  }();
  return *control;
}

// An address of IPv4 as a GID, or of IPv6.
inline fake_verbs::Gid Ipv4Gid(uint8_t last) {
  return {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, last};
}
inline fake_verbs::Gid Ipv6Gid(uint8_t last) {
  return {0x20, 0x01, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last};
}
inline fake_verbs::Gid InfiniBandGid(uint8_t last) {
  return {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last};
}

// A port of InfiniBand, its LID and the end of its GID being `number`.
inline fake_verbs::PlantedPort InfiniBandPort(uint8_t number, int wire = 0) {
  fake_verbs::PlantedPort port;
  port.wire = wire;
  port.lid = number;
  port.gids = {{InfiniBandGid(number), IBV_GID_TYPE_IB}};
  return port;
}
inline fake_verbs::PlantedPort RocePort(const std::vector<fake_verbs::Gid>& gids) {
  fake_verbs::PlantedPort port;
  port.ethernet = true;
  for (const fake_verbs::Gid& gid : gids) port.gids.push_back({gid, IBV_GID_TYPE_ROCE_V2});
  return port;
}

inline void PlantDevice(const std::string& name, std::vector<fake_verbs::PlantedPort> ports) {
  fake_verbs::PlantedDevice device;
  device.name = name;
  device.ports = std::move(ports);
  FakeVerbs().Plant(device);
}

inline std::unique_ptr<Link> FakeLink(const std::string& node,
                                      const std::vector<std::string>& devices) {
  Backend<Link> verbs = verbs::Describe();
  BackendContext context{node, Settings(verbs.settings), FakeVerbsPath(), {}};
  context.rdma = Settings(RdmaSettings());
  context.rdma.Set("devices", devices);
  auto made = verbs.create(context);
  REQUIRE_OK(made);
  return std::move(*made);
}

// Owner's devices are those whose names begin with "o", the reader's with "r". For one test: the
// next one plants anew.
struct FakePair : LinkPair {
  FakePair() {
    owner = FakeLink("owner", {"o*"});
    reader = FakeLink("reader", {"r*"});
  }
};

// One port on each side, which reach each other.
inline void PlantTwo() {
  FakeVerbs().Reset();
  PlantDevice("o0", {InfiniBandPort(1)});
  PlantDevice("r0", {InfiniBandPort(2)});
}

}  // namespace onecopy::testing
