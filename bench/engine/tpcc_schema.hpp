// tpcc_schema.hpp - TPC-C's tables in one ordered map: a key is the table's number and the columns
// of its primary key, big endian.
//
// Rows are of one length for each table.  Secondary indexes are tables, too: their keys say it all,
// and their rows are empty.
#pragma once
#include <concepts>

#include "store.hpp"

namespace ls::bench::tpcc {

inline constexpr u32 kDistricts = 10;              // of a warehouse
inline constexpr u32 kCustomers = 3000;            // of a district
inline constexpr u32 kItems = 100'000;
inline constexpr u32 kLoadedOrders = 3000;         // of a district
inline constexpr u32 kLoadedNewOrders = 900;       // the last of them
inline constexpr u32 kMaxLines = 15;               // of an order

using Warehouse = u16;
using District = u8;
using Money = i64;   // cents
using Time = u64;    // 0: never

enum class Table : u8 {
  kWarehouse = 1,
  kDistrict,
  kCustomer,
  kCustomerByName,
  kHistory,
  kOrder,
  kOrderByCustomer,
  kNewOrder,
  kOrderLine,
  kItem,
  kStock,
  kEnd
};

struct [[gnu::packed]] Address {
  char street_1[20], street_2[20], city[20], state[2], zip[9];
};
struct [[gnu::packed]] WarehouseRow {
  Money ytd;
  u32 tax;   // in a ten thousandth, as are discounts
  char name[10];
  Address address;
};
struct [[gnu::packed]] DistrictRow {
  Money ytd;
  u32 tax, next_order;
  char name[10];
  Address address;
};
struct [[gnu::packed]] CustomerRow {
  Money balance, ytd_payment, credit_limit;
  u32 discount, payments, deliveries;
  Time since;
  char first[16], middle[2], last[16], phone[16], credit[2];
  Address address;
  char data[500];
};
struct [[gnu::packed]] HistoryRow {
  Warehouse customer_warehouse;
  District customer_district;
  u32 customer;
  Warehouse warehouse;
  District district;
  Time date;
  Money amount;
  char data[24];
};
struct [[gnu::packed]] OrderRow {
  u32 customer;
  Time entry;
  u8 carrier;   // 0: not delivered
  u8 lines;
  bool all_local;
};
struct [[gnu::packed]] OrderLineRow {
  u32 item;
  Warehouse supplier;
  Time delivery;
  u8 quantity;
  Money amount;
  char district_info[24];
};
struct [[gnu::packed]] ItemRow {
  u32 image, price;
  char name[24], data[50];
};
struct [[gnu::packed]] StockRow {
  i32 quantity;
  u32 ytd, orders, remote_orders;
  char district_info[kDistricts][24];
  char data[50];
};

class RowKey {
 public:
  template <typename... Columns>
  explicit RowKey(Table table, const Columns &...columns) {
    add(static_cast<u8>(table));
    (add(columns), ...);
  }
  operator Key() const { return {bytes_, bytes_count_}; }
  // Behind every key that begins with this one.
  RowKey end() const {
    RowKey next = *this;
    for (u32 at = bytes_count_; at > 0 && ++next.bytes_[at - 1] == 0;) at--;
    return next;
  }

 private:
  template <std::unsigned_integral Column>
  void add(Column column) {
    for (u32 shift = 8 * sizeof column; shift != 0; shift -= 8)
      bytes_[bytes_count_++] = static_cast<u8>(column >> (shift - 8));
  }
  template <size_t kLength>
  void add(const char (&text)[kLength]) {
    __builtin_memcpy(bytes_ + bytes_count_, text, kLength);
    bytes_count_ += kLength;
  }

  u8 bytes_[48];
  u32 bytes_count_ = 0;
};

inline RowKey warehouse_key(Warehouse w) { return RowKey(Table::kWarehouse, w); }
inline RowKey district_key(Warehouse w, District d) { return RowKey(Table::kDistrict, w, d); }
inline RowKey customer_key(Warehouse w, District d, u32 customer) {
  return RowKey(Table::kCustomer, w, d, customer);
}
inline RowKey order_key(Warehouse w, District d, u32 order) {
  return RowKey(Table::kOrder, w, d, order);
}
inline RowKey new_order_key(Warehouse w, District d, u32 order) {
  return RowKey(Table::kNewOrder, w, d, order);
}
inline RowKey order_line_key(Warehouse w, District d, u32 order, u8 line) {
  return RowKey(Table::kOrderLine, w, d, order, line);
}
inline RowKey item_key(u32 item) { return RowKey(Table::kItem, item); }
inline RowKey stock_key(Warehouse w, u32 item) { return RowKey(Table::kStock, w, item); }
// History has no primary key: each writer numbers the rows that it writes.
inline RowKey history_key(Warehouse w, u32 writer, u32 number) {
  return RowKey(Table::kHistory, w, writer, number);
}
// The last column, which is the one that is looked for.
inline RowKey customer_by_name_key(Warehouse w, District d, const char (&last)[16],
                                   const char (&first)[16], u32 customer) {
  return RowKey(Table::kCustomerByName, w, d, last, first, customer);
}
// A customer's last order stands first.
inline RowKey order_by_customer_key(Warehouse w, District d, u32 customer, u32 order) {
  return RowKey(Table::kOrderByCustomer, w, d, customer, ~order);
}
template <std::unsigned_integral Column>
Column last_column(Key key) {
  Column column = 0;
  for (const u8 byte : key.last(sizeof column)) column = static_cast<Column>(column << 8 | byte);
  return column;
}

// Transactions on rows of these types.
class Tables {
 public:
  Tables(Store &store, u32 thread) : transactions_(store.transactions(thread)) {}

  void begin(bool writes) { transactions_->begin(writes); }
  void commit() { transactions_->commit(); }
  void rollback() { transactions_->rollback(); }

  template <typename T>
  void insert(const RowKey &key, const T &row) {
    transactions_->insert(key, {reinterpret_cast<const u8 *>(&row), sizeof row});
  }
  void insert(const RowKey &key) { transactions_->insert(key, {}); }
  void remove(const RowKey &key) { transactions_->remove(key); }
  template <typename T>
  bool find(const RowKey &key, T *row) {
    return transactions_->lookup(key, bytes_of(*row));
  }
  template <typename T>
  T get(const RowKey &key) {
    T row;
    if (!find(key, &row)) give_up("TPC-C", "a row is missing");
    return row;
  }
  // change(row); the row as changed.
  template <typename T, typename Change>
  T update(const RowKey &key, const Change &change) {
    T row;
    transactions_->update(key, bytes_of(row), [&] { change(row); });
    return row;
  }
  // visit(key, row), false: enough.
  template <typename T, typename Visit>
  void scan(const RowKey &from, const RowKey &to, const Visit &visit) {
    transactions_->scan(from, to, [&](Key key, Row bytes) {
      T row;
      copy_row("TPC-C", bytes.data(), bytes.size(), bytes_of(row));
      return visit(key, row);
    });
  }
  template <typename Visit>
  void scan_keys(const RowKey &from, const RowKey &to, const Visit &visit) {
    transactions_->scan(from, to, [&](Key key, Row) { return visit(key); });
  }

 private:
  template <typename T>
  static std::span<u8> bytes_of(T &row) {
    return {reinterpret_cast<u8 *>(&row), sizeof row};
  }
  std::unique_ptr<Transactions> transactions_;
};

}  // namespace ls::bench::tpcc
