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

// Version is one version of a workflow: content that was applied.
type Version struct {
	Workflow string `json:"workflow"`
	// Version is the ordinal of the first appearance of the content within the workflow, from 1.
	Version int             `json:"version"`
	Hash    string          `json:"hash"`
	Body    json.RawMessage `json:"body"`
	// Level is what its keys need, 0 for events.FirstLevel.
	Level int `json:"level,omitzero"`
	// AppliedAt is when the content was last applied.
	AppliedAt events.Instant `json:"applied_at"`
}

// same says whether two versions have the same content.
func (v Version) same(o Version) bool { return v.Hash == o.Hash }

// Namespace is the first record of the topic definitions. It holds the settings that the namespace was created with.
type Namespace = events.NamespaceCreated

// MaxVersions and MaxBytes bound the versions of all workflows of a namespace, which each node holds in memory. All readers
// ignore records beyond these limits, so that they number the versions alike.
const (
	MaxVersions = 10_000
	MaxBytes    = 256 << 20
)

// Catalog is the fold of the topic definitions. One goroutine applies records and any number may read. Each lookup sees the
// catalog as it stood after some record.
type Catalog struct{ now atomic.Pointer[catalogState] }

// catalogState is immutable: Apply copies what it changes. Definitions are applied by people, a few each day, so a
// copy costs less than a lock in each lookup.
type catalogState struct {
	namespace *Namespace
	// versions is how many versions of workflows there are, and bytes the total size of their bodies.
	versions, bytes int
	workflows       map[string]*workflowVersions
	settings        Recorded
	losses          map[lossOf]LossRecord
}

type workflowVersions struct {
	versions []Version // by ordinal, from 1
	current  int       // index into versions
}

// NewCatalog returns an empty catalog.
func NewCatalog() *Catalog {
	c := &Catalog{}
	c.now.Store(&catalogState{workflows: map[string]*workflowVersions{}, settings: Recorded{Settings: events.DefaultSettings(), Level: events.FirstLevel}})
	return c
}

// Apply folds the next record of the topic. Its error means that the record cannot be used, for example because a later version
// wrote it: the reader reports that and skips the record. The slices of the record must not change afterwards.
func (c *Catalog) Apply(rec *events.Record) error {
	if rec.Control || rec.Value == nil {
		return nil
	}
	e, data, err := events.Open(rec)
	if err != nil {
		return fmt.Errorf("definitions, offset %d: %w", rec.Offset, err)
	}
	switch e.Type {
	case typeNamespace:
		err = c.applyNamespace(data)
	case events.TypeDefinition:
		err = c.applyDefinition(rec, e, data)
	case events.TypeSettings:
		err = c.applySettings(rec.Offset, e, data)
	case events.TypeLoss:
		err = c.applyLoss(rec.Offset, data)
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
	if !old.workflows[workflow].has(hash) {
		if s.versions, s.bytes = s.versions+1, s.bytes+len(data); s.versions > MaxVersions || s.bytes > MaxBytes || len(data) > maxCompleteBytes {
			return fmt.Errorf("workflow %q: no room for a version of %d bytes: a version takes at most %d bytes, and a namespace at most %d versions with %d bytes",
				workflow, len(data), maxCompleteBytes, MaxVersions, MaxBytes)
		}
	}
	s.workflows = maps.Clone(old.workflows)
	s.workflows[workflow] = old.workflows[workflow].with(Version{Workflow: workflow, Hash: hash, Body: data, Level: level, AppliedAt: at})
	c.now.Store(&s)
	return nil
}

// has says whether the content was applied before.
func (w *workflowVersions) has(hash string) bool {
	return w != nil && slices.ContainsFunc(w.versions, Version{Hash: hash}.same)
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
	if i := slices.IndexFunc(next.versions, v.same); i >= 0 {
		next.versions[i].AppliedAt, next.current = v.AppliedAt, i
		return next
	}
	v.Version = len(next.versions) + 1
	next.versions = append(next.versions, v)
	next.current = len(next.versions) - 1
	return next
}

// Current returns the version of a workflow that was applied last.
func (c *Catalog) Current(workflow string) (Version, bool) {
	w := c.now.Load().workflows[workflow]
	if w == nil {
		return Version{}, false
	}
	return w.versions[w.current], true
}

// Version returns a version of a workflow by its ordinal, from 1.
func (c *Catalog) Version(workflow string, n int) (Version, bool) {
	w := c.now.Load().workflows[workflow]
	if w == nil || n < 1 || n > len(w.versions) {
		return Version{}, false
	}
	return w.versions[n-1], true
}

// ByHash returns a version of a workflow by the hash of its content.
func (c *Catalog) ByHash(workflow, hash string) (Version, bool) {
	w := c.now.Load().workflows[workflow]
	if w == nil {
		return Version{}, false
	}
	i := slices.IndexFunc(w.versions, Version{Hash: hash}.same)
	if i < 0 {
		return Version{}, false
	}
	return w.versions[i], true
}

// Versions returns all versions of a workflow by their ordinal.
func (c *Catalog) Versions(workflow string) []Version {
	w := c.now.Load().workflows[workflow]
	if w == nil {
		return nil
	}
	return slices.Clone(w.versions)
}

// List returns the current version of each workflow by name.
func (c *Catalog) List() []Version {
	s := c.now.Load()
	out := make([]Version, 0, len(s.workflows))
	for _, w := range s.workflows {
		out = append(out, w.versions[w.current])
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
