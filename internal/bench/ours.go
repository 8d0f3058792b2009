package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/scheduler"
)

// A benchmark writes to its data and its namespace whatever it likes: nodes of it claim partitions, and replay throws a state
// away. So it takes only what is new, and what a benchmark has made.

// errForeign is returned for a directory or a namespace that no benchmark has made.
var errForeign = errors.New("no benchmark made it")

// markFile is in each directory that a benchmark has made. It is the first file there, so that a run that was killed early
// leaves it too.
const markFile = "BENCH"

const markText = "sagalog bench made this directory and takes it again. Nothing in it is needed by anybody else.\n"

// claimDirectory makes and marks the directory of --data. It writes nothing into one that others have made.
func claimDirectory(cfg *Config) error {
	mark := filepath.Join(cfg.Dir, markFile)
	entries, err := os.ReadDir(cfg.Dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("read the data directory (--data): %w", err)
	}
	if len(entries) > 0 {
		_, err := os.Stat(mark)
		switch {
		case err == nil || cfg.copied:
			return nil
		case !errors.Is(err, os.ErrNotExist):
			return fmt.Errorf("read the data directory (--data): %w", err)
		}
		return fmt.Errorf("--data %s holds files, and %w (there is no file %s in it): give a directory that is empty or not there yet", cfg.Dir, errForeign, markFile)
	}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return fmt.Errorf("make the data directory (--data): %w", err)
	}
	if err := os.WriteFile(mark, []byte(markText), 0o600); err != nil {
		return fmt.Errorf("mark the data directory (--data) as a benchmark's: %w", err)
	}
	return nil
}

// refuseForeign refuses a namespace in which somebody else works: it holds another workflow than the benchmark's, or on
// --brokers none at all, as that of a node which was just installed.
func (s *system) refuseForeign(ctx context.Context) error {
	if s.cfg.copied {
		return nil
	}
	what, remedy := "--namespace "+s.cfg.Namespace, "leave --namespace out for a new one, or name one that is not there yet"
	if s.cfg.Cluster == nil {
		what, remedy = fmt.Sprintf("--data %s (namespace %s)", s.dir, s.cfg.Namespace), "give --data a directory that is empty or not there yet"
	}
	known, err := definedIn(ctx, s.cluster, s.topics)
	if err != nil {
		return fmt.Errorf("look whose %s is: %w", what, err)
	}
	switch {
	case known.other != "":
		return fmt.Errorf("%s holds the workflow %q, and %w: %s", what, known.other, errForeign, remedy)
	case known.made && !known.ours && s.cfg.Cluster != nil:
		return fmt.Errorf("%s exists and holds no workflow, so %w: %s", what, errForeign, remedy)
	}
	return nil
}

// refuseForeign refuses agents of a benchmark for a namespace in which somebody else works: they would take his work. It
// tells whether it is a benchmark's: one without any workflow may be somebody's who has just begun.
func refuseForeign(ctx context.Context, c *kafka.Cluster, namespace string) (ours bool, err error) {
	known, err := definedIn(ctx, c, kafka.Topics{Namespace: namespace})
	if err != nil {
		return false, fmt.Errorf("look whose --namespace %s is: %w", namespace, err)
	}
	if known.other != "" {
		return false, fmt.Errorf("--namespace %s holds the workflow %q, and %w: name that of the benchmark which these agents are for", namespace, known.other, errForeign)
	}
	return known.ours, nil
}

// defined is what the definitions of a namespace tell of who made it.
type defined struct {
	// made says that the namespace is there, ours that it holds the benchmark's workflow.
	made, ours bool
	// other is a workflow that is not the benchmark's.
	other string
}

// definedIn reads the definitions of a namespace, and nothing of a namespace that is not there.
func definedIn(ctx context.Context, c *kafka.Cluster, topics kafka.Topics) (d defined, err error) {
	_, err = c.Partitions(ctx, topics.Definitions())
	if errors.Is(err, kafka.ErrUnknownTopic) {
		return d, nil
	}
	if err != nil {
		return d, err
	}
	catalog := scheduler.NewCatalog()
	err = c.ReadRange(ctx, topics.Definitions(), 0, 0, -1, func(r events.Record) error { return catalog.Apply(&r) })
	if err != nil {
		return d, err
	}
	_, d.made = catalog.Namespace()
	for _, v := range catalog.List() {
		if isFive(&v) {
			d.ours = true
		} else {
			d.other = v.Workflow
		}
	}
	return d, nil
}

// isFive tells whether a definition is that of this benchmark, or of another version of it: its name, and no other agents
// than the benchmark's.
func isFive(v *scheduler.Version) bool {
	def, err := scheduler.Complete(v.Body)
	if err != nil || v.Workflow != workflowName || len(def.Steps) != len(steps) {
		return false
	}
	for i := range def.Steps {
		if stepOf([]byte(def.Steps[i].Agent)) < 0 {
			return false
		}
	}
	return true
}

// workflowName is the name in five.yaml.
const workflowName = "bench"
