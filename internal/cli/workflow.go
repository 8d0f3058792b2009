package cli

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"

	"github.com/sagalog/sagalog/internal/api"
	"github.com/sagalog/sagalog/scheduler"
	"github.com/spf13/cobra"
)

func workflowCommand(d Deps) *cobra.Command {
	g := group("workflow", "Validate, test, compare, draw, preview, apply, read and delete workflows", applyCommand(d), workflowValidateCommand(d), testCommand(d), diffCommand(d), graphCommand(d), previewCommand(), workflowListCommand(), showCommand(), deleteWorkflowCommand())
	g.Aliases = []string{"workflows"}
	return g
}

// load reads and validates a definition. The definition is nil if a fault is more than a warning.
func load(cmd *cobra.Command, d Deps, file string) (*scheduler.Source, []scheduler.Fault, error) {
	def, err := loadWhole(cmd, d, file)
	return def.Source, def.faults, err
}

// loaded is a definition with the file that it was read from. Source is nil if a fault is an error.
type loaded struct {
	*scheduler.Source
	file   string
	data   []byte
	faults []scheduler.Fault
}

func loadWhole(cmd *cobra.Command, d Deps, file string) (l loaded, err error) {
	l.file = file
	if l.data, err = readFile(cmd, file, "definition"); err == nil {
		l.Source, l.faults = d.Load(file, l.data)
	}
	return l, err
}

// inFile returns the error of an engine that refused the definition, and notes each fault by its place in the file: the engine was sent
// another form of it.
func (s *session) inFile(l *loaded, err error) error {
	p, ok := errors.AsType[*Problem](err)
	if !ok {
		return ofData(err)
	}
	var rest []api.ProblemPlace
	placeOf := scheduler.Places(l.data)
	for _, e := range p.Errors {
		line, column, found := placeOf(e.Pointer)
		if e.Pointer == "" || !found {
			rest = append(rest, e)
			continue
		}
		s.note("%s", Printable(fmt.Sprintf("%s:%d:%d: %s: %s", l.file, line, column, e.Pointer, e.Message)))
	}
	p.Errors = rest
	return ofData(err)
}

// readFile reads an object of that kind from a file; - is stdin.
func readFile(cmd *cobra.Command, file, kind string) (data []byte, err error) {
	if file == "-" {
		data, err = io.ReadAll(cmd.InOrStdin())
	} else {
		data, err = os.ReadFile(file)
	}
	if err != nil {
		return nil, fmt.Errorf("read the %s: %w", kind, err)
	}
	return data, nil
}

func applyCommand(d Deps) *cobra.Command {
	c := output(&cobra.Command{
		Use: "apply FILE...", Short: "Apply definitions: each becomes the current version of its workflow", Args: cobra.MinimumNArgs(1),
		Long: "Apply definitions in YAML or JSON; - is stdin. All are validated first, and none is applied if one has a fault.\n" +
			"Content that was applied earlier becomes current again under its old version.",
		Example: "  sagalog workflow apply workflow.yaml\n  sagalog workflow apply --dry-run workflows/*.yaml",
		RunE:    client(func(s *session, args []string) error { return s.apply(d, args) }),
	})
	c.Flags().Bool("dry-run", false, "only validate, here and in the engine")
	c.Flags().String("by", "", "who applies it, for the record")
	return c
}

func (s *session) apply(d Deps, files []string) error {
	var defs []loaded
	bad := 0
	said := map[string]bool{} // the engine repeats these findings in its warnings
	for _, file := range files {
		def, err := loadWhole(s.cmd, d, file)
		if err != nil {
			return err
		}
		for _, f := range def.faults {
			s.note("%s", Printable(f.String()))
			said[f.Message] = true
			if !f.Warning {
				bad++
			}
		}
		defs = append(defs, def)
	}
	if bad > 0 {
		return exit(ExitError, "nothing is applied: %s", Counted(bad, "fault"))
	}
	q := url.Values{}
	if s.isSet("dry-run") {
		q.Set("dry_run", "true")
	}
	if by := s.flag("by"); by != "" {
		q.Set("by", by)
	}
	var docs []json.RawMessage
	for _, def := range defs {
		_, doc, err := s.do(s.cmd.Context(), request{
			method: http.MethodPut, path: "/v1/workflows/" + url.PathEscape(def.Workflow), query: q, body: def.Body, content: "application/yaml",
		})
		if err != nil {
			// The definitions applied before this one stay applied, so list them.
			return notAllApplied(docs, func() error { return s.listApplied(docs) }, fmt.Errorf("apply %s: %w", def.Workflow, s.inFile(&def, err)))
		}
		if err := s.noteWarnings(doc, said); err != nil {
			return err
		}
		docs = append(docs, doc)
	}
	return s.listApplied(docs)
}

// noteWarnings prints the engine's warnings, except those that were printed before.
func (s *session) noteWarnings(doc json.RawMessage, said map[string]bool) error {
	var a api.AppliedDocument
	if err := decode(doc, &a); err != nil {
		return err
	}
	for _, w := range a.Warnings {
		if !said[w.Message] {
			s.note("warning: workflow %s: %s", Printable(a.Name), Printable(w.Message))
		}
	}
	return nil
}

