package scheduler

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/sagalog/sagalog/events"
)

// maxByBytes bounds who applied a definition, which the catalog holds in memory.
const maxByBytes = 256

// Version is one version of a workflow: content that was applied.
type Version struct {
	Workflow string `json:"workflow"`
	// Version is the ordinal of the first appearance of the content within the workflow, from 1.
	Version int    `json:"version"`
	Hash    string `json:"hash"`
	// Body is nil where the catalog keeps bodies elsewhere: see [Catalog.Read].
	Body json.RawMessage `json:"body"`
	// Level is what its keys need, 0 for events.FirstLevel.
	Level int `json:"level,omitzero"`
	// AppliedAt is when the content was last applied.
	AppliedAt events.Instant `json:"applied_at"`
	// AppliedBy is who applied it then; empty if that is not known.
	AppliedBy string `json:"applied_by,omitempty"`
	// Deleted says that it was deleted, so that nothing but its number and hash is known.
	Deleted bool `json:"-"`

	// at is where Bodies keep the body.
	at int64
	// Bytes is the size of the body.
	Bytes int `json:"-"`
}

// Bodies keep the bodies of definitions outside of memory.
type Bodies interface {
	// Keep returns where a body is kept from now on. If it cannot be kept, it stays in memory.
	Keep(body []byte) (at int64, err error)
	// Read fills body with what was kept.
	Read(at int64, body []byte) error
}

// same says whether two versions have the same content.
func (v Version) same(o Version) bool { return v.Hash == o.Hash }

// Namespace is the first record of the topic definitions. It holds the settings that the namespace was created with.
type Namespace = events.NamespaceCreated

// MaxVersions and MaxBytes bound the versions of all workflows of a namespace that are not deleted. All readers ignore the records
// beyond them, so that they number the versions alike.
const (
	MaxVersions = 10_000
	MaxBytes    = 256 << 20
)

// Catalog is the fold of the topic definitions. One goroutine applies records and any number may read. Each lookup sees the
// catalog as it stood after some record.
type Catalog struct {
	now    atomic.Pointer[catalogState]
	bodies Bodies
}

// catalogState is immutable: Apply copies what it changes. Definitions are applied by people, a few each day, so a
// copy costs less than a lock in each lookup.
type catalogState struct {
	namespace *Namespace
	// copying is set if the namespace is, or is to be, a copy; closed if it was copied.
	copying *events.Copying
	closed  *events.NamespaceClosed
	// keysMade is set once the namespace has had a data key.
	keysMade bool
	// versions is how many versions of workflows there are, and bytes the total size of their bodies.
	versions, bytes int
	workflows       map[string]*workflowVersions
	// deleted are the keys of the versions that are deleted.
	deleted  map[string]bool
	settings Recorded
	losses   map[lossOf]LossRecord
	// paused are the agents that are paused now.
	paused map[string]PauseRecord
	// acknowledged are the acknowledged alerts.
	acknowledged map[string]AcknowledgedRecord
	// schedules are the schedules and those that were deleted, and scheduled counts the former.
	schedules map[string]ScheduleRecord
	scheduled int
	// scheduledUpTo is the offset of the latest of these records.
	scheduledUpTo int64
	jobs          map[string]JobRecord
	// limits are the named limits and those that were deleted.
	limits map[string]LimitRecord
}

type workflowVersions struct {
	versions []Version // by ordinal, from 1
	current  int       // index into versions, negative if all are deleted
}

// NewCatalog returns an empty catalog. bodies may be nil: then it keeps the bodies in memory.
func NewCatalog(bodies Bodies) *Catalog {
	c := &Catalog{bodies: bodies}
	c.now.Store(&catalogState{workflows: map[string]*workflowVersions{}, settings: Recorded{Settings: events.DefaultSettings(), Level: events.FirstLevel}})
	return c
}

