// Lets a process fork only while no thread of a store is inside SQLite.
//
// SQLite guards what all connections of a process to one file share by mutexes, and counts their locks in memory. A
// child made by fork() inherits both as they are at that moment. A mutex that another thread holds then stays locked in
// the child for ever, and the first statement that the child runs on a connection of its own hangs.
#pragma once

namespace outbox::inline v0::sqlite {

/// Make one before a store uses a connection of its own, and before the lock of that connection is taken. fork() waits
/// until all are gone that other threads made, and new ones wait until the fork is over. Objects may be nested.
class inside_sqlite {
 public:
  inside_sqlite() noexcept;
  inside_sqlite(inside_sqlite const&) = delete;
  inside_sqlite& operator=(inside_sqlite const&) = delete;
  ~inside_sqlite();
};

}  // namespace outbox::inline v0::sqlite
