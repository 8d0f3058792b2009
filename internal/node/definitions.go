package node

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/scheduler"
)

// definitions knows the workflows and applies new versions.
type definitions struct {
	// keys open sealed inputs; nil if this node has none.
	keys     scheduler.Keys
	ns       *namespace
	producer *kafka.Producer

	// applying is full while a definition is applied, so that the answer names the version that it got.
	applying chan struct{}

	programs programs
	limits   definitionLimits
	// levels are the levels that the keys of definitions need.
	levels scheduler.Levels
}

// Refresh implements api.Workflows.
func (d *definitions) Refresh(ctx context.Context) error {
	return noAnswer(d.ns.catalog.upToNow(ctx))
}

// Workflows implements api.Workflows.
func (d *definitions) Workflows(context.Context) ([]*api.Workflow, error) {
	var list []*api.Workflow
	for _, v := range d.ns.catalog.List() {
		list = append(list, d.workflow(v))
	}
	return list, nil
}

// Workflow implements api.Workflows.
func (d *definitions) Workflow(ctx context.Context, name string, version int) (*api.Workflow, error) {
	v, ok, err := d.findNow(ctx, name, version)
	if !ok || err != nil {
		return nil, err
	}
	w := d.workflow(v)
	w.Body, err = d.ns.catalog.Read(v)
	return w, err
}

// Definition implements api.Definitions.
func (d *definitions) Definition(ctx context.Context, name string, version int) (api.Definition, bool, error) {
	v, ok, err := d.findNow(ctx, name, version)
	return api.Definition{Name: v.Workflow, Version: v.Version, Hash: v.Hash}, ok, err
}

// findNow finds a version in memory, or else among those that other nodes have applied until now.
func (d *definitions) findNow(ctx context.Context, name string, version int) (scheduler.Version, bool, error) {
	if v, ok := d.find(name, version); ok {
		return v, true, nil
	}
	if err := d.ns.catalog.upToNow(ctx); err != nil {
		return scheduler.Version{}, false, noAnswer(err)
	}
	v, ok := d.find(name, version)
	return v, ok, nil
}

func (d *definitions) find(name string, version int) (scheduler.Version, bool) {
	if version == 0 {
		return d.ns.catalog.Catalog.Current(name)
	}
	return d.ns.catalog.Catalog.Version(name, version)
}

func (d *definitions) workflow(v scheduler.Version) *api.Workflow {
	w := &api.Workflow{Name: v.Workflow, Version: v.Version, Hash: v.Hash, AppliedAt: v.AppliedAt, AppliedBy: v.AppliedBy}
	if p, err := d.program(v); err == nil {
		w.Title, w.Description = p.Definition().Title, p.Definition().Description
	}
	if c, ok := d.ns.catalog.Catalog.Current(v.Workflow); ok {
		w.Current = c.Hash == v.Hash
	}
	for _, o := range d.ns.catalog.Versions(v.Workflow) {
		w.Versions = append(w.Versions, o.Version)
	}
	return w
}

// program compiles a version, unless it was compiled recently.
func (d *definitions) program(v scheduler.Version) (*scheduler.Program, error) {
	if p := d.programs.find(v.Hash); p != nil {
		return p, nil
	}
	var err error
	if v.Body, err = d.ns.catalog.Read(v); err != nil {
		return nil, err
	}
	def, err := scheduler.Applied(v)
	if err != nil {
		return nil, err
	}
	p, err := scheduler.CompileWith(def, d.keys)
	if err != nil {
		return nil, err
	}
	d.programs.keep(v.Hash, p, v.Bytes)
	return p, nil
}

func (d *definitions) byHash(hash string) (*scheduler.Program, bool) {
	if p := d.programs.find(hash); p != nil {
		return p, true
	}
	v, ok := d.version(hash)
	if !ok {
		return nil, false
	}
	p, err := d.program(v)
	return p, err == nil
}

// version finds a version by its hash alone.
func (d *definitions) version(hash string) (scheduler.Version, bool) {
	for _, current := range d.ns.catalog.List() {
		if v, ok := d.ns.catalog.Catalog.ByHash(current.Workflow, hash); ok {
			return v, true
		}
	}
	return scheduler.Version{}, false
}

// Accept implements api.Definitions. A submission for a definition above this build's level is left to its owner.
func (d *definitions) Accept(_ context.Context, of api.Definition, sub *events.Submission) (a events.Acceptance, list []api.Fault, err error) {
	p, ok := d.byHash(of.Hash)
	if !ok {
		v, known := d.version(of.Hash)
		if known && v.Level > d.ns.maxLevel {
			return a, nil, nil
		}
		if _, err := d.program(v); known && err != nil {
			return a, []api.Fault{{Pointer: "/input", Message: fmt.Sprintf("version %d of workflow %q cannot be used: %v", v.Version, v.Workflow, err)}}, nil
		}
		return a, nil, fmt.Errorf("definition %s is not known", of.Hash)
	}
	a, faults := p.Accept(sub, of.Version)
	if a.Unopened != nil {
		return a, nil, nil // the owner judges it when it can be opened
	}
	for _, f := range faults {
		list = append(list, api.Fault{Pointer: f.Pointer, Message: f.Message})
	}
	return a, list, nil
}

