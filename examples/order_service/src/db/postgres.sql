SELECT pg_advisory_xact_lock(20261124);   -- processes that start at once make the tables in turn

CREATE TABLE IF NOT EXISTS items (
    sku   text PRIMARY KEY,
    stock bigint NOT NULL,                -- needs no fence: each sale verifies its lock
    place bigint GENERATED ALWAYS AS IDENTITY
);

CREATE TABLE IF NOT EXISTS orders (
    id    text PRIMARY KEY,               -- the idempotency key: chosen by the client, unique
    sku   text NOT NULL REFERENCES items,
    fence bigint NOT NULL,
    place bigint GENERATED ALWAYS AS IDENTITY
);

CREATE TABLE IF NOT EXISTS payments (     -- one row for each call of the provider
    order_id text NOT NULL
);
