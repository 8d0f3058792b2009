package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/sagalog/sagalog/scheduler"
)

// objects are a kind of object that is applied from files: schedules, or named limits.
type objects struct {
	// kind names one of them.
	kind string
	// parse returns the name of the object in a file, "" if a fault is an error.
	parse func(file string, data []byte) (name string, faults []scheduler.Fault)
	path  func(name string) string
	// show prints those that were applied.
	show func(docs []json.RawMessage) error
}

// applyObjects validates all files, and applies their objects if none has a fault.
func applyObjects(s *session, o objects, files []string) error {
	type draft struct {
		name   string
		source []byte
	}
	var drafts []draft
	bad := 0
	for _, file := range files {
		data, err := readFile(s.cmd, file, o.kind)
		if err != nil {
			return err
		}
		name, faults := o.parse(file, data)
		for _, f := range faults {
			s.note("%s", Printable(f.String()))
		}
		if name == "" {
			bad += len(faults)
			continue
		}
		drafts = append(drafts, draft{name, data})
	}
	if bad > 0 {
		return exit(ExitError, "nothing is applied: %s", Counted(bad, "fault"))
	}
	var docs []json.RawMessage
	for _, d := range drafts {
		_, doc, err := s.do(s.cmd.Context(), request{method: http.MethodPut, path: o.path(d.name), body: d.source, content: "application/yaml"})
		if err != nil {
			return notAllApplied(docs, func() error { return o.show(docs) }, fmt.Errorf("apply %s: %w", d.name, ofData(err)))
		}
		docs = append(docs, doc)
	}
	return o.show(docs)
}

// notAllApplied prints what was applied before an error, if anything was.
func notAllApplied(docs []json.RawMessage, list func() error, err error) error {
	if len(docs) == 0 {
		return err
	}
	return errors.Join(list(), err)
}
