// What the database servers of the tests have in common: a directory of their own, an account that is not root, and an
// end by process id.
#pragma once

#include <fcntl.h>
#include <grp.h>
#include <sys/prctl.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace outbox {

/// The account "nobody", which a server runs as if root starts it: servers refuse to run as root.
inline constexpr ::uid_t server_account = 65534;

/// Returns the text of a file; empty if there is none.
[[nodiscard]] inline std::string text_of_file(std::string const& path) {
  std::ifstream in{path};
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

/// Makes a directory that belongs to the server's account, and returns its path. It is in memory where nothing need be
/// durable: a server makes and drops many small files.
[[nodiscard]] inline std::string make_server_directory(std::string const& prefix, bool durable) {
  namespace fs = std::filesystem;
  std::error_code none;
  auto const memory = fs::space("/dev/shm", none);
  bool const in_memory = !durable && !none && memory.available > (std::uintmax_t{2} << 30U);
  auto path = ((in_memory ? fs::path{"/dev/shm"} : fs::temp_directory_path()) / (prefix + "-XXXXXX")).string();
  if (::mkdtemp(path.data()) == nullptr) throw std::runtime_error{"cannot make a temporary directory"};
  if (::geteuid() == 0 && ::chown(path.c_str(), server_account, server_account) != 0) {
    throw std::runtime_error{"cannot give the directory away"};
  }
  return path;
}

/// A process, by its id. It is not ended by the destructor.
class server_process {
 public:
  /// None.
  server_process() = default;

  /// One that another process started.
  explicit server_process(::pid_t pid) : pid_{pid}, ours_{false} {}

  /// Runs a program in a session of its own, not as root. What it says is appended to the file `log`. It gets the
  /// signal `at_our_end` when the thread that started it ends, however that ends; 0: it gets none.
  server_process(std::vector<std::string> command, std::vector<std::string> environment, std::string log,
                 int at_our_end)
      : log_{std::move(log)} {
    std::vector<char*> argv;  // made before the fork: in the child only system calls are safe
    for (auto& word : command) argv.push_back(word.data());
    argv.push_back(nullptr);
    pid_ = ::fork();
    if (pid_ < 0) throw std::runtime_error{"cannot start a process"};
    if (pid_ == 0) become(argv.data(), environment, at_our_end);
  }

  [[nodiscard]] ::pid_t pid() const noexcept { return pid_; }
  [[nodiscard]] bool alive() const noexcept { return pid_ > 0 && ::kill(pid_, 0) == 0; }

  /// Asks `ready` until it returns true. Throws with what the process said if it ends before, or takes a minute.
  template <class F>
  void wait_until(F&& ready) {
    auto const deadline = std::chrono::steady_clock::now() + std::chrono::minutes{1};
    while (!ready()) {
      if (has_ended() || std::chrono::steady_clock::now() > deadline) {
        throw std::runtime_error{"the server did not come up: " + text_of_file(log_)};
      }
      std::this_thread::sleep_for(std::chrono::milliseconds{5});
    }
  }

  /// Sends a signal and returns when the process has ended. Does nothing if there is none.
  void end(int signal) noexcept {
    if (pid_ <= 0) return;
    ::kill(pid_, signal);
    auto const deadline = std::chrono::steady_clock::now() + std::chrono::minutes{1};
    if (ours_) ::waitpid(pid_, nullptr, 0);
    while (!ours_ && alive() && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(std::chrono::milliseconds{5});
    }
    pid_ = -1;
  }

 private:
  bool has_ended() noexcept {
    if (!alive()) return true;
    if (!ours_ || ::waitpid(pid_, nullptr, WNOHANG) != pid_) return false;
    pid_ = -1;
    return true;
  }

  // In the child.
  [[noreturn]] void become(char* const* argv, std::vector<std::string>& environment, int at_our_end) const noexcept {
    ::setsid();
    int const out = ::open(log_.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0666);
    int const in = ::open("/dev/null", O_RDONLY);
    ::dup2(in, 0);
    ::dup2(out, 1);
    ::dup2(out, 2);
    for (int fd = 3; fd < 256; ++fd) ::close(fd);
    if (::geteuid() == 0 &&
        (::setgroups(0, nullptr) != 0 || ::setgid(server_account) != 0 || ::setuid(server_account) != 0)) {
      ::_exit(126);
    }
    if (at_our_end != 0) ::prctl(PR_SET_PDEATHSIG, at_our_end);  // after setuid(), which forgets it
    for (auto& e : environment) ::putenv(e.data());
    ::execv(argv[0], argv);
    ::_exit(127);
  }

  ::pid_t pid_ = -1;
  bool ours_ = true;  ///< A child of this process.
  std::string log_;
};

/// Runs a program to its end, as a server is run. Throws with what it said if it fails.
inline void run_as_server(std::vector<std::string> const& command, std::string const& log) {
  server_process const program{command, {}, log, SIGTERM};
  int status = 0;
  ::waitpid(program.pid(), &status, 0);
  if (status != 0) throw std::runtime_error{command.front() + " failed: " + text_of_file(log)};
}

}  // namespace outbox
