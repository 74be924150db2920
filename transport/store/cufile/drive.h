// What keeps a file from going directly: properties of its drive and file system.
#pragma once

#include <sys/types.h>

#include <string>

#include "onecopy/status.h"

namespace onecopy::cufile {

// What is known of it: empty where nothing is. The library and its counters decide; this is said
// where they have said no, which they do without a reason.
struct DriveTrouble {
  std::string detail;
  std::string remedy;

  bool empty() const { return detail.empty(); }
  // The same failure, with this told, and its remedy first.
  Status Explain(const Status& failure) const;
};

// Of a file on that device, in a file system of that kind (statfs's f_type). Reads files of the
// kernel's below `root`.
DriveTrouble FindDriveTrouble(const std::string& root, dev_t device, unsigned long file_system);
// Of an open file.
DriveTrouble FindDriveTrouble(const std::string& root, int fd);

}  // namespace onecopy::cufile
