package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"time"

	_ "modernc.org/sqlite" // the driver "sqlite"
)

// schema is all that the shop keeps. The rows of outbox are requests for tasks that the engine may not have yet.
const schema = `
CREATE TABLE IF NOT EXISTS orders (
	id        TEXT PRIMARY KEY,
	customer  TEXT NOT NULL,
	cents     INTEGER NOT NULL,
	state     TEXT NOT NULL,
	reason    TEXT NOT NULL DEFAULT '',
	receipt   TEXT NOT NULL DEFAULT '',
	placed_at TEXT NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS outbox (
	seq      INTEGER PRIMARY KEY AUTOINCREMENT,
	order_id TEXT NOT NULL UNIQUE REFERENCES orders (id)
) STRICT;
CREATE INDEX IF NOT EXISTS orders_open ON orders (state) WHERE state IN ('received', 'paying', 'stuck');
`

// The states of an order.
const (
	stateReceived  = "received"  // it is in the database
	statePaying    = "paying"    // its task is under way
	statePaid      = "paid"      // the payment was taken
	stateCancelled = "cancelled" // the task was undone: nothing was taken, or it was refunded
	stateStuck     = "stuck"     // the task waits for an operator
	stateAbandoned = "abandoned" // an operator ended the task where it stood
	stateRejected  = "rejected"  // the engine refused the task
)

// order is a row of orders.
type order struct {
	ID       string `json:"id"`
	Customer string `json:"customer"`
	Cents    int64  `json:"cents"`
	State    string `json:"state"`
	Reason   string `json:"reason,omitempty"`
	Receipt  string `json:"receipt,omitempty"`
	PlacedAt string `json:"placed_at"`
}

var (
	// errOther is returned when an order with the same ID and other content exists.
	errOther = errors.New("the ID belongs to another order")
	// errNone is returned when there is no order with this ID.
	errNone = errors.New("there is no such order")
)

// store is the database. It may be used by several goroutines, and by several processes.
type store struct {
	db    *sql.DB
	death *death
	// placed has an element while the relay may find something new in the outbox.
	placed chan struct{}
}

func openStore(ctx context.Context, path string, d *death) (*store, error) {
	// A commit is on the disk before it returns. A transaction takes the lock for writing when it begins, so that two of them
	// wait for each other instead of failing.
	dsn := "file:" + (&url.URL{Path: path}).EscapedPath() +
		"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=foreign_keys(1)&_pragma=busy_timeout(10000)&_txlock=immediate"
	db, err := sql.Open("sqlite", dsn)
	if err == nil {
		_, err = db.ExecContext(ctx, schema)
	}
	if err != nil {
		return nil, fmt.Errorf("open the database %s: %w", path, err)
	}
	return &store{db: db, death: d, placed: make(chan struct{}, 1)}, nil
}

// place writes an order and the request for its task, in one transaction. It says whether the order is new. An order that exists
// with the same content is returned as it is; with other content the error is errOther.
func (s *store) place(ctx context.Context, o order) (placed order, isNew bool, err error) {
	err = s.transact(ctx, func(tx *sql.Tx) error {
		o.State, o.PlacedAt = stateReceived, time.Now().UTC().Format(time.RFC3339Nano)
		placed, err = read(tx.QueryRowContext(ctx, selectOrder+` WHERE id = ?`, o.ID))
		if err == nil && (placed.Customer != o.Customer || placed.Cents != o.Cents) {
			return errOther
		}
		if !errors.Is(err, errNone) {
			return err
		}
		if _, err := tx.ExecContext(ctx, `INSERT INTO orders (id, customer, cents, state, placed_at) VALUES (?, ?, ?, ?, ?)`,
			o.ID, o.Customer, o.Cents, o.State, o.PlacedAt); err != nil {
			return err
		}
		s.death.at(stepOrderWritten)
		if _, err := tx.ExecContext(ctx, `INSERT INTO outbox (order_id) VALUES (?)`, o.ID); err != nil {
			return err
		}
		s.death.at(stepTaskWritten)
		placed, isNew = o, true
		return nil
	})
	if err != nil {
		return order{}, false, err
	}
	s.death.at(stepCommitted)
	select {
	case s.placed <- struct{}{}:
	default: // the relay has not looked yet
	}
	return placed, isNew, nil
}

func (s *store) transact(ctx context.Context, do func(*sql.Tx) error) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := do(tx); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

const selectOrder = `SELECT id, customer, cents, state, reason, receipt, placed_at FROM orders`

func read(row interface{ Scan(...any) error }) (o order, err error) {
	err = row.Scan(&o.ID, &o.Customer, &o.Cents, &o.State, &o.Reason, &o.Receipt, &o.PlacedAt)
	if errors.Is(err, sql.ErrNoRows) {
		err = errNone
	}
	return o, err
}

func (s *store) order(ctx context.Context, id string) (order, error) {
	return read(s.db.QueryRowContext(ctx, selectOrder+` WHERE id = ?`, id))
}

func (s *store) newest(ctx context.Context, limit int) ([]order, error) {
	return s.list(ctx, selectOrder+` ORDER BY placed_at DESC, id LIMIT ?`, limit)
}

// unsent returns the orders of the outbox, the oldest first.
func (s *store) unsent(ctx context.Context, limit int) ([]order, error) {
	return s.list(ctx, selectOrder+` JOIN outbox ON order_id = id ORDER BY seq LIMIT ?`, limit)
}

func (s *store) list(ctx context.Context, query string, args ...any) (list []order, err error) {
	rows, err := s.db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		o, err := read(rows)
		if err != nil {
			return nil, err
		}
		list = append(list, o)
	}
	return list, rows.Err()
}

// sent takes an order out of the outbox: the engine has its task.
func (s *store) sent(ctx context.Context, id string) error {
	_, err := s.db.ExecContext(ctx, `DELETE FROM outbox WHERE order_id = ?`, id)
	return err
}

// reject takes an order out of the outbox whose task the engine refused.
func (s *store) reject(ctx context.Context, id, reason string) error {
	return s.transact(ctx, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, `UPDATE orders SET state = ?, reason = ? WHERE id = ?`, stateRejected, reason, id); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, `DELETE FROM outbox WHERE order_id = ?`, id)
		return err
	})
}
