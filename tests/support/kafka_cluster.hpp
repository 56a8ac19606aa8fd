// A Kafka cluster for tests: librdkafka's mock in a process of its own, or one that runs elsewhere.
#pragma once

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace outbox {

/// Why a case cannot run in this build; empty if it can. To be printed by GTEST_SKIP().
[[nodiscard]] inline std::string why_no_kafka() {
#ifdef __SANITIZE_THREAD__
  return "librdkafka starts its threads by thrd_create of C11, which the thread sanitizer does not know: they crash";
#else
  return {};
#endif
}

class kafka_cluster {
 public:
  explicit kafka_cluster(int brokers = 1) {
    if (char const* const elsewhere = std::getenv("OUTBOX_TEST_KAFKA")) {
      addresses_ = elsewhere;
      return;
    }
    std::string const program = OUTBOX_KAFKA_MOCK, count = std::to_string(brokers);
    int to[2], from[2];
    if (::pipe2(to, O_CLOEXEC) != 0 || ::pipe2(from, O_CLOEXEC) != 0) throw std::runtime_error{"cannot make a pipe"};
    pid_ = ::fork();
    if (pid_ < 0) throw std::runtime_error{"cannot start a process"};
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      ::dup2(to[0], STDIN_FILENO);
      ::dup2(from[1], STDOUT_FILENO);
      ::execl(program.c_str(), program.c_str(), count.c_str(), nullptr);
      ::_exit(127);
    }
    ::close(to[0]);
    ::close(from[1]);
    to_ = to[1];
    from_ = from[0];
    addresses_ = line();
    if (addresses_.empty()) throw std::runtime_error{"the mock of Kafka did not start"};
  }
  kafka_cluster(kafka_cluster const&) = delete;
  kafka_cluster& operator=(kafka_cluster const&) = delete;
  ~kafka_cluster() {
    if (pid_ <= 0) return;
    ::close(to_);
    ::waitpid(pid_, nullptr, 0);
    ::close(from_);
  }

  /// False: the cases that inject errors cannot run.
  [[nodiscard]] bool is_mock() const noexcept { return pid_ > 0; }
  [[nodiscard]] std::string const& addresses() const noexcept { return addresses_; }

  void topic(std::string const& name, int partitions) { command("topic " + name + " " + std::to_string(partitions)); }
  /// The next requests to produce fail with this code.
  void fail_produce(int code, int count) { command("errors 0 " + std::to_string(code) + " " + std::to_string(count)); }
  void fail_topic(std::string const& name, int code) { command("topic_error " + name + " " + std::to_string(code)); }
  void down(int broker) { command("down " + std::to_string(broker)); }
  void up(int broker) { command("up " + std::to_string(broker)); }

  /// What an independent client finds in a topic.
  struct found {
    std::string key, payload, headers;
    int partition = -1;
  };
  [[nodiscard]] std::vector<found> messages(std::string const& topic) const {
    // Fields and messages end with characters that no test sends.
    auto const command = "kcat -q -C -b " + addresses_ + " -t " + topic +
                         " -e -o beginning -f '%p\\x01%k\\x01%h\\x01%s\\x02' 2>/dev/null";
    std::unique_ptr<FILE, int (*)(FILE*)> const out{::popen(command.c_str(), "r"), &::pclose};
    std::string all;
    std::array<char, 65536> some{};
    for (std::size_t n = 0; (n = std::fread(some.data(), 1, some.size(), out.get())) > 0;) all.append(some.data(), n);
    std::vector<found> list;
    std::istringstream in{all};
    for (std::string one; std::getline(in, one, '\x02');) {
      std::istringstream fields{one};
      found f;
      std::string partition;
      std::getline(fields, partition, '\x01');
      std::getline(fields, f.key, '\x01');
      std::getline(fields, f.headers, '\x01');
      std::getline(fields, f.payload, '\x02');
      f.partition = std::stoi(partition);
      list.push_back(std::move(f));
    }
    return list;
  }

  /// How often each payload is in a topic.
  [[nodiscard]] std::map<std::string, int> payloads(std::string const& topic) const {
    std::map<std::string, int> all;
    for (auto const& m : messages(topic)) ++all[m.payload];
    return all;
  }

 private:
  void command(std::string const& text) {
    auto const all = text + "\n";
    if (::write(to_, all.data(), all.size()) != static_cast<ssize_t>(all.size()) || line() != "ok") {
      throw std::runtime_error{"the mock of Kafka refused: " + text};
    }
  }
  std::string line() const {
    std::string text;
    char c = 0;
    while (::read(from_, &c, 1) == 1 && c != '\n') text += c;
    return text;
  }

  ::pid_t pid_ = -1;
  int to_ = -1, from_ = -1;
  std::string addresses_;
};

}  // namespace outbox