// CheckSignal implements api.Definitions. The owner judges a signal whose definition this node does not know.
func (d *definitions) CheckSignal(_ context.Context, t *events.Task, signal string, payload json.RawMessage) (list []api.Fault, _ error) {
	if p, ok := d.byHash(t.Definition); ok {
		faults, err := p.CheckSignal(t, signal, payload)
		if err != nil {
			return nil, nil // the owner judges it when it can be opened
		}
		for _, f := range faults {
			list = append(list, api.Fault{Pointer: f.Pointer, Message: f.Message})
		}
	}
	return list, nil
}

// Steps implements api.Definitions.
func (d *definitions) Steps(_ context.Context, hash string) ([]api.Step, error) {
	p, ok := d.byHash(hash)
	if !ok {
		return nil, nil
	}
	return stepsOf(p.Definition()), nil
}

// Preview implements api.Definitions.
func (d *definitions) Preview(_ context.Context, hash string, t *events.Task) (list []api.StepPreview, err error) {
	p, ok := d.byHash(hash)
	if !ok {
		return nil, fmt.Errorf("definition %s is not known, or cannot be used", hash)
	}
	steps := stepsOf(p.Definition())
	for i, x := range p.Preview(t) {
		list = append(list, api.StepPreview{
			Step: steps[i], If: x.Step.If, Condition: x.Condition, Skipped: x.Skipped, Starts: x.Starts, Items: x.Items, With: x.Input, Error: x.Error,
		})
	}
	return list, nil
}

func stepsOf(d *scheduler.Definition) (list []api.Step) {
	for _, s := range d.Steps {
		x := api.Step{ID: s.ID, Title: s.Title, Description: s.Description, Agent: s.Agent, Operation: s.Operation, Needs: s.Needs, HasUndo: s.Undo != nil, Pivot: s.Pivot}
		if s.For != nil {
			x.For = s.For.String()
		}
		x.Workflow, x.WorkflowVersion = s.ChildVersion()
		x.Calls = s.Calls()
		list = append(list, x)
	}
	return list
}

// Check implements api.Workflows.
func (d *definitions) Check(_ context.Context, draft api.Draft) (api.Applied, []api.Fault, error) {
	src, a, faults := d.check(draft, nil)
	if src != nil && a.Changed {
		faults = placed(draft.Source, d.unknownLimits(src))
	}
	return a, faults, nil
}

func (d *definitions) check(draft api.Draft, open func(string) ([]byte, error)) (*scheduler.Source, api.Applied, []api.Fault) {
	if open == nil {
		open = func(ref string) ([]byte, error) {
			return nil, fmt.Errorf("a definition sent over HTTP has no files next to it: inline %q, or apply it with the CLI, which inlines it", ref)
		}
	}
	src, found := scheduler.Parse(draft.Name, draft.Source, open)
	var faults, warnings []api.Fault
	for _, f := range found {
		out := api.Fault{Pointer: pointer(f.Path), Message: f.Message, Line: f.Line, Column: f.Column}
		if f.Warning {
			warnings = append(warnings, out)
		} else {
			faults = append(faults, out)
		}
	}
	if src != nil && draft.Name != "" && src.Workflow != draft.Name {
		faults = append(faults, api.Fault{Pointer: "/workflow", Message: fmt.Sprintf("is %q, but the URL names %q", src.Workflow, draft.Name)})
	}
	if src == nil || len(faults) > 0 {
		return nil, api.Applied{Warnings: warnings}, placed(draft.Source, faults)
	}
	src.Level, src.NeedsLevel = d.levels.Of(src.Body)
	a := api.Applied{Name: src.Workflow, Hash: src.Hash, Changed: true, Warnings: warnings, Version: d.ns.catalog.Ordinal(src.Workflow, src.Hash)}
	if whole, err := scheduler.Complete(src.Body); err == nil { // Parse has already reported any fault
		a.Steps = stepsOf(whole)
		a.Warnings = append(a.Warnings, d.misfits(whole, a.Version)...)
		a.Warnings = append(a.Warnings, placed(draft.Source, d.unfitChildren(whole))...)
	}
	if c, ok := d.ns.catalog.Catalog.Current(src.Workflow); ok && c.Hash == src.Hash {
		a.Changed = false
	}
	return src, a, nil
}

