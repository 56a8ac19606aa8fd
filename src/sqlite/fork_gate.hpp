// Lets a process fork only while no thread of a store is inside SQLite.
//
// SQLite guards what all connections of a process to one file share by mutexes, and counts their locks in memory. A
// child made by fork() inherits both as they are at that moment. A mutex that another thread holds then stays locked in
// the child for ever, and the first statement that the child runs on a connection of its own hangs.
//
// A thread enters after it has locked the connection that it wants to use, and locks no other connection while it is
// inside: fork() waits for the threads inside, so none of them may wait for a thread that wants to enter.
#pragma once

namespace outbox::inline v0::sqlite {

/// While a thread has one, it is inside SQLite. fork() waits until no thread is inside, except the one that forks.
/// Entering waits until a fork is over. Objects may be nested.
class inside_sqlite {
 public:
  inside_sqlite() noexcept;
  inside_sqlite(inside_sqlite const&) = delete;
  inside_sqlite& operator=(inside_sqlite const&) = delete;
  ~inside_sqlite();
};

/// While it exists, a thread that is inside SQLite is not: for a wait in SQLite's busy handler, which may be long.
/// SQLite holds nothing there that a child could miss.
class outside_sqlite {
 public:
  outside_sqlite() noexcept;
  outside_sqlite(outside_sqlite const&) = delete;
  outside_sqlite& operator=(outside_sqlite const&) = delete;
  ~outside_sqlite();

 private:
  int depth_;
};

/// True while a thread forks. For those that would rather come again than wait.
[[nodiscard]] bool fork_under_way() noexcept;

}  // namespace outbox::inline v0::sqlite
