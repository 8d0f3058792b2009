package export

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"

	"github.com/sagalog/sagalog/events"
)

// OCEL exports the log as OCEL 2.0 (JSON) into the directory ocel of cfg.Dir, as log.ocel.json. The objects are runs of tasks, their steps, agents, workflows,
// and the values of the labels that cfg.Objects names. Otherwise it is like XES. The names of agents and workflows, and those values, are in memory.
func OCEL(ctx context.Context, cfg Config) (Result, error) {
	cfg.Objects = slices.Compact(slices.Sorted(slices.Values(cfg.Objects)))
	if err := CheckObjects(cfg.Objects); err != nil {
		return Result{}, err
	}
	return inOneFile(ctx, cfg, mined{"ocel", "log.ocel.json", "event", func(to io.Writer, all func(func(*trace) error) error) (int64, error) {
		w := &ocelWriter{to: to, labels: cfg.Objects}
		return w.write(all)
	}})
}

// The types of objects that each log has.
const (
	objectTask     = "task"
	objectStep     = "step"
	objectAgent    = "agent"
	objectWorkflow = "workflow"
)

// CheckObjects returns an error if a label cannot be a type of objects.
func CheckObjects(labels []string) error {
	for _, l := range labels {
		switch {
		case l == objectTask || l == objectStep || l == objectAgent || l == objectWorkflow:
			return fmt.Errorf("the label %s has the name of an object type that every log has: leave it out", l)
		case !events.LabelAllowed(l, ""):
			return fmt.Errorf("%q is not the name of a label: %s", l, events.LabelRule)
		}
	}
	return nil
}

// The elements of OCEL 2.0. All values of attributes are texts, as its schema demands, and the declared type says how to read them.
type (
	ocelDeclared struct {
		Name string `json:"name"`
		Type string `json:"type"`
	}
	ocelType struct {
		Name       string         `json:"name"`
		Attributes []ocelDeclared `json:"attributes"`
	}
	ocelValue struct {
		Name  string `json:"name"`
		Value string `json:"value"`
		// Time is since when an object has the value.
		Time string `json:"time,omitempty"`
	}
	ocelRelation struct {
		Object    string `json:"objectId"`
		Qualifier string `json:"qualifier"`
	}
	ocelObject struct {
		ID         string         `json:"id"`
		Type       string         `json:"type"`
		Attributes []ocelValue    `json:"attributes"`
		Relations  []ocelRelation `json:"relationships"`
	}
	ocelEvent struct {
		ID         string         `json:"id"`
		Type       string         `json:"type"`
		Time       string         `json:"time"`
		Attributes []ocelValue    `json:"attributes"`
		Relations  []ocelRelation `json:"relationships"`
	}
)

// since is the time of the values that an object has from the beginning: OCEL has the first instant for that.
const since = "1970-01-01T00:00:00Z"

// ocelTypes are the types of the objects that each log has.
var ocelTypes = []ocelType{
	{objectTask, []ocelDeclared{
		{"task", "string"}, {"run", "integer"}, {"incarnation", "string"}, {"version", "integer"}, {"state", "string"}, {"priority", "integer"}, {"parent", "string"},
		{"parent_step", "string"}, {"schedule", "string"},
	}},
	{objectStep, []ocelDeclared{{"step", "string"}, {"item", "integer"}}},
	{objectAgent, []ocelDeclared{{"name", "string"}}},
	{objectWorkflow, []ocelDeclared{{"name", "string"}}},
}

// ocelWriter writes a log.
type ocelWriter struct {
	to     io.Writer
	labels []string
	// shared are the objects that belong to several traces, by ID, and activities the types of events.
	shared     map[string]ocelObject
	activities map[string]bool
	// listed says that the list that is written has an element.
	listed bool
}

// write goes through the traces three times, because the types come first: for the types and the shared objects, for the other objects, and for the events.
func (w *ocelWriter) write(all func(func(*trace) error) error) (written int64, err error) {
	w.shared, w.activities = map[string]ocelObject{}, map[string]bool{}
	if err := all(w.collect); err != nil {
		return 0, err
	}
	types := slices.Clone(ocelTypes)
	for _, l := range w.labels {
		types = append(types, ocelType{l, []ocelDeclared{{"value", "string"}}})
	}
	for _, step := range []func() error{
		func() error { return ocelList(w, `{"objectTypes": [`, types) },
		func() error { return ocelList(w, "\n],\n"+`"eventTypes": [`, w.eventTypes()) },
		func() error { return ocelList(w, "\n],\n"+`"objects": [`, w.sharedObjects()) },
		func() error { return all(w.objects) },
		func() error { return ocelList[ocelEvent](w, "\n],\n"+`"events": [`, nil) },
		func() error {
			return all(func(t *trace) error {
				written += int64(len(t.Events))
				return w.events(t)
			})
		},
	} {
		if err := step(); err != nil {
			return 0, err
		}
	}
	_, err = io.WriteString(w.to, "\n]}\n")
	return written, err
}

// ocelList begins a list with its first elements.
func ocelList[E any](w *ocelWriter, begins string, elements []E) error {
	w.listed = false
	if _, err := io.WriteString(w.to, begins); err != nil {
		return err
	}
	for i := range elements {
		if err := w.element(&elements[i]); err != nil {
			return err
		}
	}
	return nil
}