// Apply folds the next record of the topic. Its error means that the record cannot be used, for example because a later version
// wrote it: the reader reports that and skips the record. The slices of the record must not change afterwards.
func (c *Catalog) Apply(rec *events.Record) error {
	if rec.Control {
		return nil
	}
	if rec.Value == nil {
		name := events.ScheduleOfKey(string(rec.Key))
		if w := c.now.Load().workflows["schedule"]; name != "" && !w.has(name) { // not a version of a workflow of that name
			return c.applySchedule(rec, events.Envelope{}, nil)
		}
		name = events.LimitOfKey(string(rec.Key))
		if w := c.now.Load().workflows["limit"]; name != "" && !w.has(name) {
			return c.applyLimit(rec, events.Envelope{}, nil)
		}
		c.applyDeletion(string(rec.Key))
		return nil
	}
	e, data, err := events.Open(rec)
	if err != nil {
		return fmt.Errorf("definitions, offset %d: %w", rec.Offset, err)
	}
	switch e.Type {
	case typeNamespace:
		err = c.applyNamespace(data)
	case events.TypeCopying:
		err = applyCopying(c, data)
	case typeClosed:
		err = applyClosed(c, data)
	case events.TypeOmitted, events.TypeDeadLetterMark: // nothing follows from the marks here
	case events.TypeKeysMade:
		c.applyKeysMade()
	case events.TypeDefinition:
		err = c.applyDefinition(rec, e, data)
	case events.TypeSettings:
		err = c.applySettings(rec.Offset, e, data)
	case events.TypeAgentPause:
		err = c.applyAgentPause(rec.Offset, e, data)
	case events.TypeAlertAcknowledgement:
		err = c.applyAcknowledgement(rec.Offset, e, data)
	case events.TypeSchedule:
		err = c.applySchedule(rec, e, data)
	case events.TypeLimit:
		err = c.applyLimit(rec, e, data)
	case events.TypeLoss:
		err = c.applyLoss(rec.Offset, data)
	case events.TypeJob:
		err = c.applyJob(e, data)
	case events.TypeJobProgress:
		err = c.applyJobProgress(e, data)
	case events.TypeJobStop:
		err = c.applyJobStop(data)
	default:
		err = fmt.Errorf("unknown type %q", e.Type)
	}
	if err != nil {
		return fmt.Errorf("definitions, offset %d: %w", rec.Offset, err)
	}
	return nil
}

// applyNamespace keeps the first record: if two processes create a namespace at once, the later one loses.
func (c *Catalog) applyNamespace(data []byte) error {
	s := *c.now.Load()
	if s.namespace != nil {
		return nil
	}
	var n Namespace
	if err := json.Unmarshal(data, &n); err != nil {
		return fmt.Errorf("read %s: %w", typeNamespace, err)
	}
	s.namespace = &n
	s.settings.Level = max(s.settings.Level, n.Format)
	c.now.Store(&s)
	return nil
}

func (c *Catalog) applyDefinition(rec *events.Record, e events.Envelope, data []byte) error {
	key, level := string(rec.Key), 0
	if text := rec.Header(events.HeaderLevel); text != "" {
		var err error
		if level, err = strconv.Atoi(text); err != nil || level < events.FirstLevel {
			return fmt.Errorf("%s %q is not a level", events.HeaderLevel, events.Clip(text, maxQuotedBytes))
		}
	}
	workflow, hash, ok := strings.Cut(key, "/")
	if !ok || !validName(workflow) {
		return fmt.Errorf("key %q is not <workflow>/<hash>", key)
	}
	if got := hashOf(data); got != hash {
		return fmt.Errorf("workflow %q: the hash of the body is %s, but the key has %s", workflow, got, hash)
	}
	at, err := appliedAt(e.Time)
	if err != nil {
		return err
	}
	old := c.now.Load()
	s := *old
	v := Version{Workflow: workflow, Hash: hash, Body: data, Bytes: len(data), Level: level, AppliedAt: at, AppliedBy: events.Clip(rec.Header(events.HeaderBy), maxByBytes)}
	if !old.workflows[workflow].has(hash) {
		if s.versions, s.bytes = s.versions+1, s.bytes+len(data); s.versions > MaxVersions || s.bytes > MaxBytes || len(data) > MaxCompleteBytes {
			return fmt.Errorf("workflow %q: no room for a version of %d bytes: a version takes at most %d bytes, and a namespace at most %d versions with %d bytes",
				workflow, len(data), MaxCompleteBytes, MaxVersions, MaxBytes)
		}
		if c.bodies != nil {
			if place, err := c.bodies.Keep(data); err == nil {
				v.at, v.Body = place, nil
			}
		}
	}
	s.workflows = maps.Clone(old.workflows)
	s.workflows[workflow] = old.workflows[workflow].with(v)
	if s.deleted[key] {
		s.deleted = maps.Clone(s.deleted)
		delete(s.deleted, key)
	}
	c.now.Store(&s)
	return nil
}

// applyDeletion forgets a version. Its number and hash stay: if the content is applied again, it gets its number again, which the
// partitions know that adopted it.
func (c *Catalog) applyDeletion(key string) {
	old := c.now.Load()
	workflow, hash, _ := strings.Cut(key, "/")
	w := old.workflows[workflow]
	if !w.has(hash) {
		return
	}
	next := &workflowVersions{versions: slices.Clone(w.versions), current: w.current}
	i := slices.IndexFunc(next.versions, Version{Hash: hash}.same)
	s := *old
	s.versions, s.bytes = s.versions-1, s.bytes-next.versions[i].Bytes
	next.versions[i] = Version{Workflow: workflow, Version: i + 1, Hash: hash, Deleted: true}
	if next.current == i { // the newest that is left; the API deletes the current version last
		for next.current = len(next.versions) - 1; next.current >= 0 && next.versions[next.current].Deleted; {
			next.current--
		}
	}
	s.workflows, s.deleted = maps.Clone(old.workflows), maps.Clone(old.deleted)
	if s.deleted == nil {
		s.deleted = map[string]bool{}
	}
	s.workflows[workflow], s.deleted[key] = next, true
	c.now.Store(&s)
}

