package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
	"github.com/sagalog/sagalog/scheduler"
	"github.com/spf13/cobra"
)

const definitionArguments = "A definition is a file (- is stdin), or NAME or NAME@VERSION of an engine. A file wins over a workflow of that name."

var diffFormats = []string{formatText, formatJSON}

func diffCommand(d Deps) *cobra.Command {
	c := &cobra.Command{
		Use: "diff A B", Short: "Compare what two definitions mean", Args: cobra.ExactArgs(2),
		Long: "Compare what two definitions mean: their members and steps with all defaults filled in, whatever their order, spacing and format.\n" +
			definitionArguments + " The exit code is 1 if they differ.",
		Example: "  sagalog workflow diff drone-delivery workflow.yaml\n  sagalog workflow diff drone-delivery@1 drone-delivery@2 -o json",
		RunE: func(cmd *cobra.Command, args []string) error {
			format, err := formatOf(cmd, diffFormats)
			if err != nil {
				return err
			}
			a, err := definitionOf(cmd, d, args[0])
			if err != nil {
				return err
			}
			b, err := definitionOf(cmd, d, args[1])
			if err != nil {
				return err
			}
			changes, err := compareDefinitions(a, b)
			if err != nil {
				return err
			}
			if err := printChanges(cmd.OutOrStdout(), format, changes); err != nil {
				return err
			}
			if len(changes) > 0 {
				return &codeError{code: ExitError, err: errors.New("they differ"), quiet: true}
			}
			return nil
		},
	}
	return formatsOf(c, diffFormats)
}

// definitionOf returns the definition that an argument names, with its defaults filled in.
func definitionOf(cmd *cobra.Command, d Deps, arg string) (*scheduler.Definition, error) {
	_, err := os.Stat(arg)
	if arg != "-" && errors.Is(err, fs.ErrNotExist) && !strings.ContainsAny(arg, "/\\") {
		return appliedDefinition(cmd, arg)
	}
	src, faults, err := load(cmd, d, arg)
	if err != nil {
		return nil, err
	}
	bad := 0
	for _, f := range faults {
		fmt.Fprintln(cmd.ErrOrStderr(), Printable(f.String()))
		if !f.Warning {
			bad++
		}
	}
	if src == nil {
		return nil, exit(ExitError, "%s has %s", arg, Counted(bad, "fault"))
	}
	return scheduler.Complete(src.Body)
}

// appliedDefinition reads NAME or NAME@VERSION from an engine.
func appliedDefinition(cmd *cobra.Command, arg string) (*scheduler.Definition, error) {
	name, version, versioned := strings.Cut(arg, "@")
	q := url.Values{}
	if versioned {
		if n, err := strconv.Atoi(version); err != nil || n < 1 {
			return nil, Usage("%q is no file, and %q is not a version: versions count from 1", arg, version)
		}
		q.Set("version", version)
	}
	c, err := callerOf(cmd)
	if err != nil {
		return nil, err
	}
	defer c.close()
	doc, err := c.get(cmd.Context(), "/v1/workflows/"+url.PathEscape(name), q)
	if err != nil {
		return nil, fmt.Errorf("%s is no file here; ask the engine for workflow %s: %w", arg, name, err)
	}
	var w api.WorkflowDocument
	if err := decode(doc, &w); err != nil {
		return nil, err
	}
	return scheduler.Complete(w.Definition)
}

// change is a difference of two definitions. From is absent if something was added, To if it was removed.
type change struct {
	Path string          `json:"path"`
	From json.RawMessage `json:"from,omitempty"`
	To   json.RawMessage `json:"to,omitempty"`
}

// compareDefinitions returns the differences by path.
func compareDefinitions(a, b *scheduler.Definition) ([]change, error) {
	x, err := membersOf(a)
	if err != nil {
		return nil, err
	}
	y, err := membersOf(b)
	if err != nil {
		return nil, err
	}
	return compareMembers("", x, y)
}

// membersOf returns a definition as a JSON object whose steps are an object by ID.
func membersOf(d *scheduler.Definition) (map[string]any, error) {
	raw, err := events.Marshal(d)
	if err != nil {
		return nil, err
	}
	var m map[string]any
	if err := decodeNumbers(raw, &m); err != nil {
		return nil, err
	}
	steps := map[string]any{}
	list, _ := m["steps"].([]any)
	for _, s := range list {
		if step, ok := s.(map[string]any); ok {
			id, _ := step["id"].(string)
			delete(step, "id")
			steps[id] = step
		}
	}
	m["steps"] = steps
	return m, nil
}

// decodeNumbers keeps numbers as they are written.
func decodeNumbers(raw []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	return d.Decode(into)
}

// compareMembers compares objects member by member. What only one of them has is one change.
func compareMembers(path string, a, b map[string]any) (list []change, err error) {
	keys := slices.Sorted(maps.Keys(a))
	for k := range b {
		if _, both := a[k]; !both {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	for _, k := range keys {
		at := strings.TrimPrefix(path+"."+k, ".")
		x, inA := a[k]
		y, inB := b[k]
		below, okA := x.(map[string]any)
		other, okB := y.(map[string]any)
		if okA && okB {
			more, err := compareMembers(at, below, other)
			if err != nil {
				return nil, err
			}
			list = append(list, more...)
			continue
		}
		c := change{Path: at}
		if inA {
			if c.From, err = events.Marshal(x); err != nil {
				return nil, err
			}
		}
		if inB {
			if c.To, err = events.Marshal(y); err != nil {
				return nil, err
			}
		}
		if !bytes.Equal(c.From, c.To) {
			list = append(list, c)
		}
	}
	return list, nil
}

func printChanges(out io.Writer, format string, changes []change) error {
	if format == formatJSON {
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		return e.Encode(struct {
			Changes []change `json:"changes"`
		}{append([]change{}, changes...)})
	}
	for _, c := range changes {
		switch {
		case c.From == nil:
			fmt.Fprintf(out, "+ %s: %s\n", Printable(c.Path), Printable(plainText(c.To)))
		case c.To == nil:
			fmt.Fprintf(out, "- %s: %s\n", Printable(c.Path), Printable(plainText(c.From)))
		default:
			fmt.Fprintf(out, "~ %s: %s -> %s\n", Printable(c.Path), Printable(plainText(c.From)), Printable(plainText(c.To)))
		}
	}
	return nil
}

// plainText shows a text without its quotes, and everything else as JSON.
func plainText(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	return string(raw)
}
