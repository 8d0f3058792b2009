package export

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/verify"
)

// planFile says in the directory of a table what is exported into it, and how far that is. Readers of a directory skip names that begin like this.
const planFile = "_export.json"

// plan is what is exported, and how far that is.
type plan struct {
	Table     string         `json:"table"`
	Namespace string         `json:"namespace"`
	Format    Format         `json:"format"`
	Since     events.Instant `json:"since,omitzero"`
	Until     events.Instant `json:"until,omitzero"`
	Asked     string         `json:"asked,omitempty"`
	Workflow  string         `json:"workflow,omitempty"`
	Payloads  bool           `json:"payloads"`
	Objects   []string       `json:"objects,omitempty"`
	// Parts are the ranges of the partitions, by partition.
	Parts    []planPart `json:"partitions"`
	Complete bool       `json:"complete"`

	mu   sync.Mutex
	path string
	// ends is Config.Ends.
	ends []int64
}

// planPart is the range of a partition: From <= offset < To. The rows of the facts before Next are in complete files, and if it is done, all rows.
type planPart struct {
	From int64 `json:"from"`
	To   int64 `json:"to"`
	Next int64 `json:"next"`
	Done bool  `json:"done,omitzero"`
	// Files is how many files the partition has, once it is done.
	Files int `json:"files,omitzero"`
}

// ErrOther says that a directory holds another export, or other files.
var ErrOther = errors.New("the directory holds something else")

// openPlan reads the plan of a directory, or begins one whose ranges end where the log ends now.
func openPlan(dir string, want *plan, bounds []verify.Bounds) (*plan, error) {
	want.path = filepath.Join(dir, planFile)
	b, err := os.ReadFile(want.path)
	if errors.Is(err, os.ErrNotExist) {
		if err := want.begin(bounds); err != nil {
			return nil, err
		}
		return want, want.write()
	}
	if err != nil {
		return nil, err
	}
	old := &plan{path: want.path}
	if err := json.Unmarshal(b, old); err != nil {
		return nil, fmt.Errorf("read %s: %w", want.path, err)
	}
	if !reflect.DeepEqual(old.asked(), want.asked()) || len(old.Parts) != len(bounds) {
		return nil, fmt.Errorf("%w: the export in %s was begun with other flags or for another namespace: give the same flags, or another directory", ErrOther, dir)
	}
	if err := old.beside(want); err != nil {
		return nil, err
	}
	for i, p := range old.Parts {
		if files, err := filesOfPart(dir, i); err != nil || p.Done && files != p.Files {
			return nil, errors.Join(err, fmt.Errorf("%s has %d files of partition %d, and %d were written: begin again in another directory", dir, files, i, p.Files))
		}
		if _, err := old.begins(i, bounds[i].Start); err != nil {
			return nil, err
		}
		if p.To > bounds[i].End {
			return nil, fmt.Errorf("partition %d of the log ends at offset %d, but the export at %d, so it is of another log: give another directory", i, bounds[i].End, p.To)
		}
	}
	return old, nil
}

// beside refuses a plan that was begun for other records than want, if want is beside another table: see Result.Beside.
func (p *plan) beside(want *plan) error {
	if want.ends == nil {
		return nil
	}
	same := p.Since == want.Since && p.Until == want.Until && len(p.Parts) == len(want.ends)
	for i := 0; same && i < len(p.Parts); i++ {
		same = p.Parts[i].To == max(p.Parts[i].From, want.ends[i]) // the log may have begun behind that end
	}
	if same {
		return nil
	}
	return fmt.Errorf("%w: %s is of an earlier export, and about other records than the table beside it: delete it, or give another directory", ErrOther, filepath.Dir(p.path))
}

// begin sets the ranges of a plan that is begun.
func (p *plan) begin(bounds []verify.Bounds) error {
	if p.ends != nil && len(p.ends) != len(bounds) {
		return fmt.Errorf("the log has %d partitions, and %d were exported before, so it is another log: give another directory", len(bounds), len(p.ends))
	}
	for i, at := range bounds {
		end := at.End
		if p.ends != nil {
			end = max(at.Start, p.ends[i])
		}
		if end > at.End {
			return fmt.Errorf("partition %d of the log ends at offset %d, but what was exported before ends at offset %d, so this is another log: give another directory", i, at.End, end)
		}
		p.Parts = append(p.Parts, planPart{From: at.Start, To: end, Next: at.Start})
	}
	return nil
}

// asked is what the caller asked for.
func (p *plan) asked() []any {
	return []any{p.Table, p.Namespace, p.Format, p.Asked, p.Workflow, p.Payloads, p.Objects}
}

func (p *plan) write() error {
	b, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(p.path+".partial", append(b, '\n'), 0o644); err != nil {
		return err
	}
	return os.Rename(p.path+".partial", p.path)
}

// begins returns the range of a partition whose log begins at start now: facts may have been deleted since the plan was made. It is an error if the export
// would have a gap.
func (p *plan) begins(partition int, start int64) (planPart, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := &p.Parts[partition]
	switch start = min(start, at.To); {
	case at.Done || at.Next >= start:
	case at.Next == at.From: // nothing of it was exported: it begins later, as all exports of a log that was cut
		at.From, at.Next = start, start
	default:
		return *at, fmt.Errorf("the facts of partition %d before offset %d are gone from the log, and those from %d on were not exported yet: begin again in another directory", partition, start, at.Next)
	}
	return *at, nil
}

// passed records that the rows of a partition before next are in complete files.
func (p *plan) passed(partition int32, next int64) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.Parts[partition].Next = next
	return p.write()
}

// done records that all rows of a partition are in complete files.
func (p *plan) done(partition int32, dir string) error {
	files, err := filesOfPart(dir, int(partition))
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.Parts[partition].Done, p.Parts[partition].Files = true, files
	return p.write()
}

// filesOfPart counts the complete files of a partition.
func filesOfPart(dir string, partition int) (int, error) {
	found, err := filepath.Glob(filepath.Join(dir, "date=*", fmt.Sprintf("%05d-*", partition)))
	if err != nil {
		return 0, err
	}
	return len(slices.DeleteFunc(found, func(name string) bool { return strings.HasSuffix(name, ".partial") })), nil
}
