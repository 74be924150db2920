// A certificate authority of a test's own, by the openssl command.
#pragma once

#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/support/temp_folder.h"

namespace onecopy::testing {

class Authority {
 public:
  struct Files {
    std::string certificate;
    std::string key;
  };

  Authority() {
    Run("openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2"
        " -subj '/CN=Test CA' -keyout " +
        folder_ / "ca.key" + " -out " + ca());
  }

  std::string ca() const { return folder_ / "ca.pem"; }
  std::string crl() const { return folder_ / "crl.pem"; }

  // Writes the list of revoked certificates, these alone, and returns its file's name. `days` may
  // be negative: the list is then out of date.
  std::string Revoke(const std::vector<Files>& revoked, int days = 2) {
    WriteConfiguration();
    for (const Files& files : revoked) Run(Ca() + " -revoke " + files.certificate);
    const std::string until =
        days < 0 ? " -crl_lastupdate 20200101000000Z -crl_nextupdate 20200201000000Z"
                 : " -crldays " + std::to_string(days);
    Run(Ca() + " -gencrl" + until + " -out " + crl());
    return crl();
  }

  // A certificate for these subject alternative names ("DNS:east,URI:onecopy://east"; may be
  // empty), valid now or, `expired`, some years ago; `extension` is a line of an openssl
  // configuration.
  Files Issue(const std::string& name, const std::string& alternative_names, bool expired = false,
              const std::string& extension = "basicConstraints=CA:FALSE") {
    const Files files{folder_ / (name + ".pem"), folder_ / (name + ".key")};
    const std::string request = folder_ / (name + ".csr");
    const std::string extensions = folder_ / (name + ".ext");
    std::ofstream file(extensions);
    file << extension << "\n";
    if (!alternative_names.empty()) file << "subjectAltName=" << alternative_names << "\n";
    file.close();
    Run("openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=" + name +
        " -keyout " + files.key + " -out " + request);
    // `openssl ca` takes dates of the past, which `openssl x509` does not.
    WriteConfiguration();
    const std::string dates =
        expired ? " -startdate 20200101000000Z -enddate 20200201000000Z" : " -days 2";
    Run(Ca() + " -batch -notext -extfile " + extensions + dates + " -in " + request + " -out " +
        files.certificate);
    return files;
  }

 private:
  std::string Ca() const {
    return "openssl ca -config " + folder_ / "ca.conf" + " -cert " + ca() + " -keyfile " +
           folder_ / "ca.key";
  }

  // An authority that remembers nothing of what it did before.
  void WriteConfiguration() {
    { const std::ofstream empty(folder_ / "index.txt", std::ios::trunc); }
    std::ofstream(folder_ / "ca.conf", std::ios::trunc)
        << "[ca]\ndefault_ca=d\n[d]\ndatabase=" << folder_ / "index.txt"
        << "\nnew_certs_dir=" << folder_.path().string() << "\ndefault_md=sha256\npolicy=p\n"
        << "rand_serial=yes\nunique_subject=no\n[p]\ncommonName=supplied\n";
  }

  void Run(const std::string& command) {
    const std::string log = folder_ / "log";
    if (std::system((command + " >" + log + " 2>&1").c_str()) != 0) {
      std::ifstream file(log);
      throw std::runtime_error(command + "\n" +
                               std::string(std::istreambuf_iterator<char>(file), {}));
    }
  }

  TempFolder folder_;
};

// The text of a file.
inline std::string ReadFile(const std::string& path) {
  std::ifstream file(path);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

}  // namespace onecopy::testing