// has says whether the content was applied before, and not deleted since.
func (w *workflowVersions) has(hash string) bool {
	return w != nil && slices.ContainsFunc(w.versions, func(v Version) bool { return v.Hash == hash && !v.Deleted })
}

func appliedAt(text string) (events.Instant, error) {
	if text == "" {
		return 0, nil
	}
	return events.ParseInstant(text)
}

// with returns the versions after applying one more, which may be an older version that is applied again.
func (w *workflowVersions) with(v Version) *workflowVersions {
	next := &workflowVersions{}
	if w != nil {
		next.versions = slices.Clone(w.versions)
	}
	i := slices.IndexFunc(next.versions, v.same)
	switch {
	case i < 0:
		i = len(next.versions)
		v.Version = i + 1
		next.versions = append(next.versions, v)
	case next.versions[i].Deleted:
		v.Version = i + 1
		next.versions[i] = v
	default:
		next.versions[i].AppliedAt, next.versions[i].AppliedBy = v.AppliedAt, v.AppliedBy
	}
	next.current = i
	return next
}

// Current returns the version of a workflow that was applied last. ok is false if all are deleted, which the version says.
func (c *Catalog) Current(workflow string) (v Version, ok bool) {
	w := c.now.Load().workflows[workflow]
	if w == nil {
		return Version{}, false
	}
	if w.current < 0 {
		return Version{Workflow: workflow, Deleted: true}, false
	}
	return w.versions[w.current], true
}

// Version returns a version of a workflow by its ordinal, from 1. ok is false for one that is deleted, which the version says.
func (c *Catalog) Version(workflow string, n int) (v Version, ok bool) {
	w := c.now.Load().workflows[workflow]
	if w == nil || n < 1 || n > len(w.versions) {
		return Version{}, false
	}
	v = w.versions[n-1]
	return v, !v.Deleted
}

// ByHash returns a version of a workflow by the hash of its content. ok is false for one that is deleted, which the version says.
func (c *Catalog) ByHash(workflow, hash string) (v Version, ok bool) {
	w := c.now.Load().workflows[workflow]
	if w == nil {
		return Version{}, false
	}
	i := slices.IndexFunc(w.versions, Version{Hash: hash}.same)
	if i < 0 {
		return Version{}, false
	}
	return w.versions[i], !w.versions[i].Deleted
}

// Deleted says whether that content of a workflow is deleted. It is asked for each submission.
func (c *Catalog) Deleted(workflow, hash string) bool {
	deleted := c.now.Load().deleted
	return len(deleted) > 0 && deleted[workflow+"/"+hash]
}

// Ordinal returns the number that a content of a workflow has, or would get.
func (c *Catalog) Ordinal(workflow, hash string) int {
	w := c.now.Load().workflows[workflow]
	if w == nil {
		return 1
	}
	if i := slices.IndexFunc(w.versions, Version{Hash: hash}.same); i >= 0 {
		return i + 1
	}
	return len(w.versions) + 1
}

// Versions returns all versions of a workflow by their ordinal, without those that are deleted.
func (c *Catalog) Versions(workflow string) []Version {
	w := c.now.Load().workflows[workflow]
	if w == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(w.versions), func(v Version) bool { return v.Deleted })
}

// Held returns how many versions there are, and how many bytes their bodies have.
func (c *Catalog) Held() (versions, bytes int) {
	s := c.now.Load()
	return s.versions, s.bytes
}

// Read returns the body of a version.
func (c *Catalog) Read(v Version) (json.RawMessage, error) {
	if v.Body != nil {
		return v.Body, nil
	}
	body := make([]byte, v.Bytes)
	if err := c.bodies.Read(v.at, body); err != nil {
		return nil, fmt.Errorf("read version %d of workflow %q: %w", v.Version, v.Workflow, err)
	}
	if hashOf(body) != v.Hash {
		return nil, fmt.Errorf("read version %d of workflow %q: its content has changed on disk", v.Version, v.Workflow)
	}
	return body, nil
}

// List returns the current version of each workflow by name.
func (c *Catalog) List() []Version {
	s := c.now.Load()
	out := make([]Version, 0, len(s.workflows))
	for _, w := range s.workflows {
		if w.current >= 0 {
			out = append(out, w.versions[w.current])
		}
	}
	slices.SortFunc(out, func(a, b Version) int { return cmp.Compare(a.Workflow, b.Workflow) })
	return out
}

// Namespace returns the settings that the namespace was created with.
func (c *Catalog) Namespace() (Namespace, bool) {
	n := c.now.Load().namespace
	if n == nil {
		return Namespace{}, false
	}
	return *n, true
}
