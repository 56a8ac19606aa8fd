// The code of the page on stores and adapters: a store around another one, and a transaction class of the program.
#include <atomic>
#include <cstdio>
#include <filesystem>
#include <outbox/memory.hpp>
#include <outbox/outbox.hpp>
#include <outbox/spi/forwarding_store.hpp>
#include <outbox/sqlite.hpp>
#include <string>

// Counts the claims that find nothing. Every other call goes straight to the store behind it.
class claim_counter final : public outbox::spi::forwarding_store {
 public:
  using forwarding_store::forwarding_store;

  outbox::spi::claim_reply claim(outbox::spi::claim_request const& request) override {
    auto reply = forwarding_store::claim(request);
    if (reply.rows.empty()) ++empty_claims;
    return reply;
  }

  std::atomic<int> empty_claims = 0;
};

// A class that a program may have already: it begins a transaction and ends it.
class unit_of_work {
 public:
  explicit unit_of_work(outbox::sqlite::connection& db) : tx_{db} {}
  outbox::sqlite::transaction& transaction() noexcept { return tx_; }
  void save() { tx_.commit(); }

 private:
  outbox::sqlite::transaction tx_;
};

template <>
struct outbox::transaction_traits<unit_of_work> {
  static transaction_ref join(unit_of_work& work) { return outbox::join(work.transaction()); }
};

int main() {
  auto const counted = std::make_shared<claim_counter>(outbox::memory::open());
  auto idle = outbox::single_node({.store = counted});
  idle.run_until_idle();
  std::printf("empty claims: %s\n", counted->empty_claims > 0 ? "some" : "none");

  auto const path = std::filesystem::temp_directory_path() / "outbox-unit-of-work.db";
  for (auto const* suffix : {"", "-wal", "-shm"}) std::filesystem::remove(path.string() + suffix);
  std::atomic<int> hot = 0;
  outbox::listeners listeners;
  listeners.on("order.placed", [&](outbox::delivery const& d) {
    if (d.path == outbox::path::hot) ++hot;
  });
  auto box = outbox::single_node({.store = outbox::sqlite::open(path), .listeners = std::move(listeners)});
  box.run_until_idle();
  outbox::sqlite::connection db{path};
  {
    unit_of_work work{db};
    box.writer().write(work, "order.placed", outbox::json_text{"{}"});
    work.save();
  }
  box.run_until_idle();
  std::printf("a unit of work: %d on the hot path\n", hot.load());
}
