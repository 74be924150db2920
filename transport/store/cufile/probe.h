// Tries the library in a process of its own: it has crashed and hung in virtual machines.
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "onecopy/capability.h"

namespace onecopy::cufile {

struct ProbeOptions {
  // The program that is RunProbeChild in another process, with the arguments before those that
  // this adds.
  std::vector<std::string> program = {"/proc/self/exe", "backend-probe", "cufile"};
  std::string library;              // empty: the system's
  std::string cuda_library;         // likewise
  std::string folder = "/var/tmp";  // in which a file is read
  bool batch = true;                // whether batches are tried, too
  std::chrono::milliseconds limit{10000};
  std::string root = "/";  // of /proc and /dev, for tests
};

// What was found; the attributes also where it is not viable.
struct Probed {
  Viability viability;
  std::map<std::string, std::string> attributes;
};

// Blocks, for twice the limit at most. Viable where the library opens its driver without
// compatibility mode, and something counts which way bytes go. Else NO_DRIVER, NO_CUFILE,
// NO_NVIDIA_FS, COMPATIBILITY_MODE, NO_GDS, or DRIVER_FAILED where it has crashed or hung.
Probed Probe(const ProbeOptions& options);

}  // namespace onecopy::cufile
