package node

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/scheduler"
	"github.com/sagalog/sagalog/supervisor"
)

// namedLimits implements api.NamedLimits.
type namedLimits struct {
	ns          *namespace
	producer    *kafka.Producer
	definitions *definitions
}

// NamedLimits implements api.NamedLimits.
func (l *namedLimits) NamedLimits(ctx context.Context) (map[string]api.NamedLimit, error) {
	if err := l.ns.catalog.upToNow(ctx); err != nil {
		return nil, noAnswer(err)
	}
	list := map[string]api.NamedLimit{}
	for name, r := range l.ns.catalog.Limits() {
		if !r.Deleted {
			list[name] = api.NamedLimit{LimitDefinition: r.LimitDefinition, AppliedAt: r.At}
		}
	}
	return list, nil
}

// ApplyLimit implements api.NamedLimits.
func (l *namedLimits) ApplyLimit(ctx context.Context, draft api.Draft) (now api.NamedLimit, changed bool, faults []api.Fault, err error) {
	return l.apply(ctx, draft, false)
}

// apply applies a limit; with onlyNew nothing is written if the namespace knows one with its name, even a deleted one.
func (l *namedLimits) apply(ctx context.Context, draft api.Draft, onlyNew bool) (now api.NamedLimit, changed bool, faults []api.Fault, err error) {
	if err := l.ns.catalog.upToNow(ctx); err != nil {
		return now, false, nil, noAnswer(err)
	}
	d, found := scheduler.ParseLimit("", draft.Name, draft.Source)
	if d == nil {
		return now, false, limitFaults(found), nil
	}
	known, has := l.ns.catalog.Limits()[d.Limit]
	if onlyNew && has {
		return api.NamedLimit{LimitDefinition: known.LimitDefinition, AppliedAt: known.At}, false, nil, nil
	}
	if has = has && !known.Deleted; !has && l.ns.catalog.LimitCount() >= scheduler.MaxLimits {
		return now, false, tooManyLimits(), nil
	}
	at := known.Offset
	if changed = !has || known.LimitDefinition != *d; changed {
		r, err := scheduler.EncodeLimit(d, l.subject())
		if err != nil {
			return now, false, nil, err
		}
		if at, err = l.write(ctx, r); err != nil {
			return now, false, nil, err
		}
	}
	if now, faults = appliedLimit(l.ns.catalog.Limits()[d.Limit], at); len(faults) > 0 {
		return now, false, faults, nil
	}
	return now, changed, nil, nil
}

// appliedLimit returns what the catalog holds of a limit after the record, at that offset, that applied it. Meanwhile another request may
// have deleted it, or may have taken the last room for a limit, so that readers ignore the record.
func appliedLimit(r scheduler.LimitRecord, at int64) (api.NamedLimit, []api.Fault) {
	switch {
	case r.Limit == "" || r.Offset < at:
		return api.NamedLimit{}, tooManyLimits()
	case r.Deleted:
		return api.NamedLimit{}, []api.Fault{{Message: "the limit was deleted by another request at the same time: apply it again if you need it"}}
	}
	return api.NamedLimit{LimitDefinition: r.LimitDefinition, AppliedAt: r.At}, nil
}

func tooManyLimits() []api.Fault {
	return []api.Fault{{Message: fmt.Sprintf("the namespace has %d limits, as many as it can have: delete one first", scheduler.MaxLimits)}}
}

// ApplyLimitFile applies the limit of a file if the namespace has never had one with its name, and logs what it did: a start must undo
// neither a change nor a deletion that an operator made.
func (n *Node) ApplyLimitFile(ctx context.Context, file string, source []byte) ([]api.Fault, error) {
	d, found := scheduler.ParseLimit("", "", source)
	if d == nil {
		return limitFaults(found), nil
	}
	log := n.ns.log.With("limit", d.Limit, "file", file)
	limits := &namedLimits{n.ns, n.producer, n.defs}
	now, changed, faults, err := limits.apply(ctx, api.Draft{Name: d.Limit, Source: source}, true)
	switch known := n.ns.catalog.Limits()[d.Limit]; {
	case err != nil || len(faults) > 0:
		return faults, err
	case known.Deleted:
		log.Warn("the limit in the file was deleted, so the file is not applied; `sagalog limit apply` brings the limit back")
	case now.LimitDefinition != *d:
		log.Warn("the limit differs from the one in the file, which is not applied; `sagalog limit apply` applies it", "max", now.Max, "rate", now.Rate)
	case changed:
		log.Info("the limit of the file is applied")
	default:
		log.Info("the limit of the file is already current")
	}
	return nil, nil
}

func limitFaults(found []scheduler.Fault) (list []api.Fault) {
	for _, f := range found {
		list = append(list, api.Fault{Pointer: pointer(f.Path), Message: f.Message, Line: f.Line, Column: f.Column})
	}
	return list
}

// LimitUsers implements api.NamedLimits.
func (l *namedLimits) LimitUsers(name string) (workflows []string) {
	for _, v := range l.ns.catalog.List() {
		if p, err := l.definitions.program(v); err == nil && slices.Contains(p.Definition().Limits(), name) {
			workflows = append(workflows, v.Workflow)
		}
	}
	return workflows
}

// DeleteLimit implements api.NamedLimits.
func (l *namedLimits) DeleteLimit(ctx context.Context, name string) (bool, error) {
	if err := l.ns.catalog.upToNow(ctx); err != nil {
		return false, noAnswer(err)
	}
	if known, has := l.ns.catalog.Limits()[name]; !has || known.Deleted {
		return false, nil
	}
	_, err := l.write(ctx, scheduler.EncodeLimitDeletion(name, l.subject()))
	return true, err
}

func (l *namedLimits) subject() events.Subject {
	return events.Subject{ID: uuid.NewString(), Source: "/" + l.ns.name + "/limits", Time: events.At(time.Now())}
}

// write appends a record and reads it back. at is its offset.
func (l *namedLimits) write(ctx context.Context, r events.Record) (at int64, err error) {
	return l.ns.define(ctx, l.producer, "a limit", r)
}

// setLimits tells the owners the named limits of their partitions.
func (o *owners) setLimits(c *scheduler.Catalog) {
	for p, shell := range o.shells {
		var list []supervisor.LimitRecord
		for _, r := range c.LimitsOf(int32(p), int32(len(o.shells))) {
			x := supervisor.LimitRecord{Limit: events.LimitKey(r.Limit), Offset: r.Offset}
			if !r.Deleted {
				x.Max, x.Rate = r.Max, r.Rate
			}
			list = append(list, x)
		}
		shell.SetLimits(list)
	}
}

// unknownLimits says which limits of a definition do not exist.
func (d *definitions) unknownLimits(src *scheduler.Source) (faults []api.Fault) {
	whole, err := scheduler.Complete(src.Body)
	if err != nil {
		return nil // Parse has reported any fault
	}
	for _, s := range whole.Steps {
		if r, has := d.ns.catalog.Limits()[s.Limit]; s.Limit != "" && (!has || r.Deleted) {
			faults = append(faults, api.Fault{
				Pointer: "/steps/" + s.ID + "/limit",
				Message: fmt.Sprintf("there is no limit %q: apply it first, for example with `sagalog limit apply`", s.Limit),
			})
		}
	}
	return faults
}