func (w *ocelWriter) element(v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	between := ",\n"
	if !w.listed {
		between = "\n"
	}
	w.listed = true
	if _, err := io.WriteString(w.to, between); err != nil {
		return err
	}
	_, err = w.to.Write(b)
	return err
}

// collect notes the types of events and the shared objects of a trace.
func (w *ocelWriter) collect(t *trace) error {
	share := func(kind, attribute, name string) {
		id := kind + ":" + name
		if _, ok := w.shared[id]; !ok && name != "" {
			w.shared[id] = ocelObject{id, kind, []ocelValue{{attribute, name, since}}, []ocelRelation{}}
		}
	}
	share(objectWorkflow, "name", t.Workflow)
	for _, l := range w.labels {
		share(l, "value", t.Labels[l])
	}
	for i := range t.Events {
		share(objectAgent, "name", t.Events[i].Agent)
		w.activities[t.Events[i].Activity] = true
	}
	return nil
}

func (w *ocelWriter) eventTypes() (list []ocelType) {
	declared := []ocelDeclared{{"lifecycle", "string"}, {"resource", "string"}}
	for _, a := range (&event{}).details() {
		kind := "string"
		if a.number {
			kind = "integer"
		}
		declared = append(declared, ocelDeclared{a.name, kind})
	}
	for _, a := range slices.Sorted(maps.Keys(w.activities)) {
		list = append(list, ocelType{a, declared})
	}
	return list
}

func (w *ocelWriter) sharedObjects() (list []ocelObject) {
	for _, id := range slices.Sorted(maps.Keys(w.shared)) {
		list = append(list, w.shared[id])
	}
	return list
}

func taskObject(t *trace) string           { return objectTask + ":" + t.Name }
func stepObject(t *trace, e *event) string { return objectStep + ":" + t.Name + "/" + e.path() }

// objects writes the run of the task and its steps.
func (w *ocelWriter) objects(t *trace) error {
	task := ocelObject{ID: taskObject(t), Type: objectTask, Attributes: initially(
		detail{"task", t.Task, false}, detail{"run", strconv.Itoa(t.Run), true}, detail{"incarnation", t.Incarnation, false}, detail{"version", strconv.Itoa(t.Version), true},
		detail{"state", t.State, false}, detail{"priority", strconv.Itoa(t.Priority), true}, detail{"parent", t.Parent, false}, detail{"parent_step", t.ParentStep, false},
		detail{"schedule", t.Schedule, false},
	), Relations: w.around(t, "run of")}
	if err := w.element(&task); err != nil {
		return err
	}
	written := map[string]bool{}
	for i := range t.Events {
		e := &t.Events[i]
		if e.Step == "" || written[e.path()] {
			continue
		}
		written[e.path()] = true
		item := ""
		if e.Item != nil {
			item = strconv.Itoa(int(*e.Item))
		}
		if err := w.element(&ocelObject{
			ID: stepObject(t, e), Type: objectStep, Attributes: initially(detail{"step", e.Step, false}, detail{"item", item, true}),
			Relations: []ocelRelation{{task.ID, "step of"}},
		}); err != nil {
			return err
		}
	}
	return nil
}

// around are relations to the workflow, with that qualifier, and to the values of labels, with the name of the label.
func (w *ocelWriter) around(t *trace, workflow string) []ocelRelation {
	list := []ocelRelation{}
	if t.Workflow != "" {
		list = append(list, ocelRelation{objectWorkflow + ":" + t.Workflow, workflow})
	}
	for _, l := range w.labels {
		if v := t.Labels[l]; v != "" {
			list = append(list, ocelRelation{l + ":" + v, l})
		}
	}
	return list
}

// initially are values that an object has from the beginning, without the empty ones.
func initially(list ...detail) []ocelValue {
	values := []ocelValue{}
	for _, a := range list {
		if a.value != "" {
			values = append(values, ocelValue{a.name, a.value, since})
		}
	}
	return values
}

func (w *ocelWriter) events(t *trace) error {
	for i := range t.Events {
		e := &t.Events[i]
		to := ocelEvent{
			ID: fmt.Sprintf("%d@%d", t.Partition, e.Offset), Type: e.Activity, Time: events.Instant(e.Time).String(), Attributes: []ocelValue{},
			Relations: append([]ocelRelation{{taskObject(t), objectTask}}, w.around(t, objectWorkflow)...),
		}
		if e.Step != "" {
			to.Relations = append(to.Relations, ocelRelation{stepObject(t, e), objectStep})
		}
		if e.Agent != "" {
			to.Relations = append(to.Relations, ocelRelation{objectAgent + ":" + e.Agent, objectAgent})
		}
		for _, a := range append([]detail{{"lifecycle", e.Lifecycle, false}, {"resource", e.resource(), false}}, e.details()...) {
			if a.value != "" {
				to.Attributes = append(to.Attributes, ocelValue{Name: a.name, Value: a.value})
			}
		}
		if err := w.element(&to); err != nil {
			return err
		}
	}
	return nil
}
