// A small order service on SQLite that is killed with SIGKILL in the middle of its work, and what becomes of its
// events.
//
// The parent starts the service as a child process, kills it when half of the orders are placed, starts it again, and
// then judges: the orders table shares its transactions with the events, and the carrier keeps a ledger in a file of
// its own.
#include <fcntl.h>
#include <sqlite3.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <outbox/json.hpp>
#include <outbox/outbox.hpp>
#include <outbox/sqlite.hpp>
#include <set>
#include <string>
#include <thread>
#include <vector>

using namespace std::chrono_literals;

namespace {

constexpr int orders_per_life = 400;

struct order_placed {
  static constexpr std::string_view event_type = "order.placed";
  using outbox_codec = outbox::json;
  std::string order_id;
  std::int64_t cents = 0;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(order_placed, order_id, cents)

struct files {
  std::string database, ledger;
};

// The service, as a process of its own.

outbox::listeners carrier(files const& f) {
  int const ledger = ::open(f.ledger.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
  outbox::listeners listeners;
  listeners.on<order_placed>(
      [ledger](order_placed const& e, outbox::delivery const& d) -> outbox::result {
        if (e.cents % 10 == 3 && d.attempt == 1) return outbox::failed{"the carrier is down", 20ms};
        std::string const line =
            e.order_id + (d.source == outbox::source::hot ? " hot " : " cold ") + std::to_string(d.attempt) + "\n";
        return ::write(ledger, line.data(), line.size()) < 0 ? outbox::result{outbox::failed{"the ledger is full"}}
                                                             : outbox::done;
      },
      {.name = "carrier"});
  return listeners;
}

void place_orders(files const& f, outbox::writer const& writer, int first) {
  outbox::sqlite::connection db{f.database};
  for (int i = first; i < first + orders_per_life; ++i) {
    auto const id = std::to_string(i);
    outbox::sqlite::transaction tx{db};
    db.execute("INSERT INTO orders (id) VALUES ('" + id + "')");
    writer.write(tx, order_placed{id, i}, {.id = "event-" + id, .aggregate = {"order", id}});
    if (i % 8 != 0) tx.commit();  // every eighth is rolled back
    std::printf("%d\n", i);       // the parent counts
    std::fflush(stdout);
  }
}

int serve(files const& f, int first) {
  auto const store = outbox::sqlite::open(f.database);
  auto box = outbox::single_node({.store = store, .listeners = carrier(f)});
  box.start();
  place_orders(f, box.writer(), first);
  while (store->inspect().counts().pending() > 0) std::this_thread::sleep_for(1ms);
  return box.stop() ? 0 : 1;
}

// The parent.

struct child {
  ::pid_t pid;
  std::FILE* output;
};

child start(char const* program, files const& f, int first) {
  int ends[2];
  if (::pipe(ends) != 0) std::abort();
  auto const number = std::to_string(first);
  ::pid_t const pid = ::fork();
  if (pid == 0) {
    ::dup2(ends[1], STDOUT_FILENO);
    ::close(ends[0]);
    ::execl(program, program, "--serve", f.database.c_str(), f.ledger.c_str(), number.c_str(), nullptr);
    ::_exit(127);
  }
  ::close(ends[1]);
  return {pid, ::fdopen(ends[0], "r")};
}

// Reads what the child prints until it has placed this many orders, or ends.
void watch(child const& c, int orders) {
  char line[32];
  for (int i = 0; i < orders && std::fgets(line, sizeof line, c.output) != nullptr; ++i) {
    if (i % 50 == 49 && ::isatty(STDOUT_FILENO) != 0) {
      std::printf("\r  %d orders", i + 1);
      std::fflush(stdout);
    }
  }
  if (::isatty(STDOUT_FILENO) != 0) std::printf("\r                    \r");
}

int finish(child const& c) {
  int status = 0;
  ::waitpid(c.pid, &status, 0);
  std::fclose(c.output);
  return status;
}

std::set<std::string> committed_orders(files const& f) {
  std::set<std::string> ids;
  outbox::sqlite::connection db{f.database};
  auto const add = [](void* to, int, char** v, char**) {
    static_cast<std::set<std::string>*>(to)->insert(v[0]);
    return 0;
  };
  sqlite3_exec(db.handle(), "SELECT id FROM orders", add, &ids, nullptr);
  return ids;
}

int judge(files const& f) {
  auto const orders = committed_orders(f);
  std::map<std::string, int> delivered;
  std::map<std::string, int> by_path;
  int retried = 0;
  std::ifstream ledger{f.ledger};
  int attempt = 0;
  for (std::string id, path; ledger >> id >> path >> attempt;) {
    delivered[id] += 1;
    by_path[path] += 1;
    retried += attempt > 1 ? 1 : 0;
  }
  std::size_t lost = 0;
  std::size_t phantoms = 0;
  std::size_t twice = 0;
  for (auto const& id : orders) lost += delivered.contains(id) ? 0U : 1U;
  for (auto const& [id, times] : delivered) {
    phantoms += orders.contains(id) ? 0U : 1U;
    twice += times > 1 ? 1U : 0U;
  }
  std::printf("  orders committed     %6zu\n", orders.size());
  std::printf("  delivered hot        %6d   handed over by the commit\n", by_path["hot"]);
  std::printf("  delivered cold       %6d   found in the table: retries, and what the killed process left\n",
              by_path["cold"]);
  std::printf("  delivered on retry   %6d\n", retried);
  std::printf("  delivered twice      %6zu   the process was killed before it could say that they were done\n\n",
              twice);
  std::printf("lost: %zu\nphantoms: %zu\n", lost, phantoms);
  return lost == 0 && phantoms == 0 && !orders.empty() ? 0 : 1;
}

int demo(char const* program) {
  auto pattern = (std::filesystem::temp_directory_path() / "outbox-demo-XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr) return 1;
  files const f{pattern + "/shop.db", pattern + "/ledger"};
  static_cast<void>(outbox::sqlite::open(f.database));
  outbox::sqlite::connection{f.database}.execute("CREATE TABLE orders (id TEXT PRIMARY KEY)");

  std::printf(
      "An order service writes each order and its event in one SQLite transaction; every eighth is rolled back.\n");
  auto const first = start(program, f, 1);
  watch(first, orders_per_life / 2);
  ::kill(first.pid, SIGKILL);
  finish(first);
  std::printf("After %d orders it was killed with SIGKILL. A second process takes over, and goes on with new orders.\n",
              orders_per_life / 2);
  auto const second = start(program, f, orders_per_life + 1);
  watch(second, orders_per_life);
  if (finish(second) != 0) {
    std::printf("the second process failed\n");
    return 1;
  }
  std::printf("Everything is settled.\n\n");
  int const verdict = judge(f);
  std::filesystem::remove_all(pattern);
  return verdict;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 5 && std::string{argv[1]} == "--serve") return serve({argv[2], argv[3]}, std::atoi(argv[4]));
  return demo(argv[0]);
}
