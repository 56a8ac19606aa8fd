// Deposits of each account one after the other, accounts in parallel, and an account that waits for a retry holds up no
// other.
//
//   example_order_per_key [deposits of each account]
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <outbox/json.hpp>
#include <outbox/memory.hpp>
#include <outbox/outbox.hpp>
#include <thread>

#include "example_files.hpp"

using namespace std::chrono_literals;

struct deposit {
  static constexpr std::string_view event_type = "deposit";
  using outbox_codec = outbox::json;
  std::string account;
  int number = 0;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(deposit, account, number)

int main(int argc, char** argv) {
  int const deposits = argc > 1 ? std::atoi(argv[1]) : 20;
  std::mutex mutex;
  std::map<std::string, int> last;  // the number of each account's last deposit
  bool others_went_on = false;

  outbox::listeners listeners;
  listeners.on<deposit>([&](deposit const& d, outbox::delivery const& call) -> outbox::result {
    if (d.account == "carol" && d.number == 1 && call.attempt < 3) return outbox::failed{"the branch is closed", 20ms};
    std::lock_guard const lock{mutex};
    must(d.number == last[d.account] + 1, "deposits of one account come in order");
    last[d.account] = d.number;
    if (d.account != "carol" && last["carol"] == 0) others_went_on = true;
    return outbox::done;
  });

  auto store = outbox::memory::open();
  auto box = outbox::keyed({.store = store, .listeners = std::move(listeners), .log = nullptr});
  box.start();
  for (int number = 1; number <= deposits; ++number) {
    for (auto const* const account : {"alice", "bob", "carol", "dave"}) {
      // In a database, the row of the account is locked here, before the event is written.
      outbox::memory::transaction tx{*store};
      box.writer().write(tx, deposit{account, number}, {.aggregate = {"account", account}});
      tx.commit();
    }
  }
  while (store->inspect().counts().pending() > 0) std::this_thread::sleep_for(1ms);
  box.stop();

  for (auto const& [account, number] : last) std::printf("%s: %d deposits in order\n", account.c_str(), number);
  std::printf("while carol waited, the others %s\n", others_went_on ? "went on" : "waited too");
}