func (s *session) listApplied(docs []json.RawMessage) error {
	return s.list(docs, listing{head: row{"WORKFLOW", "VERSION", "CHANGED"}, cells: rowOf(func(a api.AppliedDocument) row {
		return row{a.Name, strconv.Itoa(a.Version), yesNo(a.Changed)}
	})})
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

func workflowListCommand() *cobra.Command {
	return output(&cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List workflows", Args: cobra.NoArgs,
		RunE: client(func(s *session, _ []string) error {
			return s.whole("/v1/workflows", "workflows", listing{none: "there are no workflows: apply one with `sagalog workflow apply FILE`", head: row{"WORKFLOW", "VERSION", "VERSIONS", "APPLIED", "ABOUT"}, cells: rowOf(func(w api.WorkflowDocument) row {
				return row{w.Name, strconv.Itoa(w.Version), strconv.Itoa(len(w.Versions)), instant(w.AppliedAt), cmp.Or(w.Title, w.Description)}
			})})
		}),
	})
}

// whole prints a list that the API returns in one answer.
func (s *session) whole(path, member string, of listing) error {
	doc, err := s.get(s.cmd.Context(), path, nil)
	if err != nil {
		return err
	}
	return listIn(s, doc, member, of)
}

// listIn prints the list in a member of an answer, or the answer itself if member is empty.
func listIn(s *session, doc json.RawMessage, member string, of listing) error {
	if member != "" {
		var members map[string]json.RawMessage
		if err := decode(doc, &members); err != nil {
			return err
		}
		doc = members[member]
	}
	var items []json.RawMessage
	if err := decode(doc, &items); err != nil {
		return err
	}
	return s.list(items, of)
}

func showCommand() *cobra.Command {
	c := outputAlso(&cobra.Command{
		Use: "show NAME", Short: "Read a version of a workflow", Args: cobra.ExactArgs(1),
		Long: "Read a version of a workflow. With -o yaml the command prints the definition as a file that `sagalog workflow apply` takes: the same content, but\n" +
			"without the comments, and with the files that a $ref named included.",
		Example: "  sagalog workflow show drone-delivery\n  sagalog workflow show drone-delivery --version 2 -o json\n  sagalog workflow show drone-delivery -o yaml > drone-delivery.yaml",
		RunE: client(func(s *session, args []string) error {
			if err := onlyName(args[0]); err != nil {
				return err
			}
			q := url.Values{}
			if v := s.flag("version"); v != "0" {
				q.Set("version", v)
			}
			doc, err := s.get(s.cmd.Context(), "/v1/workflows/"+url.PathEscape(args[0]), q)
			if err != nil {
				return err
			}
			if s.format == formatYAML {
				return writeDefinition(s.out, doc)
			}
			return s.one(doc, func(w io.Writer) error { return showWorkflow(w, doc) })
		}),
	}, formatYAML)
	c.Flags().Int("version", 0, "the version (default: the current one)")
	return c
}

// onlyName refuses NAME@VERSION where the version has a flag, or does not count.
func onlyName(workflow string) error {
	name, version, versioned := strings.Cut(workflow, "@")
	if !versioned {
		return nil
	}
	return Usage("%q is not the name of a workflow: the name is %s; where a version counts, give --version %s", workflow, name, version)
}

// aboutStep returns the title of a step and the description behind it.
func aboutStep(st *api.StepSummary) string {
	switch {
	case st.Title == "":
		return st.Description
	case st.Description == "":
		return st.Title
	}
	return st.Title + ": " + st.Description
}

// workOf says what does a step, and for which items.
func workOf(st *api.StepSummary) string {
	by := agentOf(st.Agent+childOf(st.Workflow), st.Operation)
	if st.For != "" {
		by += ", " + st.For
	}
	return by
}

func showWorkflow(out io.Writer, doc json.RawMessage) error {
	var w api.WorkflowDocument
	if err := decode(doc, &w); err != nil {
		return err
	}
	versions, applied := strings.Trim(fmt.Sprint(w.Versions), "[]"), instant(w.AppliedAt)
	if w.AppliedBy != "" {
		applied += " by " + w.AppliedBy
	}
	err := table(out, nil, []row{{"WORKFLOW", w.Name}, {"VERSION", strconv.Itoa(w.Version)}, {"VERSIONS", versions},
		{"APPLIED", applied}, {"HASH", w.Hash}, {"TITLE", w.Title}, {"DESCRIPTION", w.Description}})
	if err != nil {
		return err
	}
	fmt.Fprintln(out)
	var rows []row
	about := false
	for _, st := range w.Steps {
		about = about || st.Title != "" || st.Description != ""
		rows = append(rows, row{st.ID, workOf(&st), strings.Join(st.Needs, ","), yesNo(st.Undo), yesNo(st.Pivot), aboutStep(&st)})
	}
	heads := row{"STEP", "AGENT", "NEEDS", "UNDO", "PIVOT", "ABOUT"}
	if !about {
		heads = heads[:5]
		for i := range rows {
			rows[i] = rows[i][:5]
		}
	}
	return table(out, heads, rows)
}