// placed gives faults their places in a source, unless they have one.
func placed(source []byte, list []api.Fault) []api.Fault {
	placeOf := scheduler.Places(source)
	for i, f := range list {
		if f.Line != 0 {
			continue
		}
		if line, column, found := placeOf(f.Pointer); found {
			list[i].Line, list[i].Column = line, column
		}
	}
	return list
}

// pointer turns a path such as steps.account.needs[0] into a JSON pointer.
func pointer(path string) string {
	if path == "" {
		return ""
	}
	return "/" + strings.ReplaceAll(strings.ReplaceAll(strings.ReplaceAll(path, "[", "/"), "]", ""), ".", "/")
}

// Apply implements api.Workflows.
func (d *definitions) Apply(ctx context.Context, draft api.Draft) (api.Applied, []api.Fault, error) {
	if err := d.begin(ctx); err != nil {
		return api.Applied{}, nil, err
	}
	defer d.end()
	src, a, faults, err := d.checkNow(ctx, draft, nil)
	if err == nil && len(faults) == 0 && a.Changed {
		if faults, err = d.room(ctx, src); err == nil && len(faults) == 0 {
			a, err = d.write(ctx, src, a, draft.By)
		}
	}
	return a, placed(draft.Source, faults), noAnswer(err)
}

// applyNew is Apply for content that is not known yet. A node's start must not undo an apply: its files may be older than the
// definitions that were applied while it was down.
func (d *definitions) applyNew(ctx context.Context, file string, source []byte, open func(string) ([]byte, error)) (api.Applied, []api.Fault, error) {
	if err := d.begin(ctx); err != nil {
		return api.Applied{}, nil, err
	}
	defer d.end()
	src, a, faults, err := d.checkNow(ctx, api.Draft{Source: source}, open)
	if err != nil || len(faults) > 0 {
		return a, faults, err
	}
	log := d.ns.log.With("workflow", src.Workflow, "file", file)
	_, known := d.ns.catalog.Catalog.ByHash(src.Workflow, src.Hash)
	current, _ := d.ns.catalog.Catalog.Current(src.Workflow)
	switch {
	case d.ns.catalog.Deleted(src.Workflow, src.Hash):
		a.Changed = false
		log.Warn("a workflow's file holds a version that was deleted, so it is not applied; `sagalog workflow apply` brings it back", "version", a.Version)
	case !known:
		if faults, err = d.room(ctx, src); err != nil || len(faults) > 0 {
			return a, placed(source, faults), err
		}
		if a, err = d.write(ctx, src, a, ""); err == nil {
			log.Info("a workflow is applied", "version", a.Version)
		}
	case a.Changed:
		a.Changed = false
		log.Warn("a workflow's file holds an older version, so it is not applied; `sagalog workflow apply` makes it current again",
			"version", a.Version, "current", current.Version)
	default:
		log.Info("a workflow is current already", "version", a.Version)
	}
	return a, nil, err
}

// begin waits until no other definition is being applied, or ctx ends. Compiling one may take a while, and a client that has given up must
// not queue behind it.
func (d *definitions) begin(ctx context.Context) error {
	select {
	case d.applying <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait until another definition is applied: %w", ctx.Err())
	}
}

func (d *definitions) end() { <-d.applying }

// checkNow checks a draft against all that was applied before the call.
func (d *definitions) checkNow(ctx context.Context, draft api.Draft, open func(string) ([]byte, error)) (*scheduler.Source, api.Applied, []api.Fault, error) {
	if err := d.ns.catalog.upToNow(ctx); err != nil {
		return nil, api.Applied{}, nil, err
	}
	src, a, faults := d.check(draft, open)
	return src, a, faults, nil
}

// write appends a checked definition, which by applies, and reads it back.
func (d *definitions) write(ctx context.Context, src *scheduler.Source, a api.Applied, by string) (api.Applied, error) {
	r, err := scheduler.EncodeDefinition(src, events.Subject{ID: uuid.NewString(), Source: "/" + d.ns.topics.Namespace + "/workflows", Time: events.At(time.Now())}, by)
	if err != nil {
		return a, err
	}
	r.Topic = d.ns.topics.Definitions()
	at, err := d.producer.ProduceSync(ctx, r)
	if err != nil {
		return a, fmt.Errorf("append the definition: %w", err)
	}
	if err := d.ns.catalog.upTo(ctx, at[0]+1); err != nil {
		return a, err
	}
	v, ok := d.ns.catalog.Catalog.ByHash(src.Workflow, src.Hash)
	if !ok {
		return a, fmt.Errorf("workflow %q: others have used up the room of this namespace meanwhile", src.Workflow)
	}
	a.Version = v.Version
	return a, nil
}
