// A small order service on SQLite that is killed with SIGKILL in the middle of its work, and what happens to its
// events. The parent starts the service as a child process, kills it, starts it again, and then checks the promises.
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <outbox/sqlite.hpp>
#include <vector>

#include "shop.hpp"

namespace {

constexpr int orders_per_life = 600;

bool on_a_terminal() { return ::isatty(STDOUT_FILENO) != 0; }

class child {
 public:
  child(char const* program, demo::files const& f, int first, int last, bool repaired) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) std::abort();
    std::vector<std::string> words{program,
                                   "--serve",
                                   f.database,
                                   f.ledger,
                                   std::to_string(first),
                                   std::to_string(last),
                                   repaired ? "repaired" : "broken"};
    std::vector<char*> argv;
    for (auto& w : words) argv.push_back(w.data());
    argv.push_back(nullptr);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::dup2(ends[1], STDOUT_FILENO);
      ::execv(program, argv.data());
      ::_exit(127);
    }
    ::close(ends[1]);
    output_ = ::fdopen(ends[0], "r");
  }
  child(child const&) = delete;
  child& operator=(child const&) = delete;
  ~child() { std::fclose(output_); }

  // Waits until the service has placed this many orders, or ends. Returns the number of orders.
  int watch(int most) const {
    char line[32];
    int placed = 0;
    while (placed < most && std::fgets(line, sizeof line, output_) != nullptr) {
      if (++placed % 10 == 0) show(placed, orders_per_life);
    }
    if (on_a_terminal()) std::printf("\r\033[K");
    return placed;
  }
  void kill_hard() const { ::kill(pid_, SIGKILL); }
  [[nodiscard]] int wait() const {
    int status = 0;
    ::waitpid(pid_, &status, 0);
    return status;
  }

 private:
  static void show(int placed, int of) {
    if (!on_a_terminal()) return;
    constexpr int width = 40;
    int const filled = placed * width / of;
    std::string bar;
    for (int i = 0; i < width; ++i) bar += i < filled ? "█" : "·";
    std::printf("\r     %s %d orders", bar.c_str(), placed);
    std::fflush(stdout);
  }

  ::pid_t pid_ = -1;
  std::FILE* output_ = nullptr;
};

int run(char const* program) {
  auto directory = (std::filesystem::temp_directory_path() / "outbox-demo-XXXXXX").string();
  if (::mkdtemp(directory.data()) == nullptr) return 1;
  demo::files const f{directory + "/shop.db", directory + "/ledger"};
  static_cast<void>(outbox::sqlite::open(f.database));
  outbox::sqlite::connection{f.database}.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY)");

  std::printf(
      "  1  An order service writes each order and its event in one SQLite transaction; every eighth is\n"
      "     rolled back. The carrier is closed now and then, some orders are delayed, some have no address.\n");
  child const first{program, f, 1, orders_per_life, false};
  int const before = first.watch(orders_per_life / 2);
  first.kill_hard();
  static_cast<void>(first.wait());
  std::printf("  2  After %d orders it was killed with SIGKILL.\n", before);

  std::printf("  3  A second process takes over what was left, and continues with new orders.\n");
  child const second{program, f, orders_per_life + 1, 2 * orders_per_life, false};
  static_cast<void>(second.watch(orders_per_life));
  if (second.wait() != 0) return std::printf("the second process failed\n"), 1;

  std::printf("  4  The addresses are corrected; the dead events are replayed.\n");
  child const third{program, f, 1, 0, true};
  if (third.wait() != 0) return std::printf("the third process failed\n"), 1;
  std::printf("  5  Everything is settled. The ledger of the listener, compared with the orders in the database:\n\n");

  int const verdict = demo::judge(f);
  std::filesystem::remove_all(directory);
  if (verdict == 0) {
    std::printf(
        "\nNext: examples/quick_start.cpp is the smallest program; docs/tutorial.md explains it in ten minutes;\n"
        "`make test` runs everything, `make sim SEEDS=1000` breaks a simulated cluster a thousand times.\n");
  }
  return verdict;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 7 && std::string{argv[1]} == "--serve") {
    return demo::serve({argv[2], argv[3]}, std::atoi(argv[4]), std::atoi(argv[5]), std::string{argv[6]} == "repaired");
  }
  return run(argv[0]);
}
