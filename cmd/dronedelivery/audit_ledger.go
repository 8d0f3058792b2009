package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/cli"
	"github.com/sagalog/sagalog/internal/dronedelivery"
)

// entry is one line of a ledger.
type entry struct {
	dronedelivery.Line
	service string
	// number counts the lines of a ledger from 1.
	number int
	// task is Line.Task, decoded.
	task string
}

func (e *entry) operation() events.Operation {
	if e.Method == http.MethodDelete {
		return events.Undo
	}
	return events.Do
}

// ok says whether the call was answered with a success.
func (e *entry) ok() bool { return e.Status >= 200 && e.Status <= 299 }

// undid says whether the call was answered as an undo that has succeeded: there is nothing left to undo.
func (e *entry) undid() bool {
	return e.ok() || e.Method == http.MethodDelete && e.Status == http.StatusNotFound
}

// readLedgers reads the lines of all services whose task has the prefix, in the order of each ledger.
func readLedgers(ctx context.Context, f auditFlags) ([]*entry, error) {
	var all []*entry
	urls, err := serviceURLs(f.services)
	if err != nil {
		return nil, err
	}
	for _, service := range dronedelivery.Services() {
		number := 0
		take := func(l dronedelivery.Line, _ int) error {
			number++
			e := &entry{Line: l, service: service, number: number, task: l.Task}
			if task, err := url.PathUnescape(l.Task); err == nil {
				e.task = task
			}
			if strings.HasPrefix(e.task, f.prefix) {
				all = append(all, e)
			}
			return nil
		}
		if f.ledgers != "" {
			err = readLedgerFile(filepath.Join(f.ledgers, service+".ndjson"), take)
		} else if urls[service] == "" {
			err = cli.Usage("audit: --services has no %s", service)
		} else {
			err = dronedelivery.ReadLedger(ctx, urls[service], func(l dronedelivery.Line) error { return take(l, 0) })
		}
		if err != nil {
			return nil, fmt.Errorf("read the ledger of %s: %w", service, err)
		}
	}
	return all, nil
}

// serviceURLs reads {"services":{"package":"http://..."}}, or the inner object alone, from a file or from the text.
func serviceURLs(text string) (map[string]string, error) {
	if text == "" {
		return nil, nil
	}
	b := []byte(text)
	if !strings.HasPrefix(strings.TrimSpace(text), "{") {
		var err error
		if b, err = os.ReadFile(text); err != nil {
			return nil, fmt.Errorf("read the services' addresses: %w", err)
		}
	}
	var outer struct {
		Services map[string]string `json:"services"`
	}
	if err := json.Unmarshal(b, &outer); err == nil && len(outer.Services) > 0 {
		return outer.Services, nil
	}
	var inner map[string]string
	if err := json.Unmarshal(b, &inner); err != nil {
		return nil, cli.Usage("audit: --services is neither a file nor JSON such as {\"package\":\"http://...\"}: %w", err)
	}
	return inner, nil
}

// readLedgerFile leaves out a torn last line: that call was never answered.
func readLedgerFile(path string, take func(l dronedelivery.Line, size int) error) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = dronedelivery.ReadLines(f, take)
	return err
}

// thing is a resource of a service, rebuilt from its ledger.
type thing struct {
	// keys are the identifiers of the PUTs that took effect.
	keys map[string]bool
	// by is the identifier in force, or "".
	by string
	// undone holds the identifiers of the dos that an undo named or reversed.
	undone map[string]bool
}

// world replays a ledger by the rules of package dronedelivery, to check that its lines are consistent.
type world map[string]*thing

func (w world) of(e *entry) *thing {
	at := e.service + " " + e.Path
	t := w[at]
	if t == nil {
		t = &thing{keys: map[string]bool{}, undone: map[string]bool{}}
		w[at] = t
	}
	return t
}

