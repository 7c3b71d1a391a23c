CREATE TABLE IF NOT EXISTS items (
    sku   TEXT PRIMARY KEY,
    stock INTEGER NOT NULL,
    fence INTEGER NOT NULL DEFAULT 0      -- of the last lock under which this row was read
) STRICT;

CREATE TABLE IF NOT EXISTS orders (
    id    TEXT PRIMARY KEY,               -- the idempotency key: chosen by the client, unique
    sku   TEXT NOT NULL REFERENCES items,
    fence INTEGER NOT NULL
) STRICT;

CREATE TABLE IF NOT EXISTS payments (     -- one row for each call of the provider
    order_id TEXT NOT NULL
) STRICT;

CREATE TABLE IF NOT EXISTS demo_orders (  -- no unique key on purpose: only the lock keeps an order single
    id      TEXT NOT NULL,
    service TEXT NOT NULL,
    fence   INTEGER                       -- none where the order was made without the lock
) STRICT;
