// A listener that does not wait: one worker has many calls under way, and a C library calls back.
#include <cstdio>
#include <outbox/memory.hpp>
#include <outbox/outbox.hpp>
#include <thread>
#include <vector>

// A client library of the usual kind: it calls back later, from a thread of its own, with your pointer.
class mail_client {
 public:
  using callback = void (*)(int status, void* user_data);
  void send(std::string const& to, callback done, void* user_data) {
    calls_.emplace_back([to, done, user_data] { done(to.empty() ? 550 : 250, user_data); });
  }

 private:
  std::vector<std::jthread> calls_;
};

int main() {
  mail_client client;
  outbox::listeners listeners;
  listeners.on("mail.requested",
               [&](outbox::delivery const& d, outbox::completion done) {
                 auto const on_reply = [](int status, void* user_data) {
                   auto answer = outbox::completion::adopt(user_data);
                   if (status == 550) return answer(outbox::dead{"no such mailbox"});
                   answer(outbox::done);
                 };
                 auto const to = d.event.payload() == "null" ? std::string{} : d.event.payload();
                 client.send(to, on_reply, done.release());
               },
               {.timeout = std::chrono::seconds{10}, .max_in_flight = 100});

  auto store = outbox::memory::open();
  auto box = outbox::single_node({.store = store, .listeners = std::move(listeners), .workers = 1, .log = nullptr});
  box.start();
  {
    outbox::memory::transaction tx{*store};
    for (int i = 0; i < 5; ++i) box.writer().write(tx, "mail.requested", "\"ada@example.org\"");
    box.writer().write(tx, "mail.requested", "null");
    tx.commit();
  }
  while (store->inspect().counts().pending() > 0) std::this_thread::yield();
  box.stop();
  std::printf("sent %d, dead %d\n", static_cast<int>(box.counters().succeeded), static_cast<int>(box.counters().died));
}
