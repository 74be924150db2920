// Which UCX this machine has: the distribution's, and those that vendors install beside it.
#pragma once

#include <string>
#include <vector>

namespace onecopy::shim {

// One installed libucp.so.0. What it reaches is told by the modules beside it, so nothing is loaded
// to find out.
struct UcxBuild {
  std::string library;  // its path
  bool vendors = false;
  bool verbs = false;  // RDMA devices
  bool cuda = false;   // memory of GPUs
  std::string unsafe;  // why a daemon must not load it; empty: it may

  int reaches() const { return (cuda ? 2 : 0) + (verbs ? 1 : 0); }
};

// Looks for the distribution's, for HPC-X below /opt and in the HPC SDK, and for DOCA-OFED. Lists
// them in that order. Of one kind the newest comes last. Tests set another `root`. May block on a
// slow disk.
std::vector<UcxBuild> InstalledUcx(const std::string& root = "/");

// The one to load where the configuration names none: the vendor's that reaches most, if that is
// more than what the distribution's does. Null: the one that the system finds by itself, also where
// the user's environment (LD_LIBRARY_PATH) says where that is.
const UcxBuild* ChooseUcx(const std::vector<UcxBuild>& builds);

}  // namespace onecopy::shim
