// tpcc_load.cpp - TPC-C's initial population, in transactions of some rows each.
#include <algorithm>
#include <numeric>

#include "tpcc_random.hpp"
#include "workload.hpp"

namespace ls::bench {

namespace tpcc {

namespace {

constexpr u32 kRowsOfTransaction = 500;
constexpr Money kFirstPayment = 10'00;

class Loader {
 public:
  Loader(Store &store, u32 thread) : tables_(store, thread), chance_(1000 + thread) {}

  void start() { tables_.begin(true); }
  void finish() { tables_.commit(); }
  void items() {
    for (u32 item = 1; item <= kItems; item++) {
      ItemRow row{.image = chance_.between(1, 10'000), .price = chance_.between(1'00, 100'00)};
      chance_.text(row.name, 14);
      chance_.data(row.data);
      put(item_key(item), row);
    }
  }
  void warehouse(Warehouse w) {
    WarehouseRow row{.ytd = kDistricts * kCustomers * kFirstPayment,
                     .tax = chance_.between(0, 2000),
                     .address = chance_.address()};
    chance_.text(row.name, 6);
    put(warehouse_key(w), row);
    stock(w);
    for (District d = 1; d <= kDistricts; d++) {
      district(w, d);
      customers(w, d);
      orders(w, d);
    }
  }

 private:
  void stock(Warehouse w) {
    for (u32 item = 1; item <= kItems; item++) {
      StockRow row{.quantity = static_cast<i32>(chance_.between(10, 100))};
      for (auto &info : row.district_info) chance_.text(info, sizeof info);
      chance_.data(row.data);
      put(stock_key(w, item), row);
    }
  }
  void district(Warehouse w, District d) {
    DistrictRow row{.ytd = kCustomers * kFirstPayment,
                    .tax = chance_.between(0, 2000),
                    .next_order = kLoadedOrders + 1,
                    .address = chance_.address()};
    chance_.text(row.name, 6);
    put(district_key(w, d), row);
  }
  void customers(Warehouse w, District d) {
    for (u32 customer = 1; customer <= kCustomers; customer++) {
      CustomerRow row{.balance = -kFirstPayment,
                      .ytd_payment = kFirstPayment,
                      .credit_limit = 50'000'00,
                      .discount = chance_.between(0, 5000),
                      .payments = 1,
                      .since = now(),
                      .middle = {'O', 'E'},
                      .address = chance_.address()};
      char first[16], last[16];
      chance_.text(first, 8);
      last_name(customer <= 1000 ? customer - 1 : chance_.name_loaded(), last);
      std::memcpy(row.first, first, sizeof first);
      std::memcpy(row.last, last, sizeof last);
      chance_.digits(row.phone);
      std::memcpy(row.credit, chance_.percent(10) ? "BC" : "GC", 2);
      chance_.text(row.data, 300);
      put(customer_key(w, d, customer), row);
      put(customer_by_name_key(w, d, last, first, customer));
      HistoryRow history{w, d, customer, w, d, now(), kFirstPayment, {}};
      chance_.text(history.data, 12);
      put(history_key(w, 0, (d - 1) * kCustomers + customer), history);
    }
  }
  void orders(Warehouse w, District d) {
    std::vector<u32> customers(kLoadedOrders);
    std::iota(customers.begin(), customers.end(), 1u);
    for (u32 i = kLoadedOrders - 1; i > 0; i--)
      std::swap(customers[i], customers[chance_.between(0, i)]);
    for (u32 order = 1; order <= kLoadedOrders; order++) {
      const bool delivered = order <= kLoadedOrders - kLoadedNewOrders;
      const OrderRow row{customers[order - 1], now(),
                         static_cast<u8>(delivered ? chance_.between(1, 10) : 0),
                         static_cast<u8>(chance_.between(5, kMaxLines)), true};
      put(order_key(w, d, order), row);
      put(order_by_customer_key(w, d, row.customer, order));
      if (!delivered) put(new_order_key(w, d, order));
      for (u8 line = 1; line <= row.lines; line++) {
        OrderLineRow line_row{chance_.between(1, kItems), w, delivered ? row.entry : 0, 5,
                              delivered ? 0 : Money{chance_.between(1, 9999'99)}, {}};
        chance_.text(line_row.district_info, sizeof line_row.district_info);
        put(order_line_key(w, d, order, line), line_row);
      }
    }
  }

  template <typename... Row>
  void put(const RowKey &key, const Row &...row) {
    if (rows_++ % kRowsOfTransaction == kRowsOfTransaction - 1) {
      tables_.commit();
      tables_.begin(true);
    }
    tables_.insert(key, row...);
  }

  Tables tables_;
  Chance chance_;
  u64 rows_ = 0;
};

}  // namespace
}  // namespace tpcc

void load_tpcc(Store &store, const Tpcc &tpcc, u32 threads) {
  run_crew(threads, 0, [&](u32 thread, const std::atomic<bool> &, const auto &begin) {
    tpcc::Loader loader(store, thread);
    begin();
    loader.start();   // not before: the first thread's may keep out the others
    if (thread == 0) loader.items();
    for (u32 w = 1 + thread; w <= tpcc.warehouses; w += threads)
      loader.warehouse(static_cast<tpcc::Warehouse>(w));
    loader.finish();
  });
}

void warm_tpcc(Store &store) {
  tpcc::Tables tables(store, 0);
  tables.begin(false);
  tables.scan_keys(tpcc::RowKey(tpcc::Table::kWarehouse), tpcc::RowKey(tpcc::Table::kEnd),
                   [](Key) { return true; });
  tables.commit();
}

}  // namespace ls::bench
