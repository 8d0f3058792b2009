package apitest

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"testing"

	"github.com/sagalog/sagalog/events"
)

// Keys implements api.Tasks.
func (e *Engine) Keys(_ context.Context, t *events.Task) (events.Keys, error) {
	k := e.Rows[t.ID]
	k.State, k.Ready = t.State, e.Waiting[t.ID]
	return k, nil
}

// Limit implements api.Tasks.
func (e *Engine) Limit(_ context.Context, name string) (*events.Limit, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.Limits[name], nil
}

// EachLimit implements api.Limits.
func (e *Engine) EachLimit(_ context.Context, partitions []int32, use func(*events.Limit)) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(e.Limits)) {
		if slices.Contains(partitions, events.Home(name, Partitions)) {
			use(e.Limits[name])
		}
	}
	return nil
}

// PutLimit makes a limit known, with these links.
func (e *Engine) PutLimit(t testing.TB, name string, size int, links ...events.Permit) {
	t.Helper()
	var rows [][]byte
	for i := range links {
		x := &links[i]
		x.Limit, x.Asked = name, events.Position{Epoch: events.Epoch{N: 1, ID: "a"}, Sequence: uint64(i + 1)}
		b, err := events.Marshal(x)
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, b)
	}
	l, err := events.ReadLimit([]byte(`{"name":`+strconv.Quote(name)+`,"max":`+strconv.Itoa(size)+`,"version":1}`), rows)
	if err != nil {
		t.Fatal(err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.putLimit(l)
}

func (e *Engine) putLimit(l *events.Limit) {
	if e.Limits == nil {
		e.Limits = map[string]*events.Limit{}
	}
	e.Limits[l.Name] = l
}

// pauseLimit judges a request about a limit.
func (e *Engine) pauseLimit(name, kind string) {
	l := events.Limit{Name: name}
	if known := e.Limits[name]; known != nil {
		l = *known
	}
	if l.Paused = nil; kind == events.TypeLimitPause {
		l.Paused = &events.Paused{By: "ada", Since: e.tick(), Reason: "why"}
	}
	e.putLimit(&l)
}

// Offered implements api.Offers.
func (e *Engine) Offered() func(events.Call) bool {
	e.OffersBuilt.Add(1)
	return func(c events.Call) bool {
		return !slices.ContainsFunc(e.Gone, func(m events.Missing) bool { return m.Call() == c && !m.Behind })
	}
}

// Missing implements api.Offers.
func (e *Engine) Missing() []events.Missing { return e.Gone }
