// How the daemon learns which backends it was built with. Each backend's folder has a factory.h
// with one function that returns its description; CMake generates the list of them (see
// cmake/Backends.cmake).
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "onecopy/result.h"
#include "onecopy/topology.h"
#include "transport/core/base/settings.h"
#include "transport/core/contracts/link.h"
#include "transport/core/contracts/memory.h"
#include "transport/core/contracts/store.h"

namespace onecopy::tls {
class Trust;  // for links that encrypt; see transport/tls
}

namespace onecopy {

// What every backend is given.
struct BackendContext {
  std::string node;     // name of this node, for the steps that it reports
  Settings settings;    // of the backend's own section
  std::string library;  // [libraries] entry of the backend's vendor library; empty: the system's
  // HOST:PORT, of each address at which the lanes of peers arrive, for a link that listens.
  std::vector<std::string> lanes;
  Settings rdma = {};                      // of the section [rdma], for backends that ask for it
  bool peers_authenticated = false;        // peers' names are proven by certificates ([tls])
  std::shared_ptr<tls::Trust> trust = {};  // by which they are; null without [tls]
  bool lanes_plain = false;                // they need not encrypt what they carry anyway
  Topology topology = {};                  // of this machine, for the placement of threads
  std::map<std::string, std::string> libraries = {};  // all of [libraries]
};

// Creating a backend fails only for wrong settings; a missing device or library makes it not viable
// instead.
template <typename Interface>
struct Backend {
  std::string name;     // folder, section of the configuration, name in capabilities and receipts
  std::string library;  // key in [libraries] ("cuda", "ibverbs"); empty: it needs none
  std::vector<SettingSpec> settings;
  bool rdma = false;  // is given the section [rdma], which all links over RDMA devices share
  UniqueFunction<Result<std::unique_ptr<Interface>>(const BackendContext&)> create;
  // What `onecopyd backend-probe NAME …` does, in a process of its own, and its exit status; null
  // for a backend that has nothing to try. Its arguments are the backend's business.
  std::function<int(const std::vector<std::string>& arguments)> probe = nullptr;
};

struct Backends {
  std::vector<Backend<Memory>> memories;
  std::vector<Backend<Link>> links;
  std::vector<Backend<Store>> stores;
};

// Of this build. Defined in the generated list.
Backends AllBackends();

}  // namespace onecopy
