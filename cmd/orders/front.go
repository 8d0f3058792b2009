package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"text/tabwriter"
)

const (
	// bodyMax is far above any order.
	bodyMax = 64 << 10
	// idMax is the limit of a task ID.
	idMax = 255
	// tableRows are as many orders as a person reads.
	tableRows = 50
)

// front is the shop's HTTP side.
type front struct {
	store *store
	tasks tasks
	log   *slog.Logger
}

func (f *front) routes() http.Handler {
	m := http.NewServeMux()
	m.HandleFunc("PUT /orders/{id}", f.place)
	m.HandleFunc("GET /orders/{id}", f.show)
	m.HandleFunc("GET /orders", f.table)
	return m
}

// place answers 201 for a new order, 200 for a repeat, and 409 if the ID belongs to another order. So a customer who got no answer
// asks again, with the same ID.
func (f *front) place(w http.ResponseWriter, r *http.Request) {
	o := order{ID: r.PathValue("id")}
	var in struct {
		Customer string `json:"customer"`
		Cents    int64  `json:"cents"`
	}
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, bodyMax))
	d.DisallowUnknownFields()
	if err := d.Decode(&in); err != nil {
		http.Error(w, "the body is not an order such as {\"customer\":\"anna\",\"cents\":1250}: "+err.Error(), http.StatusBadRequest)
		return
	}
	o.Customer, o.Cents = in.Customer, in.Cents
	if o.Customer == "" || o.Cents < 1 || len(o.ID) > idMax {
		http.Error(w, fmt.Sprintf("an order has a customer, at least one cent, and an ID of at most %d bytes", idMax), http.StatusUnprocessableEntity)
		return
	}
	placed, isNew, err := f.store.place(r.Context(), o)
	switch {
	case errors.Is(err, errOther):
		http.Error(w, err.Error(), http.StatusConflict)
	case err != nil:
		f.fail(w, err)
	case isNew:
		write(w, http.StatusCreated, placed)
	default:
		write(w, http.StatusOK, placed)
	}
}

// shown is an order with the record of its task beside it.
type shown struct {
	order
	Task *task `json:"task,omitempty"`
	// Note says why there is no record.
	Note string `json:"note,omitempty"`
}

func (f *front) show(w http.ResponseWriter, r *http.Request) {
	o, err := f.store.order(r.Context(), r.PathValue("id"))
	if errors.Is(err, errNone) {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	if err != nil {
		f.fail(w, err)
		return
	}
	write(w, http.StatusOK, f.beside(r, o))
}

// beside reads the record of an order's task. The database does not hold it, so it is never out of date.
func (f *front) beside(r *http.Request, o order) shown {
	t, err := f.tasks.get(r.Context(), o.ID)
	if err != nil {
		return shown{order: o, Note: err.Error()}
	}
	return shown{order: o, Task: &t}
}

// table shows the newest orders, and the record of the task of each, as text.
func (f *front) table(w http.ResponseWriter, r *http.Request) {
	list, err := f.store.newest(r.Context(), tableRows)
	if err != nil {
		f.fail(w, err)
		return
	}
	var b bytes.Buffer
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "ORDER\tCUSTOMER\tCENTS\tSTATE\tPROCESSSTATE\tLOCKEDBY\tCOMPLETEBY\tFAILURECOUNT\tNOTE")
	for _, o := range list {
		s := f.beside(r, o)
		if s.Task == nil {
			fmt.Fprintf(t, "%s\t%s\t%d\t%s\t\t\t\t\t%s\n", cell(o.ID), cell(o.Customer), o.Cents, o.State, cell(s.Note))
			continue
		}
		fmt.Fprintf(t, "%s\t%s\t%d\t%s\t%s\t%s\t%s\t%d\t%s\n", cell(o.ID), cell(o.Customer), o.Cents, o.State,
			s.Task.ProcessState, s.Task.LockedBy, s.Task.CompleteBy, s.Task.FailureCount, cell(s.Task.Reason))
	}
	if err := t.Flush(); err != nil {
		f.fail(w, err)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write(b.Bytes())
}

// cell keeps what a customer wrote inside its cell of the table.
func cell(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, s)
}

func (f *front) fail(w http.ResponseWriter, err error) {
	f.log.Error("a request failed", "error", err)
	http.Error(w, "the database cannot be used", http.StatusInternalServerError)
}

func write(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}
