// A driver of Qt with a handle that the test chooses. It answers every query with one text.
#pragma once

#include <QtCore/QVariant>
#include <QtSql/QSqlDatabase>
#include <QtSql/QSqlDriver>
#include <QtSql/QSqlResult>
#include <utility>

namespace outbox {

class one_answer final : public QSqlResult {
 public:
  one_answer(QSqlDriver const* d, QString answer) : QSqlResult{d}, answer_{std::move(answer)} {}

 protected:
  QVariant data(int /*column*/) override { return answer_; }
  bool isNull(int /*column*/) override { return false; }
  bool reset(QString const& /*query*/) override {
    setSelect(true);
    setActive(true);
    return true;
  }
  bool fetch(int row) override {
    if (row == 0) setAt(0);
    return row == 0;
  }
  bool fetchFirst() override { return fetch(0); }
  bool fetchLast() override { return fetch(0); }
  int size() override { return 1; }
  int numRowsAffected() override { return 0; }

 private:
  QString answer_;
};

class foreign_driver final : public QSqlDriver {
 public:
  explicit foreign_driver(QVariant handle, QString answer = {})
      : handle_{std::move(handle)}, answer_{std::move(answer)} {
    setOpen(true);
  }
  bool hasFeature(DriverFeature /*feature*/) const override { return false; }
  void close() override { setOpen(false); }
  QSqlResult* createResult() const override { return new one_answer{this, answer_}; }  // Qt deletes it
  bool open(QString const& /*db*/, QString const& /*user*/, QString const& /*password*/, QString const& /*host*/,
            int /*port*/, QString const& /*options*/) override {
    return true;
  }
  QVariant handle() const override { return handle_; }

 private:
  QVariant handle_;
  QString answer_;
};

/// A database on that driver, until it is destroyed.
class foreign_database {
 public:
  explicit foreign_database(QVariant handle, QString answer = {}) {
    QSqlDatabase::addDatabase(new foreign_driver{std::move(handle), std::move(answer)}, "foreign");  // Qt deletes it
  }
  foreign_database(foreign_database const&) = delete;
  foreign_database& operator=(foreign_database const&) = delete;
  ~foreign_database() { QSqlDatabase::removeDatabase("foreign"); }

  [[nodiscard]] static QSqlDatabase get() { return QSqlDatabase::database("foreign", false); }
};

}  // namespace outbox
