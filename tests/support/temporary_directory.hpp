// A directory that is gone when the test is.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>

namespace outbox {

class temporary_directory {
 public:
  explicit temporary_directory(std::filesystem::path const& in = std::filesystem::temp_directory_path()) {
    auto pattern = (in / "outbox-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error{"cannot make a temporary directory"};
    path_ = pattern;
  }
  temporary_directory(temporary_directory const&) = delete;
  temporary_directory& operator=(temporary_directory const&) = delete;
  ~temporary_directory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  [[nodiscard]] std::string operator/(std::string const& name) const { return (path_ / name).string(); }
  [[nodiscard]] std::string string() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

}  // namespace outbox
