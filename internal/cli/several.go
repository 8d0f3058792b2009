package cli

import (
	"cmp"
	"encoding/json"
	"net/http"
	"time"

	"github.com/sagalog/sagalog/internal/api"
)

// fate is what became of the request to one of several tasks.
type fate struct {
	Task   string `json:"task"`
	Result string `json:"result"`
	State  string `json:"state,omitempty"`
	Reason string `json:"reason,omitempty"`
	// code is the exit code that it deserves.
	code int
}

// several asks several tasks, one after the other, and says what became of each.
type several struct {
	*session
	asking
}

// askEach asks the tasks. The exit code is that of the first that did not grant.
func (s several) askEach(u requestUse, ids []string) (err error) {
	if s.asking, err = s.session.asking(u, ""); err != nil {
		return err
	}
	bar := newCount(s.err, "asking tasks")
	defer bar.abort()
	var fates []fate
	for i, id := range ids {
		f, err := s.fate(id)
		if err != nil {
			return err
		}
		fates = append(fates, f)
		bar.set(i+1, len(ids))
	}
	bar.done()
	return s.printFates(fates)
}

// fate asks one of several tasks. Its error means that the others need not be asked.
func (s several) fate(id string) (fate, error) {
	f := fate{Task: id, Result: "not judged", code: ExitStillRunning}
	_, doc, err := s.asking.send(s.session, id)
	if p, ok := err.(*Problem); ok && p.Status < http.StatusInternalServerError {
		f.Result, f.State, f.Reason, f.code = "refused", p.State, cmp.Or(p.Reason, oneLine(p)), p.exitCode()
		return f, nil
	}
	if err != nil {
		return f, err
	}
	var r api.RequestReceipt
	if err := decode(doc, &r); err != nil {
		return f, err
	}
	if r.Result != "" {
		f.Result = r.Result
	}
	if f.State = r.State; r.Result == "granted" || s.within == 0 {
		f.code = ExitOK
	}
	if !s.isSet("wait") {
		return f, nil
	}
	wait, _ := s.cmd.Flags().GetDuration("timeout")
	return f, s.awaitEnd(&f, r.Token, max(wait, time.Millisecond))
}

// awaitEnd waits until a task has ended or is parked.
func (s several) awaitEnd(f *fate, token string, wait time.Duration) error {
	doc, err := s.readTask(f.Task, token, wait)
	if err != nil {
		return err
	}
	var t api.TaskDocument
	if err := decode(doc, &t); err != nil {
		return err
	}
	f.State, f.Reason, f.code = t.State, t.Reason, Code(ending(&t))
	return nil
}

func (s several) printFates(fates []fate) error {
	docs := make([]json.RawMessage, len(fates))
	code, bad := ExitOK, 0
	for i, f := range fates {
		doc, err := json.Marshal(f)
		if err != nil {
			return err
		}
		docs[i] = doc
		if f.code != ExitOK {
			bad++
			if code == ExitOK {
				code = f.code
			}
		}
	}
	err := s.list(docs, listing{head: row{"TASK", "RESULT", "STATE", "REASON"}, cells: rowOf(func(f fate) row { return row{f.Task, f.Result, f.State, f.Reason} })})
	if err != nil || bad == 0 {
		return err
	}
	return exit(code, "%d of %s did not do what was asked", bad, Counted(len(fates), "task"))
}
