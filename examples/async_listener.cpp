// A listener that does not wait: one worker has many calls under way, and a C library calls back.
#include <condition_variable>
#include <cstdio>
#include <deque>
#include <mutex>
#include <outbox/memory.hpp>
#include <outbox/outbox.hpp>
#include <thread>

// A typical client library. Any thread may send. It calls back later, from its own thread, with the caller's pointer.
class mail_client {
 public:
  using callback = void (*)(int status, void* user_data);
  void send(std::string to, callback done, void* user_data) {
    std::lock_guard const lock{mutex_};
    mails_.push_back({std::move(to), done, user_data});
    sent_.notify_one();
  }

 private:
  struct mail {
    std::string to;
    callback done;
    void* user_data;
  };

  void run(std::stop_token const& stop) {
    std::unique_lock lock{mutex_};
    while (sent_.wait(lock, stop, [this] { return !mails_.empty(); })) {
      mail const next = std::move(mails_.front());
      mails_.pop_front();
      lock.unlock();
      next.done(next.to.empty() ? 550 : 250, next.user_data);
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable_any sent_;
  std::deque<mail> mails_;
  // The last member, because it uses the others.
  std::jthread thread_{[this](std::stop_token const& stop) { run(stop); }};
};

int main() {
  mail_client client;
  outbox::listeners listeners;
  listeners.on("mail.requested",
               [&client](outbox::delivery const& d, outbox::completion done) {
                 auto const on_reply = [](int status, void* user_data) {
                   auto answer = outbox::completion::adopt(user_data);
                   if (status == 550) return answer(outbox::dead{"no such mailbox"});
                   answer(outbox::done);
                 };
                 auto const to = d.event.payload() == "null" ? std::string{} : d.event.payload();
                 client.send(to, on_reply, done.release());  // the client is thread-safe
               },
               {.timeout = std::chrono::seconds{10}, .max_in_flight = 100});

  auto store = outbox::memory::open();
  auto box = outbox::single_node({.store = store, .listeners = std::move(listeners), .workers = 4, .log = nullptr});
  box.start();
  for (int i = 0; i < 200; ++i) {
    outbox::memory::transaction tx{*store};
    box.writer().write(tx, "mail.requested", i == 99 ? "null" : "\"ada@example.org\"");
    tx.commit();
  }
  while (store->inspect().counts().pending() > 0) std::this_thread::yield();
  box.stop();
  std::printf("sent %d, dead %d\n", static_cast<int>(box.counters().delivered), static_cast<int>(box.counters().dead));
}
