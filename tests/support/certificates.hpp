// Certificates for the servers and clients of a test, made by the openssl program.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>

#include "support/server_process.hpp"
#include "support/temporary_directory.hpp"

namespace outbox {

/// Two authorities, "ca" and "other_ca", and certificates that "ca" signed: "server", for this machine; "elsewhere",
/// for another host; "expired"; and "client". Each has a file <name>.crt and a file <name>.key. The server's account
/// may read all of them.
class certificates {
 public:
  certificates() {
    std::filesystem::permissions(dir_.string(), std::filesystem::perms::all);
    make_authority("ca");
    make_authority("other_ca");
    std::string const here = "subjectAltName=DNS:localhost,IP:127.0.0.1,IP:::1";
    sign("server", here);
    sign("elsewhere", "subjectAltName=DNS:elsewhere.example");
    sign("expired", here, -1);
    sign("client", "extendedKeyUsage=clientAuth");
  }

  /// The path of one of "ca.crt", "other_ca.crt", "server.crt", "server.key", …
  [[nodiscard]] std::string operator()(std::string const& name) const { return dir_ / name; }

 private:
  static void run(std::string const& command) {
    if (std::system((command + " 2>/dev/null").c_str()) != 0) {
      throw std::runtime_error{"failed (is openssl installed?): " + command};
    }
  }
  void make_authority(std::string const& name) const {
    run("openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=" + name +
        " -keyout " + (dir_ / (name + ".key")) + " -out " + (dir_ / (name + ".crt")));
  }
  void sign(std::string const& name, std::string const& extension, int days = 2) const {
    auto const path = dir_ / name;
    run("openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=" + name + " -keyout " + path +
        ".key -out " + path + ".csr");
    run("echo " + extension + " > " + path + ".ext");
    run("openssl x509 -req -days " + std::to_string(days) + " -CAcreateserial -CA " + (dir_ / "ca.crt") + " -CAkey " +
        (dir_ / "ca.key") + " -in " + path + ".csr -extfile " + path + ".ext -out " + path + ".crt");
    std::filesystem::permissions(path + ".key", std::filesystem::perms::owner_read);
    if (::geteuid() == 0 && name != "client" && ::chown((path + ".key").c_str(), server_account, server_account) != 0) {
      throw std::runtime_error{"cannot give a key to the server"};
    }
  }

  temporary_directory dir_;
};

}  // namespace outbox
