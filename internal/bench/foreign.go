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

// A benchmark writes freely to its data and its namespace: its nodes claim partitions, and replay deletes a state. So it uses only new
// directories and namespaces, and those that a benchmark has made.

// errForeign is returned for a directory or a namespace that no benchmark has made.
var errForeign = errors.New("no benchmark made it")

// markFile is in each directory that a benchmark has made. It is the first file there, so even a run that was killed early leaves it.
const markFile = "BENCH"

const markText = "sagalog bench made this directory and may use it again. Nobody else needs anything in it.\n"

// claimDirectory makes and marks the directory of --data. It writes nothing into a directory that others have made.
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
		return fmt.Errorf("--data %s holds files, and %w (there is no file %s in it): give a directory that is empty or does not exist yet", cfg.Dir, errForeign, markFile)
	}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return fmt.Errorf("make the data directory (--data): %w", err)
	}
	if err := os.WriteFile(mark, []byte(markText), 0o600); err != nil {
		return fmt.Errorf("mark the data directory (--data) as a benchmark's: %w", err)
	}
	return nil
}

// refuseForeign refuses a namespace that someone else uses: it holds a workflow that is not the benchmark's, or on
// --brokers it holds none, like the namespace of a new installation.
func (s *system) refuseForeign(ctx context.Context) error {
	if s.cfg.copied {
		return nil
	}
	what, remedy := "--namespace "+s.cfg.Namespace, "leave --namespace out for a new one, or name one that does not exist yet"
	if s.cfg.Cluster == nil {
		what, remedy = fmt.Sprintf("--data %s (namespace %s)", s.dir, s.cfg.Namespace), "give --data a directory that is empty or does not exist yet"
	}
	known, err := definedIn(ctx, s.cluster, s.topics)
	if err != nil {
		return fmt.Errorf("find out who made %s: %w", what, err)
	}
	switch {
	case known.other != "":
		return fmt.Errorf("%s holds the workflow %q, and %w: %s", what, known.other, errForeign, remedy)
	case known.made && !known.ours && s.cfg.Cluster != nil:
		return fmt.Errorf("%s exists and holds no workflow, so %w: %s", what, errForeign, remedy)
	}
	return nil
}

// refuseForeign refuses a namespace that someone else uses, since the agents of a benchmark would take their work. It returns whether
// a benchmark made the namespace: one without a workflow may be a new installation.
func refuseForeign(ctx context.Context, c *kafka.Cluster, namespace string) (ours bool, err error) {
	known, err := definedIn(ctx, c, kafka.Topics{Namespace: namespace})
	if err != nil {
		return false, fmt.Errorf("find out who made --namespace %s: %w", namespace, err)
	}
	if known.other != "" {
		return false, fmt.Errorf("--namespace %s holds the workflow %q, and %w: name the namespace of the benchmark that these agents serve", namespace, known.other, errForeign)
	}
	return known.ours, nil
}

// defined says what the definitions of a namespace reveal about its maker.
type defined struct {
	// made says that the namespace exists, ours that it holds the benchmark's workflow.
	made, ours bool
	// other is a workflow that is not the benchmark's.
	other string
}

// definedIn reads the definitions of a namespace, if it exists.
func definedIn(ctx context.Context, c *kafka.Cluster, topics kafka.Topics) (d defined, err error) {
	_, err = c.Partitions(ctx, topics.Definitions())
	if errors.Is(err, kafka.ErrUnknownTopic) {
		return d, nil
	}
	if err != nil {
		return d, err
	}
	catalog := scheduler.NewCatalog(nil)
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

// isFive says whether a definition belongs to a benchmark of this or another version: it has the benchmark's name and
// only the benchmark's agents.
func isFive(v *scheduler.Version) bool {
	def, err := scheduler.Complete(v.Body)
	if err != nil || v.Workflow != workflowName || len(def.Steps) != len(steps) {
		return false
	}
	for i := range def.Steps {
		if stepOf(def.Steps[i].Agent) < 0 {
			return false
		}
	}
	return true
}

// workflowName is the name in five.yaml.
const workflowName = "bench"