// fold returns what is wrong with the line, or "" if it fits those before it.
func (w world) fold(e *entry) string {
	t := w.of(e)
	hung := e.Status == 0 && e.Fault != ""
	if !fits(e.Fault, e.Status) {
		return fmt.Sprintf("was answered with %d, which contradicts its fault %q", e.Status, e.Fault)
	}
	if e.Applied && !e.ok() && !hung && e.Fault != dronedelivery.Failed {
		return fmt.Sprintf("took effect, but was answered with %d", e.Status)
	}
	switch undo := e.Method == http.MethodDelete; {
	case e.Unkind && undo:
		return t.undoUnkindly(e)
	case e.Unkind:
		return t.doUnkindly(e)
	case undo:
		return t.undo(e, hung)
	default:
		return t.do(e, hung)
	}
}

// fits says whether a call with this fault is answered in this way.
func fits(f dronedelivery.Mode, status int) bool {
	switch f {
	case dronedelivery.Hang, dronedelivery.Reset:
		return status == 0
	case dronedelivery.Late:
		return status == 0 || status == http.StatusGatewayTimeout
	case dronedelivery.Fail, dronedelivery.Failed:
		return status >= 400
	case dronedelivery.Cut:
		return status >= 200 && status <= 299
	}
	return status < 500
}

// doUnkindly takes a do at a service that may forget keys when they are undone.
func (t *thing) doUnkindly(e *entry) string {
	there, known := t.by == e.IdempotencyKey, t.keys[e.IdempotencyKey]
	if e.Applied {
		t.keys[e.IdempotencyKey], t.by = true, e.IdempotencyKey
	}
	switch {
	case e.Applied && there:
		return "took effect twice"
	case !e.Applied && e.ok() && !known:
		return "was answered as a repeat, but nothing came before it"
	case !e.Applied && e.Status == http.StatusCreated:
		return "was answered with 201 but made nothing"
	case e.Status == http.StatusConflict && !known:
		return "was answered with 409, but nothing came before it"
	}
	return ""
}

// undoUnkindly takes an undo at a service without tombstones.
func (t *thing) undoUnkindly(e *entry) string {
	there := t.by != "" && (e.Undoes == "" || e.Undoes == t.by)
	if e.Applied {
		t.by = ""
	}
	switch {
	case e.Applied != there && (e.Applied || e.ok() || e.Status == http.StatusNotFound):
		return "is an undo that found something where nothing was, or nothing where something was"
	case e.ok() && !e.Applied:
		return "is an undo that was answered as done, but nothing was there"
	}
	return ""
}

func (t *thing) do(e *entry, hung bool) string {
	absent, known, undone := t.by == "", t.keys[e.IdempotencyKey], t.undone[e.IdempotencyKey]
	if e.Applied {
		t.keys[e.IdempotencyKey], t.by = true, e.IdempotencyKey
	}
	switch {
	case e.Applied && known:
		return "took effect twice"
	case e.Applied && undone:
		return "took effect after its undo"
	case e.Applied && !hung && (e.Status == http.StatusCreated) != absent:
		return fmt.Sprintf("was answered with %d, which contradicts whether the resource existed", e.Status)
	case !e.Applied && e.ok() && (!known || undone):
		return "was answered as a repeat, but nothing came before it"
	case !e.Applied && e.Status == http.StatusCreated:
		return "was answered with 201 but made nothing"
	case e.Status == http.StatusConflict && !undone:
		return "was answered with 409, but no undo came before it"
	}
	return ""
}

func (t *thing) undo(e *entry, hung bool) string {
	there := t.by != "" && (e.Undoes == "" || e.Undoes == t.by)
	if e.Tombstone && e.Undoes != "" {
		t.undone[e.Undoes] = true
	}
	if e.Applied {
		t.undone[t.by] = true
		t.by = ""
	}
	switch {
	case e.Tombstone != e.ok() && !hung: // a hung call may have been a refused one
		return fmt.Sprintf("is an undo answered with %d, which contradicts its tombstone", e.Status)
	case e.Tombstone && e.Applied != there:
		return "is an undo that found something where nothing was, or nothing where something was"
	}
	return ""
}
